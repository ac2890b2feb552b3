//go:build race

package fsm_test

import "runtime"

// The race detector may crash when timers of one bubble fire on two threads at
// once; see package clustertest.
func init() { runtime.GOMAXPROCS(1) }
