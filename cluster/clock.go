package cluster

import (
	"context"
	"sync"
	"time"

	"leasehold/faults/lab"
)

// The lease clock runs on monotonic time, but only while this process
// demonstrably runs. A ticker reads it every clockTick; the time between two
// readings counts up to clockMaxStep, and what is beyond is dropped, because
// then the process was paused, starved or its machine was stopped. So a leader
// that wakes up from a pause finds that its leases have hardly aged, and its
// clients, whose renewals are waiting in the socket, get to renew first.
//
//	monotonic  ──┬──┬──┬─────── paused ───────┬──┬──
//	lease clock ─┴──┴──┴─ at most clockMaxStep ─┴──┴──
//
// Each reading is both the check for a stall and the time that deadlines are
// compared with. Two readings would leave a gap for a pause to hide in.
const (
	clockTick    = 25 * time.Millisecond
	clockMaxStep = 100 * time.Millisecond
	clockStands  = 24 * time.Hour // stands for ever
)

// leaseClock measures the time of one leadership.
type leaseClock struct {
	lab *lab.Board // whose faults it has, nil but in a lab

	mu      sync.Mutex
	read    time.Time     // of the latest reading, monotonic
	elapsed time.Duration // lease time at that reading
	stalled time.Duration // dropped so far
}

func newLeaseClock(board *lab.Board) *leaseClock { return &leaseClock{lab: board, read: time.Now()} }

// Now returns the lease time since the clock was made.
func (c *leaseClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	step := now.Sub(c.read)
	if step > clockMaxStep {
		c.stalled += step - clockMaxStep
		step = clockMaxStep
	}
	c.read = now
	c.elapsed += step * time.Duration(rate(c.lab)) / 100
	return c.elapsed
}

// lasts is how long to sleep until so much lease time has passed. That differs in a
// lab only.
func (c *leaseClock) lasts(left time.Duration) time.Duration {
	percent := time.Duration(rate(c.lab))
	if percent == 100 {
		return left
	}
	if percent == 0 {
		return clockStands
	}
	return (min(left, clockStands)*100 + percent - 1) / percent
}

// run keeps the clock going until ctx ends.
func (c *leaseClock) run(ctx context.Context) {
	tick := time.NewTicker(clockTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.Now()
		case <-ctx.Done():
			return
		}
	}
}
