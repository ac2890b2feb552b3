package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// way is how the workers keep out of each other's way.
type way interface {
	// tick is what a worker does each time its timer fires. Calls for one worker
	// overlap if they take longer than that.
	tick(ctx context.Context, w *worker) error
	close() error
}

// job is what the workers of one simulation share.
type job struct {
	workers    []*worker
	store      *store
	accounting *accounting
	counts     counts
}

// counts of what happened, besides what the API and the database have recorded.
type counts struct {
	atWork       atomic.Int64 // runs under way that have, or had, the lock
	overlapped   atomic.Int64 // runs that began while another was under way
	lost         atomic.Int64 // runs that lost the lock before their end
	crashed      atomic.Int64
	foreignDels  atomic.Int64 // see unlock in redisway.go
	staleRefused atomic.Int64 // by the database
}

// enter notes that a worker has got the lock and begins.
func (j *job) enter(w *worker) {
	if j.counts.atWork.Add(1) > 1 {
		j.counts.overlapped.Add(1)
		w.log("%s has the lock; another has not finished", w.name)
	}
}

func (j *job) leave() { j.counts.atWork.Add(-1) }

// push sends a batch to the API. A slow answer keeps the caller waiting and not the
// process.
func (j *job) push(ctx context.Context, w *worker, hit pause, p push) (booking int64, err error) {
	p.Worker = w.name
	if hit.place == slowAnswer {
		w.log("the API takes %v to answer %s, batch %d", hit.length.Round(time.Millisecond), w.name, p.Batch)
		p.Slow = hit.length.Milliseconds()
	}
	return send(ctx, j.accounting.url, p)
}

// simulate lets the timer of all workers tick until every batch has come and is
// marked, and each run has ended. The first error ends it.
func simulate(ctx context.Context, o options, way way, job *job) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("not finished after %v", o.limit))
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var runs sync.WaitGroup
	timer := time.NewTicker(o.tick)
	defer timer.Stop()
	for arrived, done := 0, false; !done && ctx.Err() == nil; {
		// A quarter of the batches is there at the beginning, the others come by and by.
		next := min(o.batches, max(o.batches/4, arrived+o.arrivals))
		if next > arrived {
			if err := job.store.add(ctx, arrived+1, next); err != nil {
				fail(err)
			}
		}
		arrived = next
		for _, w := range job.workers {
			if w.stopped() {
				continue
			}
			runs.Go(func() {
				if err := way.tick(ctx, w); err != nil {
					fail(fmt.Errorf("%s: %w", w.name, err))
				}
			})
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		left, err := pending(ctx, job.store)
		if err != nil {
			fail(err)
		}
		done = len(left) == 0 && arrived == o.batches
	}
	runs.Wait()
	return context.Cause(ctx)
}
