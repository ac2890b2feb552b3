package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
)

type benchFlags struct {
	*access
	clients  int
	duration millis
	warmup   time.Duration
	ttl      millis
	work     string
}

// The kinds of work that a bench can do.
const (
	workCycle = "cycle"
	workRenew = "renew"
)

func (p *program) benchCommand() *urfave.Command {
	f := &benchFlags{access: newAccess(), duration: 5000, ttl: 60_000}
	return &urfave.Command{
		Name:      "bench",
		Usage:     "measure how many operations the cluster does",
		UsageText: "leasehold bench [--clients 16] [--duration 5s] [--work cycle|renew] [--ttl 60s] [--warmup 1s] [--json]",
		Description: "Each client has a lease of its own and one connection to the leader. An operation is\n" +
			"  cycle   an acquire and a release\n" +
			"  renew   a renewal of a lease that was acquired before\n" +
			"\n" +
			"Closed loop: a client begins an operation when the one before has ended, so a slow server is also asked\n" +
			"less, and the latencies are those of this many clients, not of a fixed rate of arrivals. An operation that\n" +
			"fails is tried again until it succeeds, and its latency runs from the first try: a failover shows in max.\n" +
			"Latencies are exact to 1 %, the largest is exact.",
		Flags: append([]urfave.Flag{
			&urfave.IntFlag{Name: "clients", Value: 16, Destination: &f.clients, Usage: "how many work at the same time"},
			&urfave.GenericFlag{Name: "duration", Value: &f.duration, Usage: "how long to measure, as `DURATION`"},
			&urfave.DurationFlag{Name: "warmup", Value: time.Second, Destination: &f.warmup, Usage: "how long to work before that, as `DURATION`"},
			&urfave.StringFlag{Name: "work", Value: workCycle, Destination: &f.work, Usage: workCycle + " or " + workRenew},
			&urfave.GenericFlag{Name: "ttl", Value: &f.ttl, Usage: "the TTL of the leases, as `DURATION`"},
		}, f.flags()...),
		Action: func(c *urfave.Context) error { return p.bench(c, f) },
	}
}

func (p *program) bench(c *urfave.Context, f *benchFlags) error {
	if err := noArguments(c); err != nil {
		return err
	}
	switch {
	case f.clients <= 0 || f.clients > 100_000:
		return usagef(c, "--clients %d is not from 1 to 100000", f.clients)
	case f.warmup < 0:
		return usagef(c, "--warmup %v is negative", f.warmup)
	case f.work != workCycle && f.work != workRenew:
		return usagef(c, "--work %q is neither %s nor %s", f.work, workCycle, workRenew)
	}
	cl, err := p.client(c, f.access)
	if err != nil {
		return err
	}
	defer cl.Close()
	run := newBenchRun(*f, cl)
	err = run.do(c.Context, p.stderr)
	if err != nil && run.begin.IsZero() {
		return err // nothing was measured
	}
	// What was measured until a signal, or an error, is worth printing.
	result := run.result()
	print := p.printBench
	if f.json {
		print = func(r benchResult) error { return p.printJSON(r) }
	}
	if err := errors.Join(err, print(result)); err != nil {
		return err
	}
	if result.Operations == 0 {
		return errors.New("no operation succeeded in the time measured")
	}
	return nil
}

// benchResult is what a bench found. Rates and latencies are of the operations
// that succeeded.
type benchResult struct {
	Work           string  `json:"work"`
	Clients        int     `json:"clients"`
	DurationMillis int64   `json:"duration_ms"`
	TTLMillis      int64   `json:"ttl_ms"`
	Leader         string  `json:"leader"` // the last one
	Operations     uint64  `json:"operations"`
	PerSecond      float64 `json:"ops_per_second"`
	P50            float64 `json:"p50_ms"`
	P99            float64 `json:"p99_ms"`
	P999           float64 `json:"p99_9_ms"`
	Max            float64 `json:"max_ms"`
	// Errors are tries that failed in the time measured, by the code of the
	// problem, or "connection", "timeout".
	Errors map[string]uint64 `json:"errors"`
	// Unfinished operations were still without success when time was up. Their
	// latencies are in no figure.
	Unfinished uint64 `json:"unfinished"`
}

func (p *program) printBench(r benchResult) error {
	t := newTable(p.stdout)
	t.row("work", r.Work)
	t.row("clients", number(r.Clients))
	t.row("leader", r.Leader)
	t.row("measured", millis(r.DurationMillis).String())
	t.row("operations", number(r.Operations))
	t.row("ops/s", fmt.Sprintf("%.0f", r.PerSecond))
	for _, l := range []struct {
		name  string
		value float64
	}{{"p50", r.P50}, {"p99", r.P99}, {"p99.9", r.P999}, {"max", r.Max}} {
		t.row(l.name, fmt.Sprintf("%.3f ms", l.value))
	}
	errs := "none"
	if len(r.Errors) > 0 {
		var counts []string
		for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
			counts = append(counts, fmt.Sprintf("%s %d", code, r.Errors[code]))
		}
		errs = strings.Join(counts, ", ")
	}
	t.row("errors", errs)
	if r.Unfinished > 0 {
		t.row("unfinished", number(r.Unfinished))
	}
	return t.flush()
}

// ctxErr gives why ctx ended, nil if it has not.
func ctxErr(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
