package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"leasehold/lease"
	"leasehold/torture/history"
)

// grantSeen is a grant as clients were told of it: by the first answer to its
// request, and by repeats of it.
type grantSeen struct {
	attempt history.Attempt
	token   uint64
	asked   time.Duration // the first call of the request
	known   time.Duration // the first answer with the token
	first   *history.Operation
	answers []*history.Operation
}

// historyView is what the answers alone tell, without a log.
type historyView struct {
	grants []*grantSeen
	// asked is the first call of each request, whatever came of it, and sent how
	// often it was made.
	asked map[history.Attempt]time.Duration
	sent  map[history.Attempt]int
}

func view(h *history.History) *historyView {
	v := &historyView{asked: make(map[history.Attempt]time.Duration), sent: make(map[history.Attempt]int)}
	type key struct {
		history.Attempt
		token uint64
	}
	byKey := make(map[key]*grantSeen)
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Kind != history.Acquire {
			continue
		}
		a := o.Attempt()
		v.sent[a] += max(1, o.Attempts)
		if at, known := v.asked[a]; !known || o.Call < at {
			v.asked[a] = o.Call
		}
		if o.Outcome != history.OK || o.Answer.Token == 0 {
			continue
		}
		g := byKey[key{a, o.Answer.Token}]
		if g == nil {
			g = &grantSeen{attempt: a, token: o.Answer.Token, known: never}
			byKey[key{a, o.Answer.Token}] = g
			v.grants = append(v.grants, g)
		}
		g.answers = append(g.answers, o)
		if o.Return < g.known {
			g.known, g.first = o.Return, o
		}
	}
	for _, g := range v.grants {
		g.asked = v.asked[g.attempt]
	}
	slices.SortStableFunc(v.grants, func(a, b *grantSeen) int { return cmp.Compare(a.token, b.token) })
	return v
}

// checkTokens is P3.
func checkTokens(r *run, f *finding) {
	f.unit = "grants"
	byToken := make(map[uint64]*grantSeen)
	for _, g := range r.seen.grants {
		f.checked++
		if other := byToken[g.token]; other != nil {
			f.violated(shows(fmt.Sprintf("token %d names two grants, to %s and to %s", g.token, other.attempt.Holder, g.attempt.Holder), other.first, g.first))
			continue
		}
		byToken[g.token] = g
		r.checkTokenIndex(g, f)
	}
	r.addRules("P3", f)
}

func (r *run) checkTokenIndex(g *grantSeen, f *finding) {
	for _, o := range g.answers {
		if o.Answer.Index != 0 && g.token > o.Answer.Index {
			f.violated(shows(fmt.Sprintf("%s was told token %d at index %d, before there was such an entry", o.Client, g.token, o.Answer.Index), o))
		}
	}
	if r.replay == nil || g.token < r.replay.first || g.token > r.replay.last {
		return
	}
	if made, ok := r.replay.grants[g.token]; !ok || made.name != g.attempt.Name || made.Holder != g.attempt.Holder {
		f.violated(shows(fmt.Sprintf("%s was told token %d of %s, and entry %d of the log makes no such grant", g.first.Client, g.token, g.attempt.Name, g.token), g.first).
			in(r.replay.at(g.token).entry))
	}
}

// checkTokenOrder is P4: over all names, as tokens are.
func checkTokenOrder(r *run, f *finding) {
	f.unit = "grants"
	grants := r.seen.grants
	byAsked, byKnown := slices.Clone(grants), slices.Clone(grants)
	slices.SortFunc(byAsked, func(a, b *grantSeen) int { return cmp.Compare(a.asked, b.asked) })
	slices.SortFunc(byKnown, func(a, b *grantSeen) int { return cmp.Compare(a.known, b.known) })
	var highest *grantSeen
	for _, g := range byAsked {
		for len(byKnown) > 0 && byKnown[0].known < g.asked {
			if highest == nil || byKnown[0].token > highest.token {
				highest = byKnown[0]
			}
			byKnown = byKnown[1:]
		}
		f.checked++
		if highest != nil && g.token <= highest.token {
			f.violated(shows(fmt.Sprintf("token %d had been answered before %s asked for %s, and that got token %d", highest.token, g.first.Client, g.attempt.Name, g.token), highest.first, g.first))
		}
	}
}

// checkRepeats is P11. A request that ended so long ago that the table has
// forgotten it may make another grant.
func checkRepeats(r *run, f *finding) {
	f.unit = "repeated requests"
	grants := r.seen.grants
	latest := make(map[history.Attempt]*grantSeen)
	place := make(map[*grantSeen]int)
	for i, g := range grants {
		place[g] = i
		before := latest[g.attempt]
		latest[g.attempt] = g
		if before == nil {
			continue
		}
		if i-place[before] <= lease.EndedKept {
			f.violated(shows(fmt.Sprintf("request %s of %s for %s made two grants, tokens %d and %d", g.attempt.RequestID, g.attempt.Holder, g.attempt.Name, before.token, g.token), before.first, g.first))
		}
	}
	for _, times := range r.seen.sent {
		if times > 1 {
			f.checked++
		}
	}
	r.checkRepeatsInLog(f)
}

func (r *run) checkRepeatsInLog(f *finding) {
	if r.replay == nil {
		return
	}
	for _, v := range r.rules["P11"].violations {
		f.violated(v)
	}
	ended := 0
	endedBy := make(map[uint64]int) // how many had ended before the grant of that token
	for _, s := range r.replay.steps {
		if s.result.Ended != nil && s.result.Ended.Index == s.entry.Index {
			ended++
		}
		endedBy[s.entry.Index] = ended
	}
	for a, tokens := range r.replay.attempts {
		for i := 1; i < len(tokens); i++ {
			if endedBy[tokens[i]]-endedBy[tokens[i-1]] <= lease.EndedKept {
				f.violated(Violation{What: fmt.Sprintf("request %s of %s for %s made two grants in the log, tokens %d and %d", a.RequestID, a.Holder, a.Name, tokens[i-1], tokens[i])}.
					in(r.replay.at(tokens[i]).entry))
			}
		}
	}
}
