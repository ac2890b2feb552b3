package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"leasehold/lease"
	"leasehold/torture/history"
)

// checkProbes is P15.
//
//	fault ├────────────┤ healed
//	                   ├─ failover ─┤ from here on each probe succeeds
//	      without a quorum: an answer within FailFast, and no success
func checkProbes(r *run, f *finding) {
	f.unit = "probes"
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		if !o.Probe {
			continue
		}
		took := o.Return - o.Call
		healed := r.h.LastFault(o.Return) + r.p.Failover
		switch {
		case !r.h.Disturbed(o.Call, o.Return) && o.Call >= healed:
			f.checked++
			if o.Outcome != history.OK || took > r.p.Failover+r.p.Slack {
				f.violated(shows(fmt.Sprintf("the cluster was healed at %s and had %v to recover, and a probe called at %s was not served within %v", seconds(healed-r.p.Failover), r.p.Failover, seconds(o.Call), r.p.Failover), o))
			}
		case r.withoutQuorum(o.Call, o.Return):
			f.checked++
			if o.Outcome == history.OK {
				f.violated(shows(fmt.Sprintf("a probe called at %s was served while there was no quorum", seconds(o.Call)), o))
			}
			if took > r.p.FailFast+r.p.Slack {
				f.violated(shows(fmt.Sprintf("a probe called at %s without a quorum took %v to fail", seconds(o.Call), took.Round(time.Millisecond)), o))
			}
		}
	}
}

// withoutQuorum: one fault left no majority for all of that time.
func (r *run) withoutQuorum(from, to time.Duration) bool {
	return slices.ContainsFunc(r.h.Faults, func(f history.Fault) bool { return f.NoQuorum && f.From <= from && f.To >= to })
}

// checkStaleReads is P16.
func checkStaleReads(r *run, f *finding) {
	f.unit = "stale reads"
	sessions := make(map[string][]*history.Operation)
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		if o.Kind != history.StaleGet || o.Outcome != history.OK {
			continue
		}
		f.checked++
		if !o.Answer.Stale {
			f.violated(shows(fmt.Sprintf("%s asked for a read that may be old, and the answer does not say that it is one", o.Client), o))
		}
		if o.Session != "" {
			sessions[o.Session] = append(sessions[o.Session], o)
		}
		if r.replay != nil && o.Answer.Index >= r.replay.first && o.Answer.Index <= r.replay.last {
			if wrong := wrongLease(o, r.replay.lease(o.Name, o.Answer.Index)); wrong != "" {
				f.violated(shows(wrong, o).in(r.replay.at(o.Answer.Index).entry))
			}
		}
	}
	for session, reads := range sessions {
		slices.SortFunc(reads, func(a, b *history.Operation) int { return cmp.Compare(a.Call, b.Call) })
		highest := reads[0]
		for _, o := range reads[1:] {
			if o.Call >= highest.Return && o.Answer.Index < highest.Answer.Index {
				f.violated(shows(fmt.Sprintf("on connection %s a read from index %d followed one from index %d", session, o.Answer.Index, highest.Answer.Index), highest, o))
			}
			if o.Answer.Index > highest.Answer.Index {
				highest = o
			}
		}
	}
}

// checkArrivals is P17. Only the leader knows when a renewal reached it, so this
// needs instrumentation.
func checkArrivals(r *run, f *finding) {
	f.unit = "renewals seen by the leader"
	expiries := make(map[uint64]step) // by token
	for _, s := range r.replay.steps {
		if c, ok := s.entry.Command.(lease.Expire); ok && s.result.Err == nil {
			expiries[c.Token] = s
		}
	}
	for _, a := range r.h.Arrivals {
		if a.Left <= 0 {
			continue
		}
		f.checked++
		if s, expired := expiries[a.Token]; expired && s.entry.Term == a.Term && a.Index > s.entry.Index {
			f.violated(Violation{What: fmt.Sprintf("a renewal of token %d of %s reached %s %v before the deadline, and entry %d expired it before the renewal's entry %d", a.Token, a.Name, a.Node, a.Left, s.entry.Index, a.Index)}.in(s.entry))
		}
	}
}
