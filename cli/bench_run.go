package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"leasehold/client"
)

// benchRun is one bench: its workers, and what they share.
type benchRun struct {
	flags   benchFlags
	client  *client.API // finds the leader; the load goes past it
	workers []*worker

	// begin and end bound the time measured. They are set before the workers
	// start and do not change then.
	begin, end time.Time

	mu     sync.Mutex // guards leader, and lets one worker at a time look for it
	leader string     // host:port
}

func newBenchRun(f benchFlags, c *client.API) *benchRun {
	run := &benchRun{flags: f, client: c}
	id := strings.ToLower(rand.Text()[:8]) // so that runs do not meet each other's leases
	for i := range f.clients {
		run.workers = append(run.workers, &worker{
			run:  run,
			name: fmt.Sprintf("bench/%s/%d", id, i), holder: fmt.Sprintf("bench-%s-%d", id, i),
			errors: make(map[string]uint64),
		})
	}
	return run
}

// do runs the bench and writes a progress line a second.
func (b *benchRun) do(ctx context.Context, progress io.Writer) error {
	if err := b.moved(ctx, ""); err != nil {
		return err
	}
	if err := b.each(func(w *worker) error { return w.prepare(ctx) }); err != nil {
		return err
	}
	b.begin = time.Now().Add(b.flags.warmup)
	b.end = b.begin.Add(b.flags.duration.duration())
	stop := make(chan struct{})
	var reporter sync.WaitGroup
	reporter.Go(func() { b.report(progress, stop) })
	// One worker that cannot go on ends the bench.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := b.each(func(w *worker) error {
		err := w.loop(ctx)
		if err != nil {
			cancel(err)
		}
		return err
	})
	close(stop)
	reporter.Wait()
	return err
}

// each runs f for every worker at once, and gives the first error.
func (b *benchRun) each(f func(*worker) error) error {
	errs := make(chan error, len(b.workers))
	for _, w := range b.workers {
		go func() { errs <- f(w) }()
	}
	var first error
	for range b.workers {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// prepare connects the worker, and gets it the lease that it is to renew.
func (w *worker) prepare(ctx context.Context) error {
	if w.run.flags.work != workRenew {
		return nil
	}
	const tries = 10
	var err error
	for range tries {
		if err = w.acquire(ctx); err == nil {
			return nil
		}
		if fatal := w.recover(ctx, err); fatal != nil {
			return fatal
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(err, ctxErr(ctx))
}

// target is where the load goes.
func (b *benchRun) target() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leader
}

// moved finds the leader again after from did not serve. Whoever comes while
// another looks waits, and then finds the answer.
func (b *benchRun) moved(ctx context.Context, from string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leader != from {
		return nil
	}
	if !b.end.IsZero() { // later, no one needs to know
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, b.end)
		defer cancel()
	}
	// A read that only a leader answers teaches the client who that is.
	if _, err := b.client.Lease(ctx, "bench", client.Linearizable); err != nil {
		return err
	}
	leader := b.client.Leader()
	if strings.HasPrefix(leader, "https://") {
		return errors.New("bench cannot speak TLS")
	}
	b.leader = strings.TrimPrefix(leader, "http://")
	return nil
}

// report writes what happens while it happens.
func (b *benchRun) report(out io.Writer, stop <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, lastDone := time.Now(), uint64(0)
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			done, failed := uint64(0), uint64(0)
			for _, w := range b.workers {
				done += w.done.Load()
				failed += w.failed.Load()
			}
			phase := "warm-up"
			if now.After(b.begin) {
				phase = fmt.Sprintf("%.0fs", now.Sub(b.begin).Seconds())
			}
			rate := float64(done-lastDone) / now.Sub(last).Seconds()
			fmt.Fprintf(out, "%8s  %8.0f ops/s  %d failed tries so far\n", phase, rate, failed)
			last, lastDone = now, done
		}
	}
}

// result adds up what the workers found. They have ended.
func (b *benchRun) result() benchResult {
	measured := b.flags.duration.duration()
	if now := time.Now(); now.Before(b.end) { // cut short
		measured = max(now.Sub(b.begin), time.Millisecond)
	}
	r := benchResult{
		Work: b.flags.work, Clients: b.flags.clients, Leader: b.target(),
		DurationMillis: measured.Milliseconds(), TTLMillis: int64(b.flags.ttl),
		Errors: make(map[string]uint64),
	}
	var all latencies
	for _, w := range b.workers {
		r.Operations += w.completed
		r.Unfinished += w.unfinished
		all.merge(&w.latencies)
		for code, n := range w.errors {
			r.Errors[code] += n
		}
	}
	r.PerSecond = float64(r.Operations) / measured.Seconds()
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	r.P50, r.P99 = ms(all.quantile(0.5)), ms(all.quantile(0.99))
	r.P999, r.Max = ms(all.quantile(0.999)), ms(all.max)
	return r
}
