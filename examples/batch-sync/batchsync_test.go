package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/examples/nodes"
)

// sideBySide is how many simulations run at the same time: most of one is waiting.
const sideBySide = 6

// simulateSeeds runs one way with many seeds and gives all results.
func simulateSeeds(t *testing.T, o options, way string, seeds int) []result {
	t.Helper()
	results := make([]result, seeds)
	// They begin one after the other, or all workers of all of them would tick in step.
	begin := time.NewTicker(o.tick / sideBySide)
	defer begin.Stop()
	places := make(chan struct{}, sideBySide)
	var all sync.WaitGroup
	for i := range seeds {
		places <- struct{}{}
		<-begin.C
		all.Go(func() {
			defer func() { <-places }()
			o := o
			o.seed = uint64(i + 1)
			var err error
			if results[i], err = runOne(t.Context(), o, way, io.Discard); err != nil {
				t.Errorf("%s, seed %d: %v", way, o.seed, err)
			}
		})
	}
	all.Wait()
	return results
}

// slow are the options of a run without flags, at a third of the speed: so a
// machine that is busy with other things loses few leases by that.
func slow(t *testing.T) options {
	t.Helper()
	o, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.ttl, o.tick, o.answer = 3*o.ttl, 3*o.tick, 3*o.answer
	o.limit = 5 * time.Minute
	return o
}

func sum(results []result, value func(result) int) (n int) {
	for _, r := range results {
		n += value(r)
	}
	return n
}

// TestWays ensures what the two ways come to, with the same pauses.
func TestWays(t *testing.T) {
	cluster, err := nodes.Start(3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	seeds := 50
	if testing.Short() {
		seeds = 10
	}
	o := slow(t)
	o.server = strings.Join(cluster.Servers(), ",")
	short := o
	short.workers, short.batches = 5, 12
	crashing := short
	crashing.crashes = true

	t.Run("redis", func(t *testing.T) { t.Parallel(); redisDoubles(t, simulateSeeds(t, o, "redis", 8)) })
	t.Run("leasehold", func(t *testing.T) { t.Parallel(); pausesBite(t, simulateSeeds(t, short, "leasehold", seeds)) })
	t.Run("leasehold, crashes", func(t *testing.T) { crashesBite(t, simulateSeeds(t, crashing, "leasehold", 12)) })
}

// redisDoubles: with a lock in Redis batches are booked twice, with every seed, and
// locks of others are deleted, with most.
func redisDoubles(t *testing.T, results []result) {
	foreign := 0
	for i, r := range results {
		if r.doubled == 0 || r.lost == 0 {
			t.Errorf("seed %d: %d batches doubled after %d locks were lost, want both: %+v", i+1, r.doubled, r.lost, r)
		}
		if r.foreignDels > 0 {
			foreign++
		}
	}
	t.Logf("%d batches doubled, %d DELs of another's lock, with %d of %d seeds",
		sum(results, func(r result) int { return r.doubled }), sum(results, func(r result) int { return r.foreignDels }), foreign, len(results))
	if foreign <= len(results)/2 {
		t.Errorf("locks of others were deleted with %d of %d seeds only", foreign, len(results))
	}
}

// pausesBite: with a lease, a token and a key every batch is booked once and marked
// once; and the pauses bit: leases were lost, batches pushed again, writes refused.
func pausesBite(t *testing.T, results []result) {
	onceEach(t, results)
	lost := sum(results, func(r result) int { return r.lost })
	repeated := sum(results, func(r result) int { return r.repeated })
	refused := sum(results, func(r result) int { return r.staleRefused })
	t.Logf("%d leases lost, %d batches pushed again, %d stale writes refused", lost, repeated, refused)
	if lost < len(results) || repeated == 0 || refused == 0 {
		t.Error("the pauses did too little to show anything")
	}
}

// crashesBite: the same, when workers also crash at the places where they can be
// stopped.
func crashesBite(t *testing.T, results []result) {
	onceEach(t, results)
	crashed := sum(results, func(r result) int { return r.crashed })
	t.Logf("%d crashes", crashed)
	if crashed == 0 {
		t.Error("no worker has crashed")
	}
}

func onceEach(t *testing.T, results []result) {
	t.Helper()
	for i, r := range results {
		if r.doubled != 0 || r.missed != 0 || r.twice != 0 || r.bookings != r.batches {
			t.Errorf("seed %d: %d batches doubled, %d missed, %d marked twice: %+v", i+1, r.doubled, r.missed, r.twice, r)
		}
	}
}

// TestRun_Table ensures that a run prints what both ways came to.
func TestRun_Table(t *testing.T) {
	o, err := parse([]string{"-batches", "3", "-pause-every", "0"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if !strings.Contains(out.String(), "\n"+row.text) {
			t.Errorf("there is no %q in\n%s", row.text, &out)
		}
	}
}

// TestPauses_OfTheSeed ensures that a pause depends on the seed, the worker and the
// step alone, that it is long against the TTL, and that it comes as often as it says.
func TestPauses_OfTheSeed(t *testing.T) {
	const steps = 1000
	p := pauses{seed: 7, every: 20, ttl: 200 * time.Millisecond}
	other := p
	other.seed = 8
	differ := false
	for worker := range 10 {
		first, hits := -1, 0
		for step := range steps {
			hit := p.of(worker, step)
			if again := p.of(worker, step); again != hit {
				t.Fatalf("worker %d, step %d: %+v, then %+v", worker, step, hit, again)
			}
			differ = differ || other.of(worker, step) != hit
			if hit.place == nowhere {
				continue
			}
			if hits++; first < 0 {
				first = step
			}
			if hit.length < 2*p.ttl || hit.length >= 3*p.ttl || hit.crash {
				t.Errorf("worker %d, step %d: %+v", worker, step, hit)
			}
		}
		if first < 0 || first > 2 || hits != steps/p.every {
			t.Errorf("worker %d has its first pause at step %d, and %d in all", worker, first, hits)
		}
	}
	if !differ {
		t.Error("another seed gives the same pauses")
	}
}

// TestParse_Refuses ensures that options which cannot work are refused.
func TestParse_Refuses(t *testing.T) {
	for _, args := range []string{"-way none", "-workers 0", "-batches 0", "-tick 0s", "-ttl 1ms", "-pause-every -1", "more", "-unknown"} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || errors.Is(err, flag.ErrHelp) {
			t.Errorf("parse(%s) = %v, want an error", args, err)
		}
	}
}
