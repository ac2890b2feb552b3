package check

import (
	"cmp"
	"fmt"
	"slices"

	"leasehold/torture/history"
)

// checkRegisters is P6.
func checkRegisters(r *run, f *finding) {
	f.unit = "accepted writes"
	fenced := make(map[string][]*history.Operation)
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		if o.Kind == history.Write && o.Outcome == history.OK && o.Token != 0 {
			f.checked++
			fenced[o.Register] = append(fenced[o.Register], o)
		}
	}
	for _, writes := range fenced {
		tokensRise(writes, f)
	}
	for _, lost := range lostUpdates(r.h) {
		if lost.first.Token != 0 && lost.second.Token != 0 {
			f.violated(shows(fmt.Sprintf("%s and %s both set the counter %s to %s, and both were told that it was done: one update is lost", lost.first.Client, lost.second.Client, lost.first.Register, *lost.first.Value), lost.first, lost.second))
		}
	}
	r.addRules("P6", f)
}

// tokensRise: by real time, and by the log where the answers name its indexes.
func tokensRise(writes []*history.Operation, f *finding) {
	overtaken := func(earlier, later *history.Operation) {
		f.violated(shows(fmt.Sprintf("%s accepted token %d after token %d", later.Register, later.Token, earlier.Token), earlier, later))
	}
	byCall, byReturn := slices.Clone(writes), slices.Clone(writes)
	slices.SortFunc(byCall, func(a, b *history.Operation) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortFunc(byReturn, func(a, b *history.Operation) int { return cmp.Compare(a.Return, b.Return) })
	var highest *history.Operation
	for _, o := range byCall {
		for len(byReturn) > 0 && byReturn[0].Return < o.Call {
			if highest == nil || byReturn[0].Token > highest.Token {
				highest = byReturn[0]
			}
			byReturn = byReturn[1:]
		}
		if highest != nil && o.Token < highest.Token {
			overtaken(highest, o)
		}
	}
	byIndex := slices.DeleteFunc(writes, func(o *history.Operation) bool { return o.Answer.Index == 0 })
	slices.SortFunc(byIndex, func(a, b *history.Operation) int { return cmp.Compare(a.Answer.Index, b.Answer.Index) })
	highest = nil
	for _, o := range byIndex {
		if highest != nil && o.Token < highest.Token && highest.Return >= o.Call { // else found above
			overtaken(highest, o)
		}
		if highest == nil || o.Token > highest.Token {
			highest = o
		}
	}
}

// lostUpdate: two writes to a counter that set the same value. Each adds one to
// what its client had read, so the second did not see the first.
type lostUpdate struct{ first, second *history.Operation }

func lostUpdates(h *history.History) []lostUpdate {
	type count struct{ register, value string }
	seen := make(map[count]*history.Operation)
	var lost []lostUpdate
	for i := range h.Operations {
		o := &h.Operations[i]
		if !o.Counter || o.Kind != history.Write || o.Outcome != history.OK || o.Value == nil {
			continue
		}
		c := count{o.Register, *o.Value}
		if first := seen[c]; first != nil {
			lost = append(lost, lostUpdate{first, o})
		} else {
			seen[c] = o
		}
	}
	return lost
}
