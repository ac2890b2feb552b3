package check

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"leasehold/torture/history"
)

// placement places the indexes of the log in time, by what clients saw:
//
//	 time ──────────────────────────────────────────────────▶
//	 op A      call ├──── index 7 ────┤ return
//	 op B                     call ├──── index 9 ────┤ return
//
//	entry 8 was appended after entry 7, so after A was called;
//	entry 8 was applied before entry 9 was answered, so before B returned.
//
// No clock of a node is trusted, and none is needed.
type placement struct {
	calls   []moment // by index; the latest call of an operation at or before the index
	returns []moment // by index; the earliest return of an operation at or after it
	answers []moment // by time of return; the highest index answered by then
}

type moment struct {
	index uint64
	at    time.Duration
}

const never = time.Duration(math.MaxInt64)

func newPlacement(h *history.History) placement {
	var p placement
	for i := range h.Operations {
		o := &h.Operations[i]
		if !o.Answered() || o.Answer.Index == 0 {
			continue
		}
		seen := moment{o.Answer.Index, o.Return}
		p.returns = append(p.returns, seen) // stale or not: what was read had been applied
		if o.Kind == history.StaleGet {
			continue
		}
		p.answers = append(p.answers, seen)
		if o.Kind != history.Get && o.Kind != history.ReadValue {
			p.calls = append(p.calls, moment{o.Answer.Index, o.Call})
		}
	}
	for _, s := range h.Samples {
		p.returns = append(p.returns, moment{s.Applied, s.At})
	}
	p.tidy()
	return p
}

func (p *placement) tidy() {
	byIndex := func(a, b moment) int { return cmp.Compare(a.index, b.index) }
	slices.SortFunc(p.calls, byIndex)
	for i := 1; i < len(p.calls); i++ {
		p.calls[i].at = max(p.calls[i].at, p.calls[i-1].at)
	}
	slices.SortFunc(p.returns, byIndex)
	for i := len(p.returns) - 2; i >= 0; i-- {
		p.returns[i].at = min(p.returns[i].at, p.returns[i+1].at)
	}
	slices.SortFunc(p.answers, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(p.answers); i++ {
		p.answers[i].index = max(p.answers[i].index, p.answers[i-1].index)
	}
}

// notBefore is a time before which the entry of that index was not appended.
func (p *placement) notBefore(index uint64) time.Duration {
	i := sort.Search(len(p.calls), func(i int) bool { return p.calls[i].index > index })
	if i == 0 {
		return 0
	}
	return p.calls[i-1].at
}

// notAfter is a time at which the entry of that index had been applied, or never
// if nothing is known.
func (p *placement) notAfter(index uint64) time.Duration {
	i := sort.Search(len(p.returns), func(i int) bool { return p.returns[i].index >= index })
	if i == len(p.returns) {
		return never
	}
	return p.returns[i].at
}

// answeredBefore is the highest index that had been answered before a time.
func (p *placement) answeredBefore(t time.Duration) uint64 {
	i := sort.Search(len(p.answers), func(i int) bool { return p.answers[i].at >= t })
	if i == 0 {
		return 0
	}
	return p.answers[i-1].index
}
