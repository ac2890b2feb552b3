package check

import (
	"fmt"
	"time"

	"leasehold/torture/history"
)

// death is the first proof that a client had of the end of a grant.
type death struct {
	at time.Duration
	by *history.Operation
}

// checkDead is P10, by the answers: once one client has been told that a token is
// over, no later call succeeds with it. What the log shows of it the rules find.
func checkDead(r *run, f *finding) {
	f.unit = "uses of a token"
	deaths := r.deaths()
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		token, alive := shownAlive(o)
		if !alive {
			continue
		}
		f.checked++
		if d, dead := deaths[token]; dead && d.at < o.Call {
			f.violated(shows(fmt.Sprintf("%s used token %d with success at %s, after %s had been told at %s that it is over", o.Client, token, seconds(o.Call), d.by.Client, seconds(d.at)), d.by, o))
		}
	}
	r.checkWaitsOver(f)
	r.addRules("P10", f)
}

// shownAlive is the token that a success proves to be live.
func shownAlive(o *history.Operation) (token uint64, alive bool) {
	if o.Outcome != history.OK {
		return 0, false
	}
	switch o.Kind {
	case history.Acquire:
		return o.Answer.Token, true
	case history.Renew, history.RenewMany:
		return o.Token, true
	case history.Release, history.Revoke:
		return o.Token, !o.Answer.Already
	case history.Get:
		return o.Answer.Token, o.Answer.State == "held"
	case history.Write:
		return o.Token, o.Guard != ""
	}
	return 0, false
}

// deaths gathers for each token the earliest proof of its end: its release, a
// refusal, or a newer token of the same lease.
func (r *run) deaths() map[uint64]death {
	deaths := make(map[uint64]death)
	ends := func(token uint64, o *history.Operation) {
		if d, known := deaths[token]; token != 0 && (!known || o.Return < d.at) {
			deaths[token] = death{o.Return, o}
		}
	}
	tokens := make(map[string][]uint64) // of each lease, rising
	for _, g := range r.seen.grants {
		tokens[g.attempt.Name] = append(tokens[g.attempt.Name], g.token)
	}
	before := make(map[uint64]uint64) // the token before one of the same lease
	for _, of := range tokens {
		for i := 1; i < len(of); i++ {
			before[of[i]] = of[i-1]
		}
	}
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		switch {
		case o.Outcome == history.OK && (o.Kind == history.Release || o.Kind == history.Revoke):
			ends(o.Token, o)
		case o.Outcome == history.Refused && o.Code == "lease_lost":
			ends(o.Token, o)
		}
		if o.Kind == history.StaleGet {
			continue
		}
		// A newer token ends the one before it. That one in turn ended those before,
		// which is known from the answers that carried it.
		if token, alive := shownAlive(o); alive {
			ends(before[token], o)
		}
	}
	// What is dead makes all its predecessors dead.
	for _, of := range tokens {
		for i := len(of) - 2; i >= 0; i-- {
			if d, known := deaths[of[i+1]]; known {
				ends(of[i], d.by)
			}
		}
	}
	return deaths
}

// checkWaitsOver: a request that was told that its wait is over holds nothing,
// unless it was sent again.
func (r *run) checkWaitsOver(f *finding) {
	if r.replay == nil {
		return
	}
	last := make(map[history.Attempt]*history.Operation) // the latest call of each request
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		if o.Kind == history.Acquire && (last[o.Attempt()] == nil || o.Call >= last[o.Attempt()].Call) {
			last[o.Attempt()] = o
		}
	}
	for a, o := range last {
		if o.Code != "wait_timeout" || r.p.Others {
			continue
		}
		f.checked++
		for _, token := range r.replay.attempts[a] {
			if token > o.Answer.Index {
				f.violated(shows(fmt.Sprintf("%s was told that its wait for %s was over, and is granted token %d afterwards", o.Client, o.Name, token), o).in(r.entryAt(token)...))
			}
		}
	}
}
