package check

import (
	"fmt"
	"time"

	"leasehold/lease"
	"leasehold/torture/history"
)

// checkLate is P9. Its clock starts when the last of these is over: the renewal,
// the change of leader since, the last fault. It is too late if a client then
// calls after TTL + failover and still finds the old grant, or is only then
// answered with what the end of that grant gave it.
func checkLate(r *run, f *finding) {
	f.unit = "calls that met a grant, and expiries"
	if r.replay == nil {
		r.checkLateByAnswers(f)
		return
	}
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		if !o.Answered() || o.Name == "" || o.Kind == history.StaleGet || r.replay.at(o.Answer.Index) == nil {
			continue
		}
		l := r.replay.lease(o.Name, o.Answer.Index)
		began, span := clockOf(l)
		if span == 0 || began == o.Answer.Index && o.Kind != history.Get { // it began the span itself
			r.lateHandOver(f, o, l)
			continue
		}
		f.checked++
		if due := r.due(began, o.Answer.Index, span, o.Call); o.Call > due {
			f.violated(shows(fmt.Sprintf("%s called at %s and found %s still %s, which had to be over by %s", o.Client, seconds(o.Call), o.Name, phrase(l), seconds(due)), o).
				in(r.entryAt(began)...))
		}
	}
}

func (r *run) entryAt(index uint64) []history.Entry {
	if s := r.replay.at(index); s != nil {
		return []history.Entry{s.entry}
	}
	return nil
}

// clockOf is the entry from which the clock of a lease runs, and for how long.
func clockOf(l *lease.Lease) (began uint64, span time.Duration) {
	switch l.State() {
	case lease.Held:
		return l.Grant.Renewal, l.Grant.TTL
	case lease.Cooling:
		return l.Cooldown.Since, l.Cooldown.Delay
	}
	return 0, 0
}

func phrase(l *lease.Lease) string {
	if l.State() == lease.Held {
		return fmt.Sprintf("held under token %d", l.Grant.Token)
	}
	return fmt.Sprintf("cooling after token %d", l.Cooldown.Token)
}

// due is when a span that began at one index must be over, as seen by a call that
// was answered from another one; never if that cannot be said.
func (r *run) due(began, seen uint64, span, call time.Duration) time.Duration {
	if lead := r.replay.lead(seen); lead > began {
		began = lead
	}
	from := r.places.notAfter(began)
	if from == never {
		return never
	}
	return max(from, r.h.LastFault(call)) + r.p.longest(span) + r.p.Failover + r.p.Slack
}

// lateHandOver looks at a waiter that was granted by the end of another grant.
func (r *run) lateHandOver(f *finding, o *history.Operation, l *lease.Lease) {
	if o.Kind != history.Acquire || o.Outcome != history.OK || l.State() != lease.Held || l.Grant.Token != o.Answer.Index || o.Wait == 0 {
		return
	}
	if _, expired := r.replay.at(o.Answer.Index).entry.Command.(lease.Expire); !expired {
		return
	}
	f.checked++
	before := r.replay.lease(o.Name, o.Answer.Index-1)
	began, span := clockOf(before)
	if due := max(r.due(began, o.Answer.Index, span, o.Return), o.Call+r.p.Failover+r.p.Slack); o.Return > due && !r.paused(o) {
		f.violated(shows(fmt.Sprintf("%s waited for %s and was granted at %s, although it was %s and had to be over by %s", o.Client, o.Name, seconds(o.Return), phrase(before), seconds(due)), o).
			in(r.entryAt(began)...))
	}
}

// paused: the client itself stood still during its call.
func (r *run) paused(o *history.Operation) bool {
	for _, fault := range r.h.Faults {
		if fault.Client == o.Client && fault.From <= o.Return && fault.To >= o.Call {
			return true
		}
	}
	return false
}

// checkLateByAnswers does without a log: who reads an old grant after nobody can
// have renewed it for too long. It allows for one change of leader, which it
// cannot see.
func (r *run) checkLateByAnswers(f *finding) {
	f.unit = "reads of a grant"
	type term struct {
		until time.Duration // the last return of what may have renewed it
		ttl   time.Duration
		op    *history.Operation
	}
	terms := make(map[uint64]*term)
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		token := o.Token
		switch o.Kind {
		case history.Acquire:
			token = o.Answer.Token
		case history.Renew, history.RenewMany:
		default:
			continue
		}
		if token == 0 || o.Outcome == history.Nothing || o.Outcome == history.Refused {
			continue
		}
		t := terms[token]
		if t == nil {
			t = new(term)
			terms[token] = t
		}
		t.ttl = max(t.ttl, o.TTL)
		if o.Return > t.until {
			t.until, t.op = o.Return, o
		}
	}
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		t := terms[o.Answer.Token]
		if o.Kind != history.Get || o.Answer.State != string(lease.Held) || t == nil || t.ttl == 0 || o.Call < t.until {
			continue
		}
		f.checked++
		due := max(t.until, r.h.LastFault(o.Call)) + 2*r.p.longest(t.ttl) + r.p.Failover + r.p.Slack
		if o.Call > due {
			f.violated(shows(fmt.Sprintf("%s called at %s and found %s still held under token %d, which had to be over by %s", o.Client, seconds(o.Call), o.Name, o.Answer.Token, seconds(due)), t.op, o))
		}
	}
}
