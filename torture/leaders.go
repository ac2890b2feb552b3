package torture

import (
	"cmp"
	"slices"
	"time"

	"leasehold/torture/history"
)

// reign is a time in which a node said that it leads.
type reign struct {
	node     string
	term     uint64
	from, to time.Duration
}

// reigns of all nodes, by samples. They may overlap: a leader that is cut off leads on,
// by its own word, until it notices.
func reigns(h *history.History) []reign {
	const gap = 4 * sampleEvery // a longer silence is not bridged
	samples := slices.Clone(h.Samples)
	slices.SortStableFunc(samples, func(a, b history.Sample) int { return cmp.Compare(a.At, b.At) })
	latest := make(map[string]int) // of each node, its place in all
	var all []reign
	for _, s := range samples {
		i, known := latest[s.Node]
		switch {
		case s.Role != "leader":
			delete(latest, s.Node)
		case known && all[i].term == s.Term && s.At-all[i].to <= gap:
			all[i].to = s.At
		default:
			latest[s.Node] = len(all)
			all = append(all, reign{s.Node, s.Term, s.At, s.At})
		}
	}
	return all
}

// ribbon is who led in the highest term, one after the other.
func ribbon(all []reign) (one []reign) {
	byTerm := slices.Clone(all)
	slices.SortStableFunc(byTerm, func(a, b reign) int { return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.from, b.from)) })
	for _, r := range byTerm {
		for len(one) > 0 && one[len(one)-1].from >= r.from {
			one = one[:len(one)-1]
		}
		if len(one) > 0 {
			one[len(one)-1].to = min(one[len(one)-1].to, r.from)
		}
		one = append(one, r)
	}
	return one
}
