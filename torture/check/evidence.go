package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"leasehold/lease"
	"leasehold/torture/history"
)

// Evidence counts what shows that a run has put the cluster to the test.
type Evidence struct {
	Operations     int           `json:"operations"`
	Length         time.Duration `json:"length_ns"`
	Faults         int           `json:"faults"`
	Dropped        uint64        `json:"dropped"` // messages that link faults held back
	Terms          int           `json:"terms"`   // after the first
	Expiries       int           `json:"expiries"`
	ExpiriesPerMin float64       `json:"expiries_per_minute"`
	Stale          int           `json:"stale_refused"` // writes and renewals with a dead token, refused
	Unknown        int           `json:"unknown"`       // outcomes
	Repeated       int           `json:"repeated"`      // requests sent again under the same id
	Redirects      int           `json:"redirects"`
	Snapshots      int           `json:"snapshots"` // taken
	Installed      int           `json:"installed"` // from a leader
	LostUpdates    int           `json:"lost_updates"`
	// BeliefOverlap is how long two clients believed at once that they held the same
	// lease. That is not promised not to happen; in runs that pause clients it must.
	BeliefOverlap time.Duration `json:"belief_overlap_ns"`
}

// Need is the least that a run must have met with. Zero is no need.
type Need struct {
	Operations, Dropped, Terms, Expiries, Stale, Unknown, Repeated, Redirects, Snapshots, Installed int
	// LostUpdates by writers without a token.
	LostUpdates    int
	ExpiriesPerMin float64
	BeliefOverlap  time.Duration
}

func (n Need) missing(e Evidence) []string {
	var missing []string
	least := func(what string, got, need float64) {
		if got < need {
			missing = append(missing, fmt.Sprintf("%s: %.4g, at least %.4g are needed", what, got, need))
		}
	}
	least("operations", float64(e.Operations), float64(n.Operations))
	least("messages held back by link faults", float64(e.Dropped), float64(n.Dropped))
	least("new terms", float64(e.Terms), float64(n.Terms))
	least("expiries", float64(e.Expiries), float64(n.Expiries))
	least("expiries a minute", e.ExpiriesPerMin, n.ExpiriesPerMin)
	least("stale tokens refused", float64(e.Stale), float64(n.Stale))
	least("unknown outcomes", float64(e.Unknown), float64(n.Unknown))
	least("repeated requests", float64(e.Repeated), float64(n.Repeated))
	least("redirects", float64(e.Redirects), float64(n.Redirects))
	least("snapshots taken", float64(e.Snapshots), float64(n.Snapshots))
	least("snapshots installed", float64(e.Installed), float64(n.Installed))
	least("updates lost without a token", float64(e.LostUpdates), float64(n.LostUpdates))
	least("milliseconds of overlapping belief", float64(e.BeliefOverlap.Milliseconds()), float64(n.BeliefOverlap.Milliseconds()))
	return missing
}

// String for the last line of a report.
func (e Evidence) String() string {
	return fmt.Sprintf("%d operations in %v, %d faults, %d messages held back, %d new terms, %d expiries (%.0f a minute), %d stale tokens refused, %d unknown outcomes, %d repeated requests, %d redirects, %d snapshots taken and %d installed, %d updates lost without a token, belief_overlap_ms %d",
		e.Operations, e.Length.Round(time.Millisecond), e.Faults, e.Dropped, e.Terms, e.Expiries, e.ExpiriesPerMin, e.Stale, e.Unknown, e.Repeated, e.Redirects, e.Snapshots, e.Installed, e.LostUpdates, e.BeliefOverlap.Milliseconds())
}

func gather(r *run) Evidence {
	e := Evidence{Operations: len(r.h.Operations), Faults: len(r.h.Faults), BeliefOverlap: overlap(r.h.Beliefs)}
	requests := make(map[history.Attempt]bool)
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		e.Length = max(e.Length, o.Return)
		e.Redirects += o.Redirects
		if o.Outcome == history.Unknown {
			e.Unknown++
		}
		if o.Code == "lease_lost" || o.Code == "stale_token" {
			e.Stale++
		}
		if o.Kind == history.Acquire {
			if requests[o.Attempt()] || o.Attempts > 1 {
				e.Repeated++
			}
			requests[o.Attempt()] = true
		}
	}
	for _, lost := range lostUpdates(r.h) {
		if lost.first.Token == 0 || lost.second.Token == 0 {
			e.LostUpdates++
		}
	}
	e.ofNodes(r)
	e.ofLog(r)
	if e.Length > 0 {
		e.ExpiriesPerMin = float64(e.Expiries) / e.Length.Minutes()
	}
	return e
}

// ofNodes counts what samples tell. Counters of a node begin anew when it
// restarts, so rises are added up.
func (e *Evidence) ofNodes(r *run) {
	before := make(map[string]history.Sample)
	samples := slices.Clone(r.h.Samples)
	slices.SortStableFunc(samples, func(a, b history.Sample) int { return cmp.Compare(a.At, b.At) })
	rise := func(now, then uint64) uint64 {
		if now < then {
			return now
		}
		return now - then
	}
	for _, s := range samples {
		was := before[s.Node]
		e.Dropped += rise(s.Dropped, was.Dropped)
		e.Installed += int(rise(s.Installed, was.Installed))
		if s.Snapshot > was.Snapshot {
			e.Snapshots++
		}
		before[s.Node] = s
	}
}

func (e *Evidence) ofLog(r *run) {
	terms := make(map[uint64]bool)
	for _, s := range r.log.Entries {
		terms[s.Term] = true
	}
	for _, l := range r.h.Leaderships {
		terms[l.Term] = true
	}
	e.Terms = max(0, len(terms)-1)
	if r.replay == nil {
		return
	}
	for _, s := range r.replay.steps {
		if _, ok := s.entry.Command.(lease.Expire); ok && s.result.Err == nil {
			e.Expiries++
		}
	}
}

// overlap is for how long two clients or more believed that they held the same
// lease, added up over all leases.
func overlap(beliefs []history.Belief) time.Duration {
	type edge struct {
		at   time.Duration
		open int
	}
	edges := make(map[string][]edge)
	for _, b := range beliefs {
		edges[b.Name] = append(edges[b.Name], edge{b.From, 1}, edge{b.To, -1})
	}
	total := time.Duration(0)
	for _, of := range edges {
		slices.SortFunc(of, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.open, b.open)) })
		open, since := 0, time.Duration(0)
		for _, e := range of {
			if open > 1 {
				total += e.at - since
			}
			open, since = open+e.open, e.at
		}
	}
	return total
}
