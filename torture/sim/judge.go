package sim

import (
	"fmt"
	"io"
	"slices"
	"time"

	"leasehold/faults"
	"leasehold/torture/check"
	"leasehold/torture/history"
)

// Verdict on one simulation.
type Verdict struct {
	check.Report
	// Failures of the checks of package clustertest, and of the simulation itself.
	// One of them is as bad as a violation.
	Failures []string
}

// Judge judges what came of a simulation.
func Judge(o Outcome) Verdict {
	v := Verdict{Report: check.Check(o.History, params(o.Config)), Failures: o.Failures}
	if len(v.Failures) > 0 {
		v.Report.Verdict = check.IsViolated
	}
	return v
}

// params are the bounds for a simulation, and what it must have met with. All of it
// grows with its length but what a schedule may not bring about, which is asked of all seeds
// together.
func params(c Config) check.Params {
	p := check.DefaultParams()
	for _, step := range c.Schedule {
		if step.Kind == faults.ClockRate {
			p.ClockMargin = 0.12 // 10 % more than the 2 % that any clock may have
		}
	}
	p.Require = required
	minutes := max(int(c.Duration/time.Minute), 1)
	p.Need = check.Need{
		Operations: 1000 * minutes, Terms: 2 + minutes, ExpiriesPerMin: 60, Stale: 5 * minutes, Unknown: 1, Repeated: 1, Redirects: 1,
		Snapshots: 5, LostUpdates: 1, BeliefOverlap: time.Millisecond,
	}
	return p
}

// required are the properties that every simulation must have checked.
var required = []string{
	"P1", "P2", "P3", "P4", "P5", "P5b", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P14", "P15", "P16", "P17",
}

// Violated names what was violated, in order: ids of properties, and "cluster" for
// the checks of package clustertest.
func (v Verdict) Violated() (ids []string) {
	for _, r := range v.Results {
		if r.Status == check.Violated {
			ids = append(ids, r.ID)
		}
	}
	if len(v.Failures) > 0 {
		ids = append(ids, "cluster")
	}
	return ids
}

// Shares says whether two verdicts have something violated in common.
func (v Verdict) Shares(ids []string) bool {
	return slices.ContainsFunc(v.Violated(), func(id string) bool { return slices.Contains(ids, id) })
}

// Write writes the verdict for people to read.
func (v Verdict) Write(w io.Writer) error {
	for _, why := range v.Failures {
		if _, err := fmt.Fprintf(w, "cluster      %s\n", why); err != nil {
			return err
		}
	}
	return v.Report.Write(w)
}

// writeHistory writes a history as a recorder does while it is made.
func writeHistory(w io.Writer, h *history.History) error {
	r := history.NewRecorder(w)
	r.Add(h.Run)
	addAll(r, h.Operations)
	addAll(r, h.Beliefs)
	addAll(r, h.Entries)
	addAll(r, h.Samples)
	addAll(r, h.Leaderships)
	addAll(r, h.Arrivals)
	addAll(r, h.Faults)
	if h.End != nil {
		r.Add(*h.End)
	}
	return r.Err()
}

func addAll[R history.Record](r *history.Recorder, records []R) {
	for _, rec := range records {
		r.Add(rec)
	}
}
