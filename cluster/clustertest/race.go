//go:build race

package clustertest

import "runtime"

// The race detector keeps one context for all timers of a bubble, and is not
// prepared for two threads that let timers of one bubble fire at the same moment:
// the process then crashes inside the detector (Go 1.25 and 1.26). On one
// processor there are never two. Races are found all the same, by the order of
// events and not by their coincidence.
func init() { runtime.GOMAXPROCS(1) }
