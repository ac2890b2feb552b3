package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"leasehold/lease"
	"leasehold/torture/history"
)

// checkEarly is P8. With a log each expiry is held against the renewal that its
// clock ran from:
//
//	not before                                 not after
//	    ├── renewal ──┤        ├──── expiry ────┤
//	    └────────────── at least the TTL ───────┘
//
// Both ends are to the disadvantage of the check, so that what it finds is sure.
// A change of leader begins the TTL anew. Without a log the same is done with
// what clients were told, as far as nothing else can have ended the grant.
func checkEarly(r *run, f *finding) {
	f.unit = "expiries"
	if r.replay != nil {
		r.checkEarlyInLog(f)
		f.unit = "expiries and successions"
	}
	if !r.p.Others {
		r.checkEarlyByAnswers(f)
	}
	if r.rules != nil {
		for _, v := range r.rules["P8"].violations {
			f.violated(v)
		}
	}
}

func (r *run) checkEarlyInLog(f *finding) {
	for _, s := range r.replay.steps {
		switch c := s.entry.Command.(type) {
		case lease.Expire:
			if s.result.Err == nil {
				g := r.replay.lease(c.Name, s.entry.Index-1).Grant
				r.tooShort(f, s, g.Renewal, g.TTL, fmt.Sprintf("token %d of %s expired", c.Token, c.Name))
			}
		case lease.Reopen:
			if s.result.Err == nil {
				cool := r.replay.lease(c.Name, s.entry.Index-1).Cooldown
				r.tooShort(f, s, cool.Since, cool.Delay, fmt.Sprintf("the lock delay of %s after token %d ended", c.Name, c.Token))
			}
		}
	}
}

// tooShort finds that less than a span has passed between the entry that began it,
// or the one by which a leader took over since, and a step.
func (r *run) tooShort(f *finding, s step, began uint64, span time.Duration, what string) {
	f.checked++
	if lead := r.replay.lead(s.entry.Index); lead > began {
		began = lead
	}
	from, to := r.places.notBefore(began), r.places.notAfter(s.entry.Index)
	if to == never || to-from >= r.p.shortest(span) {
		return
	}
	v := Violation{What: fmt.Sprintf("%s at index %d, no more than %v after index %d from which %v had to pass", what, s.entry.Index, to-from, began, span)}.in(s.entry)
	if b := r.replay.at(began); b != nil {
		v = v.in(b.entry)
	}
	v.Operations = r.around(began, s.entry.Index)
	f.violated(v)
}

// around are the operations that place two indexes in time: the latest call at or
// before the one, and the first answer at or after the other.
func (r *run) around(from, to uint64) []history.Operation {
	var latest, first *history.Operation
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		if !o.Answered() || o.Answer.Index == 0 || o.Kind == history.StaleGet {
			continue
		}
		if o.Answer.Index <= from && o.Kind != history.Get && o.Kind != history.ReadValue && (latest == nil || o.Call > latest.Call) {
			latest = o
		}
		if o.Answer.Index >= to && (first == nil || o.Return < first.Return) {
			first = o
		}
	}
	return shows("", latest, first).Operations
}

// tenure is what clients were told of one token.
type tenure struct {
	grant *grantSeen
	// kept is the operation with the latest call that gave the grant its TTL.
	kept *history.Operation
	// ttl is the shortest that the grant can have had.
	ttl time.Duration
	// ended: a client asked for its end, or another took its place at its own wish.
	ended bool
	// delay is its lock delay.
	delay time.Duration
}

func (r *run) checkEarlyByAnswers(f *finding) {
	byName := make(map[string][]*tenure)
	byToken := make(map[uint64]*tenure)
	for _, g := range r.seen.grants {
		t := &tenure{grant: g, ttl: math.MaxInt64}
		for _, o := range g.answers {
			t.ttl, t.delay = min(t.ttl, o.TTL), o.LockDelay
			if !o.Answer.Replayed && (t.kept == nil || o.Call > t.kept.Call) {
				t.kept = o
			}
		}
		byName[g.attempt.Name] = append(byName[g.attempt.Name], t)
		byToken[g.token] = t
	}
	for i := range r.h.Operations {
		byToken[r.h.Operations[i].Token].take(&r.h.Operations[i])
	}
	for _, tenures := range byName {
		reclaims := func(t *tenure) bool { return t.grant.first.Reclaim }
		slices.SortFunc(tenures, func(a, b *tenure) int { return cmp.Compare(a.grant.token, b.grant.token) })
		for i := 1; i < len(tenures); i++ {
			if before, next := tenures[i-1], tenures[i]; !reclaims(next) {
				f.checked++
				r.succession(f, before, next)
			}
		}
	}
}

// take notes what an operation with the token of a grant did to it, or may have done.
func (t *tenure) take(o *history.Operation) {
	if t == nil || o.Outcome == history.Nothing {
		return
	}
	switch o.Kind {
	case history.Renew, history.RenewMany:
		if o.TTL != 0 {
			t.ttl = min(t.ttl, o.TTL)
		}
		if o.Outcome == history.OK && (t.kept == nil || o.Call > t.kept.Call) {
			t.kept = o
		}
	case history.Release, history.Revoke:
		t.ended = t.ended || o.Outcome != history.Refused
	}
}

// succession: a grant is answered no sooner than the one before has run out.
func (r *run) succession(f *finding, before, next *tenure) {
	if before.ended || before.kept == nil {
		return
	}
	due := before.kept.Call + r.p.shortest(before.ttl+before.delay)
	if got := next.grant.known; got < due {
		f.violated(shows(fmt.Sprintf("token %d of %s was answered at %s, and token %d before it could not end by itself before %s", next.grant.token,
			next.grant.attempt.Name, seconds(got), before.grant.token, seconds(due)), before.kept, next.grant.first))
	}
}
