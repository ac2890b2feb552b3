package check

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"leasehold/lease"
	"leasehold/torture/history"
)

// trace is what happened to each lease, as acts in intervals of time.
type trace struct {
	byName  map[string][]porcupine.Operation
	clients map[string]int // numbers, for the picture; 0 is the cluster itself
}

func newTrace() *trace {
	return &trace{byName: make(map[string][]porcupine.Operation), clients: make(map[string]int)}
}

func (t *trace) add(name string, a act, from, to time.Duration, by *history.Operation) {
	op := porcupine.Operation{Input: a, Call: int64(from), Return: int64(to), Metadata: by}
	if by != nil {
		if t.clients[by.Client] == 0 {
			t.clients[by.Client] = len(t.clients) + 1
		}
		op.ClientId = t.clients[by.Client]
	}
	t.byName[name] = append(t.byName[name], op)
}

// checkLinearLog is P5 with the log: every grant and every end is known, also
// those of which no client was told. They are acts of the cluster.
func checkLinearLog(r *run, f *finding) {
	f.unit = "acts on leases"
	r.search(r.traceOfLog(), model(world.exact), f)
}

// checkLinearAnswers is P5 without it, since the first trusts what it tests.
func checkLinearAnswers(r *run, f *finding) {
	f.unit = "answers about leases"
	tokenless := func(o history.Operation) bool {
		return o.Kind == history.Acquire && o.Outcome == history.OK && o.Answer.Token == 0
	}
	switch {
	case r.p.Others:
		f.note = "clients were at work that the history does not know"
		return
	case slices.ContainsFunc(r.h.Operations, tokenless):
		f.note = "there are grants without a token"
		return
	}
	r.search(r.traceOfAnswers(), model(world.blackBox), f)
}

// inOrder notes at each grant of a lease which one comes before it, and whether a
// client ends it.
func inOrder(ops []porcupine.Operation) {
	var all []int
	ended := make(map[uint64]bool)
	for i, op := range ops {
		switch a := op.Input.(act); a.kind {
		case grants:
			all = append(all, i)
		case ends:
			ended[a.token] = true
		}
	}
	token := func(i int) uint64 { return ops[i].Input.(act).token }
	slices.SortStableFunc(all, func(i, j int) int { return cmp.Compare(token(i), token(j)) })
	for n, i := range all {
		a := ops[i].Input.(act)
		if n > 0 {
			a.after = token(all[n-1])
		}
		a.kept = ended[a.token]
		ops[i].Input = a
	}
}

// search looks for a linear order of the acts of each lease.
func (r *run) search(t *trace, m porcupine.Model, f *finding) {
	until := time.Now().Add(r.p.LinearizeTimeout)
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		ops := t.byName[name]
		inOrder(ops)
		f.checked += len(ops)
		left := time.Until(until)
		if left <= 0 {
			f.undecided, f.note = true, fmt.Sprintf("not decided within %v", r.p.LinearizeTimeout)
			return
		}
		switch porcupine.CheckOperationsTimeout(m, ops, left) {
		case porcupine.Illegal:
			f.violated(r.stuck(name, ops, m))
		case porcupine.Unknown:
			f.undecided, f.note = true, fmt.Sprintf("not decided within %v", r.p.LinearizeTimeout)
		}
	}
}

// stuck says where the search got no further: the acts that come next in the
// longest order that was found, none of which fits.
func (r *run) stuck(name string, ops []porcupine.Operation, m porcupine.Model) Violation {
	const long = 5 * time.Second
	_, info := porcupine.CheckOperationsVerbose(m, ops, long)
	var longest []porcupine.Operation
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	state := m.Init()
	type place struct {
		call, ret int64
		act       any
	}
	done := make(map[place]int)
	for _, op := range longest {
		_, state = m.Step(state, op.Input, op.Output)
		done[place{op.Call, op.Return, op.Input}]++
	}
	var next *porcupine.Operation // the one that had to come by now
	for i, op := range ops {
		if p := (place{op.Call, op.Return, op.Input}); done[p] > 0 {
			done[p]--
		} else if next == nil || op.Return < next.Return {
			next = &ops[i]
		}
	}
	v := Violation{What: fmt.Sprintf("no order of the calls for %s explains their answers", name)}
	if next != nil {
		v.What += fmt.Sprintf(": at %s somebody finds it \"%s\", when it is %s", seconds(time.Duration(next.Call)), m.DescribeOperation(next.Input, nil), m.DescribeState(state))
		longest = append(longest[max(0, len(longest)-3):], *next)
	}
	for _, op := range longest {
		if by, _ := op.Metadata.(*history.Operation); by != nil {
			v.Operations = append(v.Operations, *by)
		}
	}
	return v
}

// Visualize draws what happened to one lease, by the log if there is one, as a
// page of HTML.
func Visualize(h *history.History, p Params, name string, w io.Writer) error {
	r := newRun(h, p)
	t, m := r.traceOfAnswers(), model(world.blackBox)
	if r.replay != nil {
		t, m = r.traceOfLog(), model(world.exact)
	}
	_, info := porcupine.CheckOperationsVerbose(m, t.byName[name], p.LinearizeTimeout)
	return porcupine.Visualize(m, info, w)
}

