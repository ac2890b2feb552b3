package sim

import (
	"slices"
	"time"

	"leasehold/faults"
	"leasehold/torture/history"
)

// outage is a time in which a node was down, or what it sent to or received from some
// peers did not pass.
type outage struct {
	from, to time.Duration
	node     string
	cut      faults.Fault // of a node that ran; else of kind Kill
}

// settle is how long after its beginning a time without a quorum counts as one: what
// was under way must have been answered.
const settle = 200 * time.Millisecond

// quorumless gives the times in which no node reaches a majority in both directions,
// and clients reach all nodes that run.
func quorumless(nodes []string, outages []outage) (times []history.Fault) {
	var edges []time.Duration
	for _, o := range outages {
		edges = append(edges, o.from, o.to)
	}
	slices.Sort(edges)
	for i, from := range edges[:max(len(edges)-1, 0)] {
		to := edges[i+1]
		if to == from || !without(nodes, outages, from) {
			continue
		}
		if last := len(times) - 1; last >= 0 && times[last].To == from {
			times[last].To = to
		} else {
			times = append(times, history.Fault{From: from, To: to, Kind: "no quorum", NoQuorum: true})
		}
	}
	for i := range times {
		times[i].From += settle
	}
	return slices.DeleteFunc(times, func(f history.Fault) bool { return f.From >= f.To })
}

// without says whether there was no quorum from some time to the next edge.
func without(nodes []string, outages []outage, at time.Duration) bool {
	on := slices.DeleteFunc(slices.Clone(outages), func(o outage) bool { return o.from > at || o.to <= at })
	passes := func(from, to string) bool {
		return !slices.ContainsFunc(on, func(o outage) bool {
			if o.cut.Kind == faults.Kill {
				return o.node == from || o.node == to
			}
			return o.node == from && o.cut.Touches(to, faults.Out) || o.node == to && o.cut.Touches(from, faults.In)
		})
	}
	for _, node := range nodes {
		reached := 0
		for _, other := range nodes {
			if other == node && passes(node, node) || other != node && passes(node, other) && passes(other, node) {
				reached++
			}
		}
		if reached > len(nodes)/2 {
			return false
		}
	}
	return !slices.ContainsFunc(on, func(o outage) bool {
		return o.cut.Touches(faults.Clients, faults.In) || o.cut.Touches(faults.Clients, faults.Out)
	})
}
