package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"leasehold/lease"
	"leasehold/torture/history"
)

// checkAnswers is P14. That each answer is the result of its entry, and that the
// entries stand in an order which agrees with real time, is linearizability with
// the log as the witness.
func checkAnswers(r *run, f *finding) {
	f.unit = "answers"
	beyond := 0
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		if o.Redirects > 1 {
			f.violated(shows(fmt.Sprintf("%s was redirected %d times, where one hop is the most", o.Client, o.Redirects), o))
		}
		if !o.Answered() || o.Kind == history.StaleGet || o.Answer.Index == 0 || o.Answer.Index < r.replay.first {
			continue
		}
		if o.Answer.Index > r.replay.last {
			if r.complete() {
				f.violated(shows(fmt.Sprintf("%s was answered from index %d, and the log ends at %d", o.Client, o.Answer.Index, r.replay.last), o))
			} else {
				beyond++
			}
			continue
		}
		f.checked++
		if wrong := r.explain(o); wrong != "" {
			v := shows(wrong, o)
			if s := r.replay.at(o.Answer.Index); s != nil {
				v = v.in(s.entry)
			}
			f.violated(v)
		}
	}
	r.checkRealTime(f)
	r.checkAsked(f)
	for _, v := range r.rules["P14"].violations {
		f.violated(v)
	}
	if beyond > 0 {
		f.undecided = true
		f.note = fmt.Sprintf("%d answers lie beyond the part of the log that was read", beyond)
	}
}

// explain holds an answer against the log and says what is wrong, "" if nothing.
func (r *run) explain(o *history.Operation) string {
	switch o.Kind {
	case history.Get:
		return wrongLease(o, r.replay.lease(o.Name, o.Answer.Index))
	case history.ReadValue:
		return wrongRegister(o, r.replay.register(o.Register, o.Answer.Index))
	}
	s := r.replay.at(o.Answer.Index)
	res, own := resultFor(o, s)
	switch {
	case o.Outcome == history.Refused:
		return wrongRefusal(o, s, res, own)
	case o.Kind == history.Acquire:
		return r.wrongGrant(o, s, own)
	case !own:
		return fmt.Sprintf("%s was told that its %s took effect at index %d, where the log has something else", o.Client, o.Kind, s.entry.Index)
	case res.Err != nil:
		return fmt.Sprintf("%s was told that its %s took effect at index %d, where the log refuses it: %v", o.Client, o.Kind, s.entry.Index, res.Err)
	}
	return wrongDetail(o, res)
}

// resultFor is the result of a step as far as it concerns an operation; own says
// whether it is the entry that the operation asked for.
func resultFor(o *history.Operation, s *step) (res lease.Result, own bool) {
	i := slices.Index(contentsOf(s.entry.Command), contentOf(o))
	if _, many := s.entry.Command.(lease.RenewMany); many && i >= 0 {
		return s.result.Each[i], true
	}
	return s.result, i >= 0
}

// wrongGrant: the entry of an acquire's answer is the one that made the grant,
// be it the end of another, or its own that found the grant made before.
func (r *run) wrongGrant(o *history.Operation, s *step, own bool) string {
	l := s.result.Lease
	if l.State() != lease.Held || s.result.Name != o.Name || !l.HeldBy(o.Holder, o.RequestID) {
		return fmt.Sprintf("%s was told that its request %s is granted at index %d, where the log grants it nothing", o.Client, o.RequestID, o.Answer.Index)
	}
	switch token := l.Grant.Token; {
	case token != o.Answer.Token:
		return fmt.Sprintf("%s was told token %d at index %d, where the log has token %d", o.Client, o.Answer.Token, o.Answer.Index, token)
	case !own && token != s.entry.Index:
		return fmt.Sprintf("%s was told that index %d made its grant, and that entry is about something else", o.Client, o.Answer.Index)
	case own && o.Answer.Replayed != s.result.Replayed:
		return fmt.Sprintf("%s was told replayed %t at index %d, where the log says %t", o.Client, o.Answer.Replayed, o.Answer.Index, s.result.Replayed)
	}
	return wrongRemaining(o, l.Grant)
}

func wrongRemaining(o *history.Operation, g *lease.Grant) string {
	if left := o.Answer.RemainingMillis; left != nil && (*left < 0 || *left > g.TTL.Milliseconds()) {
		return fmt.Sprintf("%s was told that %d ms remain of a grant that has a TTL of %v", o.Client, *left, g.TTL)
	}
	return ""
}

// wrongDetail holds against the log what else an answer says.
func wrongDetail(o *history.Operation, res lease.Result) string {
	switch o.Kind {
	case history.Renew, history.RenewMany:
		if o.Answer.Token != 0 && o.Answer.Token != res.Lease.Grant.Token {
			return fmt.Sprintf("%s renewed token %d and was told token %d", o.Client, o.Token, o.Answer.Token)
		}
		return wrongRemaining(o, res.Lease.Grant)
	case history.Release, history.Revoke:
		if o.Answer.Already != res.Already {
			return fmt.Sprintf("%s was told already %t at index %d, where the log says %t", o.Client, o.Answer.Already, o.Answer.Index, res.Already)
		}
		if ended := o.Answer.EndedIndex; ended != 0 && ended != res.Ended.Index {
			return fmt.Sprintf("%s was told that token %d ended at index %d, and it ended at %d", o.Client, o.Token, ended, res.Ended.Index)
		}
	case history.Write:
		if highest := o.Answer.HighestToken; highest != 0 && highest != res.Register.HighestToken {
			return fmt.Sprintf("%s was told that the highest token of %s is %d, and it is %d", o.Client, o.Register, highest, res.Register.HighestToken)
		}
	}
	return ""
}

