package cluster_test

import (
	"syscall"
	"time"
)

// realTime starts a stopwatch that, in a bubble too, counts real seconds.
func realTime() func() time.Duration {
	now := func() time.Duration {
		var tv syscall.Timeval
		syscall.Gettimeofday(&tv)
		return time.Duration(tv.Nano())
	}
	start := now()
	return func() time.Duration { return now() - start }
}
