package check_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"leasehold/torture/check"
	"leasehold/torture/history"
)

// long is a run of a minute: 20 clients and 24 names, and so many calls that
// there are about 50,000 operations in the end.
func long(tb testing.TB) *history.History {
	names := simNames
	defer func() { simNames = names }()
	simNames = nil
	for i := range 24 {
		simNames = append(simNames, fmt.Sprintf("name/%d", i))
	}
	w := &simulation{rng: rand.New(rand.NewPCG(1, 7)), rec: history.NewRecorder(nil), term: 1, waiting: make(map[history.Attempt][]*flight), length: time.Minute, busy: true}
	h := w.run(20, 6)
	if n := len(h.Operations); n < 30_000 {
		tb.Fatalf("%d operations, want 30,000 at least", n)
	}
	return h
}

// A run of the size that torture makes is judged in half a minute and 2 GB, and
// to its end.
func TestCheck_LongHistory_IsDecidedInTime(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("it measures time")
	}
	h := long(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	report := check.Check(h, check.DefaultParams())
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if report.Verdict != check.Holds {
		t.Fatalf("%s", text(report))
	}
	allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
	t.Logf("%d operations, %d entries: %v, %d MB allocated\n%s", len(h.Operations), len(h.Entries), took, allocated, text(report))
	if took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

func BenchmarkCheck(b *testing.B) {
	h := long(b)
	b.ReportMetric(float64(len(h.Operations)), "operations")
	b.ReportAllocs()
	for b.Loop() {
		if report := check.Check(h, check.DefaultParams()); report.Verdict != check.Holds {
			b.Fatal(text(report))
		}
	}
}
