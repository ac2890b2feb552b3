package history

import (
	"cmp"
	"slices"
	"time"
)

// History is all that is known of one run.
type History struct {
	Run         Run
	Operations  []Operation
	Beliefs     []Belief
	Entries     []Entry // as they were read, of several nodes; see Merge
	Start       *Start
	Samples     []Sample
	Leaderships []Leadership
	Arrivals    []Arrival
	Faults      []Fault
	End         *End // nil if the run was cut short

	// Torn: the last line was not written to its end, as a killed run leaves it.
	Torn bool
}

// Log is the one log that the entries of all nodes add up to.
type Log struct {
	// Entries in the order of their indexes, each once.
	Entries []Entry
	// Conflicts are pairs of entries that two nodes have at the same index, and that
	// are not the same. A committed log has none.
	Conflicts [][2]Entry
	// Gaps are indexes before which entries are missing.
	Gaps []uint64
}

// Merge puts the entries of all nodes together.
func (h *History) Merge() Log {
	all := slices.Clone(h.Entries)
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Compare(a.Index, b.Index) })
	var log Log
	for _, e := range all {
		if len(log.Entries) == 0 {
			log.Entries = append(log.Entries, e)
			continue
		}
		last := log.Entries[len(log.Entries)-1]
		switch {
		case e.Index > last.Index:
			if e.Index != last.Index+1 {
				log.Gaps = append(log.Gaps, e.Index)
			}
			log.Entries = append(log.Entries, e)
		case !same(last, e):
			log.Conflicts = append(log.Conflicts, [2]Entry{last, e})
		}
	}
	return log
}

// same says whether two nodes have the same entry.
func same(a, b Entry) bool {
	x, y := a.toJSON(), b.toJSON()
	return x.Term == y.Term && x.At == y.At && x.Kind == y.Kind && slices.Equal(x.Command, y.Command)
}

// LastFault is when the last fault that began by t was over, 0 if there was
// none. Pauses of clients do not count: they do not hinder the cluster.
func (h *History) LastFault(t time.Duration) time.Duration {
	last := time.Duration(0)
	for _, f := range h.Faults {
		if f.Client == "" && f.From <= t {
			last = max(last, f.To)
		}
	}
	return last
}

// Disturbed says whether a fault of the cluster was at work between two times.
func (h *History) Disturbed(from, to time.Duration) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool {
		return f.Client == "" && f.From <= to && f.To >= from
	})
}
