package check

import (
	"fmt"

	"leasehold/lease"
	"leasehold/torture/history"
)

// checkSameState is P1.
func checkSameState(r *run, f *finding) {
	f.unit = "comparisons of nodes"
	for _, pair := range r.log.Conflicts {
		a, b := pair[0], pair[1]
		f.violated(Violation{What: fmt.Sprintf("%s and %s have different entries at index %d", a.Node, b.Node, a.Index)}.in(a, b))
	}
	f.checked += len(r.h.Entries) - len(r.log.Entries)
	type seen struct {
		node string
		hash history.Hash
	}
	first := make(map[uint64]seen)
	for _, s := range r.h.Samples {
		for _, m := range s.Marks {
			other, known := first[m.Index]
			if !known {
				first[m.Index] = seen{s.Node, m.Hash}
				continue
			}
			if other.node == s.Node && other.hash == m.Hash {
				continue
			}
			f.checked++
			if other.hash != m.Hash {
				f.violated(Violation{What: fmt.Sprintf("at index %d the state of %s is %s and that of %s is %s", m.Index, other.node, other.hash, s.Node, m.Hash)})
			}
		}
	}
}

// checkReplayHashes is P13.
func checkReplayHashes(r *run, f *finding) {
	f.unit = "states of nodes"
	installed := make(map[string]bool)
	after := 0
	for _, s := range r.h.Samples {
		installed[s.Node] = installed[s.Node] || s.Installed > 0
		for _, m := range s.Marks {
			step := r.replay.at(m.Index)
			if step == nil {
				continue
			}
			f.checked++
			if installed[s.Node] {
				after++
			}
			if step.hash != m.Hash {
				f.violated(Violation{What: fmt.Sprintf("at index %d the state of %s is %s, and the log replayed gives %s", m.Index, s.Node, m.Hash, step.hash)}.in(step.entry))
			}
		}
	}
	if f.checked > 0 {
		f.note = fmt.Sprintf("%d of nodes that had installed a snapshot", after)
	}
}

// checkLeaders is P2: by what was seen on the wire, by what nodes said of
// themselves, and by the first command of each term.
func checkLeaders(r *run, f *finding) {
	f.unit = "sightings of a leader"
	leaders := make(map[uint64]string)
	saw := func(term uint64, node, how string) {
		f.checked++
		if other, known := leaders[term]; known && other != node {
			f.violated(Violation{What: fmt.Sprintf("term %d has the leaders %s and %s (%s)", term, other, node, how)})
			return
		}
		leaders[term] = node
	}
	for _, l := range r.h.Leaderships {
		saw(l.Term, l.Node, "seen on the wire at "+seconds(l.At))
	}
	onWire := f.checked
	for _, s := range r.h.Samples {
		if s.Role == "leader" {
			saw(s.Term, s.Node, "by its own word at "+seconds(s.At))
		}
	}
	for _, e := range r.log.Entries {
		if c, ok := e.Command.(lease.Lead); ok {
			saw(e.Term, c.Node, fmt.Sprintf("by entry %d", e.Index))
		}
	}
	if f.checked > 0 {
		f.note = fmt.Sprintf("%d on the wire", onWire)
	}
}
