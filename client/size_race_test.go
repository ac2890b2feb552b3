//go:build race

package client_test

const manyLeases = 1000 // the race detector makes each of them ten times as dear