// refusals are the codes of problems and what they say in terms of the table.
var refusals = map[string][]error{
	"held": {lease.ErrHeld}, "cooling": {lease.ErrCooling}, "not_holder": {lease.ErrNotHolder},
	"lease_lost": {lease.ErrLost}, "request_ended": {lease.ErrRequestEnded},
	"stale_token": {lease.ErrStaleToken, lease.ErrNotLive},
}

// wrongRefusal: a refusal is justified by the state at its index.
func wrongRefusal(o *history.Operation, s *step, res lease.Result, own bool) string {
	if o.Code == "wait_timeout" {
		c, ok := s.entry.Command.(lease.Abandon)
		if !ok || (history.Attempt{Name: c.Name, Holder: c.Holder, RequestID: c.RequestID}) != o.Attempt() || res.Err != nil {
			return fmt.Sprintf("%s was told that its wait was over at index %d, where the log does not end it", o.Client, o.Answer.Index)
		}
		return ""
	}
	// The same request waits on another connection; this one does not want to.
	waits := o.Kind == history.Acquire && o.Wait == 0 && res.Waiter != nil && (o.Code == "held" || o.Code == "cooling")
	switch {
	case !own:
		return fmt.Sprintf("%s was refused with %s at index %d, where the log has something else", o.Client, o.Code, o.Answer.Index)
	case waits:
		return ""
	case res.Err == nil:
		return fmt.Sprintf("%s was refused with %s at index %d, where the log carries it out", o.Client, o.Code, o.Answer.Index)
	case !slices.ContainsFunc(refusals[o.Code], func(e error) bool { return errors.Is(res.Err, e) }):
		return fmt.Sprintf("%s was refused with %s at index %d, where the log says: %v", o.Client, o.Code, o.Answer.Index, res.Err)
	}
	return ""
}

func wrongLease(o *history.Operation, l *lease.Lease) string {
	token, holder := uint64(0), ""
	if l.State() == lease.Held {
		token, holder = l.Grant.Token, l.Grant.Holder
	}
	if o.Answer.State == string(l.State()) && o.Answer.Token == token && o.Answer.Holder == holder {
		return ""
	}
	return fmt.Sprintf("%s read at index %d that %s is %s, token %d of %q; by the log it is %s, token %d of %q", o.Client, o.Answer.Index,
		o.Name, o.Answer.State, o.Answer.Token, o.Answer.Holder, l.State(), token, holder)
}

func wrongRegister(o *history.Operation, reg *lease.Register) string {
	value, highest := "", uint64(0)
	if reg != nil {
		value, highest = reg.Value, reg.HighestToken
	}
	if o.Answer.Value != nil && *o.Answer.Value == value && o.Answer.HighestToken == highest {
		return ""
	}
	return fmt.Sprintf("%s read from %s at index %d what the log does not have there", o.Client, o.Register, o.Answer.Index)
}

// checkRealTime: what was answered before another call was made stands before it
// in the log. Reads have no entry of their own: they may be made from the state
// of the one that was answered.
func (r *run) checkRealTime(f *finding) {
	var byCall, byReturn []*history.Operation
	for i := range r.h.Operations {
		if o := &r.h.Operations[i]; o.Answered() && o.Answer.Index != 0 && o.Kind != history.StaleGet {
			byCall, byReturn = append(byCall, o), append(byReturn, o)
		}
	}
	slices.SortFunc(byCall, func(a, b *history.Operation) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortFunc(byReturn, func(a, b *history.Operation) int { return cmp.Compare(a.Return, b.Return) })
	var highest *history.Operation // of those answered before the call
	for _, o := range byCall {
		for len(byReturn) > 0 && byReturn[0].Return < o.Call {
			if highest == nil || byReturn[0].Answer.Index > highest.Answer.Index {
				highest = byReturn[0]
			}
			byReturn = byReturn[1:]
		}
		if highest == nil {
			continue
		}
		reads := o.Kind == history.Get || o.Kind == history.ReadValue
		if o.Answer.Index < highest.Answer.Index || o.Answer.Index == highest.Answer.Index && !reads {
			f.violated(shows(fmt.Sprintf("index %d had been answered before %s called, and its answer comes from index %d", highest.Answer.Index, o.Client, o.Answer.Index), highest, o))
		}
	}
}

// checkAsked: nothing is in the log that nobody asked for, nor what its client
// was told would not happen.
func (r *run) checkAsked(f *finding) {
	if r.p.Others {
		return
	}
	for c, indexes := range r.join.unclaimed {
		if len(indexes) == 0 || slices.ContainsFunc(r.join.asked[c], mayRepeat) {
			continue
		}
		s := r.replay.at(indexes[0])
		what := fmt.Sprintf("entry %d of the log was asked for by no client", s.entry.Index)
		var told *history.Operation
		for _, o := range r.join.asked[c] {
			if o.Outcome == history.Nothing {
				told = o
				what = fmt.Sprintf("%s was told that nothing happened, and entry %d carries it out", o.Client, s.entry.Index)
			}
		}
		f.violated(shows(what, told).in(s.entry))
	}
}

// mayRepeat: an operation that can explain more entries than the one it was
// answered with. An acquire that waits has one entry that queues it and another
// that grants it.
func mayRepeat(o *history.Operation) bool {
	return o.Outcome != history.Nothing && (o.Attempts > 1 || o.Kind == history.Acquire)
}
