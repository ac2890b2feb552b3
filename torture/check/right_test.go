package check_test

import (
	"bytes"
	"fmt"
	"testing"

	"leasehold/torture/check"
)

// Histories that are right by construction are found right, whatever was lost,
// repeated, waited for or left to run out; and every property was checked.
func TestCheck_RightHistories_Hold(t *testing.T) {
	seeds := 500
	if testing.Short() || raceEnabled {
		seeds = 60
	}
	var all check.Evidence
	for seed := range seeds {
		h := simulate(uint64(seed))
		p := check.DefaultParams()
		for _, property := range check.Properties() {
			p.Require = append(p.Require, property.ID)
		}
		report := check.Check(h, p)
		if report.Verdict != check.Holds {
			t.Fatalf("seed %d:\n%s", seed, text(report))
		}
		e := report.Evidence
		all.Operations += e.Operations
		all.Expiries += e.Expiries
		all.Unknown += e.Unknown
		all.Repeated += e.Repeated
		all.Stale += e.Stale
		all.Terms += e.Terms
	}
	for what, n := range map[string]int{"expiries": all.Expiries, "unknown outcomes": all.Unknown, "repeats": all.Repeated, "stale tokens": all.Stale, "terms": all.Terms} {
		if n < seeds {
			t.Errorf("only %d %s in %d runs", n, what, seeds)
		}
	}
	t.Logf("%d runs: %d operations, %d expiries, %d unknown, %d repeated, %d stale", seeds, all.Operations, all.Expiries, all.Unknown, all.Repeated, all.Stale)
}

func text(r check.Report) string {
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		return fmt.Sprint(err)
	}
	return b.String()
}