// traceOfLog takes all that has an effect from the log, in the time of the call
// that was answered with it, or between the answers around it if there is none.
// What was only seen comes from the answers.
func (r *run) traceOfLog() *trace {
	t := newTrace()
	firsts := make(map[uint64]*grantSeen)
	for _, g := range r.seen.grants {
		firsts[g.token] = g
	}
	ending := make(map[string]*history.Operation) // by name and index
	at := func(name string, index uint64) string { return fmt.Sprintf("%s %d", name, index) }
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		if o.Outcome == history.OK && (o.Kind == history.Release || o.Kind == history.Revoke) && !o.Answer.Already {
			ending[at(o.Name, o.Answer.Index)] = o
		}
	}
	r.begin(t)
	for _, s := range r.replay.steps {
		for _, ev := range s.result.Events {
			a, ok := effectOf(ev, s.result)
			if !ok {
				continue
			}
			from, to, by := r.places.notBefore(ev.Index), r.places.notAfter(ev.Index), ending[at(ev.Name, ev.Index)]
			if g := firsts[ev.Token]; a.kind == grants && g != nil {
				from, to, by = g.asked, g.known, g.first
			} else if by != nil && a.kind == ends {
				from, to = by.Call, by.Return
			} else {
				by = nil
			}
			t.add(ev.Name, a, from, max(from, to), by)
		}
	}
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		// Its entry has been taken from the log above.
		if o.Kind == history.Acquire && o.Outcome == history.OK && firsts[o.Answer.Token].first == o || ending[at(o.Name, o.Answer.Index)] == o {
			continue
		}
		if a, name, ok := seenBy(o); ok && r.inLog(o) {
			t.add(name, a, o.Call, o.Return, o)
		}
	}
	return t
}

// inLog: the part of the log that was read has all that led to an answer.
func (r *run) inLog(o *history.Operation) bool {
	if o.Answer.Index == 0 {
		return r.complete() && r.replay.start == nil
	}
	return r.replay.at(o.Answer.Index) != nil
}

// complete: the log was read up to its end.
func (r *run) complete() bool { return r.h.End != nil && r.h.End.LogComplete }

// begin brings the leases to the state that the log starts from, at a time before all.
func (r *run) begin(t *trace) {
	if r.replay.start == nil {
		return
	}
	for l := range r.replay.start.Ascend("") {
		token, holder := uint64(0), ""
		if l.Grant != nil {
			token, holder = l.Grant.Token, l.Grant.Holder
		} else {
			token = l.Cooldown.Token
		}
		t.add(l.Name, act{kind: grants, token: token, holder: holder}, -2, -2, nil)
		if l.Cooldown != nil {
			t.add(l.Name, act{kind: ends, token: token, cools: true}, -1, -1, nil)
		}
	}
}

// effectOf is the act of an event that changes who holds a lease.
func effectOf(ev lease.Event, res lease.Result) (act, bool) {
	a := act{token: ev.Token, holder: ev.Holder}
	switch ev.Kind {
	case lease.KindGranted:
		a.kind = grants
		a.reclaims = res.Ended != nil && res.Ended.How == lease.Reclaimed
	case lease.KindReleased, lease.KindExpired, lease.KindRevoked:
		a.kind = ends
		a.cools = res.Lease.State() == lease.Cooling
	case lease.KindReopened:
		a.kind = reopens
	default: // a reclaim is one act with its grant
		return a, false
	}
	return a, true
}

// seenBy is what the answer of an operation says about a lease, beyond what it
// has done to it.
func seenBy(o *history.Operation) (a act, name string, ok bool) {
	a = act{token: o.Token, holder: o.Holder}
	switch {
	case !o.Answered():
		return a, "", false
	case o.Outcome == history.Refused:
		a.kind = map[string]actKind{
			"held": held, "cooling": cooling, "wait_timeout": occupied, "lease_lost": over, "not_holder": foreign,
		}[o.Code]
		return a, o.Name, a.kind != "" && o.Name != ""
	}
	switch o.Kind {
	case history.Acquire:
		a.kind, a.token = uses, o.Answer.Token
	case history.Renew, history.RenewMany:
		a.kind = uses
	case history.Release, history.Revoke:
		a.kind = ends
		if o.Answer.Already {
			a.kind = over
		}
	case history.Get:
		a = act{kind: sees, token: o.Answer.Token, holder: o.Answer.Holder, state: lease.State(o.Answer.State)}
	case history.Write:
		a.kind = uses
		return a, o.Guard, o.Guard != ""
	default:
		return a, "", false
	}
	return a, o.Name, true
}

// traceOfAnswers has only what clients were told. A request is granted between
// its first call and the first answer with the token, whichever of its calls it
// was that did it. Other calls with an unknown outcome leave no trace: to renew,
// release or revoke a grant changes when it ends, and it may end at any time here.
func (r *run) traceOfAnswers() *trace {
	t := newTrace()
	grantsOf := make(map[uint64]*grantSeen)
	for _, g := range r.seen.grants {
		grantsOf[g.token] = g
		t.add(g.attempt.Name, act{kind: grants, token: g.token, holder: g.attempt.Holder}, g.asked, g.known, g.first)
	}
	ghosts := make(map[string][]time.Duration) // calls of requests of which nobody knows what came
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		if o.Kind == history.Acquire && o.Outcome == history.Unknown {
			ghosts[o.Name] = append(ghosts[o.Name], o.Call)
		}
	}
	for _, calls := range ghosts {
		slices.Sort(calls)
	}
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		a, name, ok := seenBy(o)
		if !ok || a.kind == occupied {
			continue
		}
		if g := grantsOf[o.Answer.Token]; o.Kind == history.Acquire && o.Outcome == history.OK && g.first == o {
			continue
		}
		haunted := len(ghosts[name]) > 0 && ghosts[name][0] <= o.Return
		a.ghost = haunted && (a.kind == held || a.token != 0 && grantsOf[a.token] == nil)
		t.add(name, a, o.Call, o.Return, o)
	}
	return t
}
