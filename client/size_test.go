//go:build !race

package client_test

// manyLeases is how many leases one client holds in a test.
const manyLeases = 10_000
