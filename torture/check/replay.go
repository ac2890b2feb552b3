package check

import (
	"bytes"
	"fmt"
	"sort"

	"leasehold/fsm"
	"leasehold/lease"
	"leasehold/torture/history"
)

// step is one entry of the log with what it came to when it was replayed.
type step struct {
	entry  history.Entry
	result lease.Result // zero for Raft's own entries
	hash   history.Hash // of the state after it
}

// replay is the log applied to an empty table, or to the one it starts from.
// It says what each entry came to and what each lease and register was at each
// index.
type replay struct {
	start     *lease.Table // a second copy of the state before the first step, nil if empty
	steps     []step
	first     uint64 // index of the first step
	last      uint64 // index of the last step
	leases    map[string][]version[*lease.Lease]
	registers map[string][]version[*lease.Register]
	leads     []uint64 // indexes at which a leader took over
	grants    map[uint64]grantAt
	attempts  map[history.Attempt][]uint64 // tokens
}

// version is a state from an index on. Records in the table are never changed,
// so it is enough to keep them.
type version[T any] struct {
	index uint64
	state T
}

// grantAt is a grant as it was when it was made.
type grantAt struct {
	*lease.Grant
	name string
}

// newReplay replays a log, or says why it cannot.
func newReplay(h *history.History, log history.Log) (*replay, string) {
	switch {
	case len(h.Entries) == 0:
		return nil, "the history has no log"
	case len(log.Conflicts) > 0:
		return nil, "nodes have different logs"
	case len(log.Gaps) > 0:
		return nil, fmt.Sprintf("entries before index %d of the log were not read in time", log.Gaps[0])
	}
	table, r := new(lease.Table), &replay{
		leases:    make(map[string][]version[*lease.Lease]),
		registers: make(map[string][]version[*lease.Register]),
		grants:    make(map[uint64]grantAt),
		attempts:  make(map[history.Attempt][]uint64),
	}
	entries, from := log.Entries, uint64(0)
	if h.Start != nil && entries[0].Index > 1 {
		var err error
		if table, err = fsm.ReadSnapshot(bytes.NewReader(h.Start.Snapshot)); err == nil {
			r.start, err = fsm.ReadSnapshot(bytes.NewReader(h.Start.Snapshot))
		}
		if err != nil {
			return nil, fmt.Sprintf("the snapshot that the log starts from cannot be read: %v", err)
		}
		from = h.Start.Index
		r.begin(table)
	}
	skip := sort.Search(len(entries), func(i int) bool { return entries[i].Index > from })
	entries = entries[skip:]
	if len(entries) == 0 || entries[0].Index != from+1 {
		return nil, fmt.Sprintf("the log after index %d was not read in time", from)
	}
	r.first, r.last = entries[0].Index, entries[len(entries)-1].Index
	for _, e := range entries {
		r.apply(table, e)
	}
	return r, ""
}

// begin takes over the state of a snapshot.
func (r *replay) begin(t *lease.Table) {
	for l := range t.Ascend("") {
		r.leases[l.Name] = append(r.leases[l.Name], version[*lease.Lease]{0, l})
		if g := l.Grant; g != nil {
			r.granted(l.Name, g)
		}
	}
	for reg := range t.Snapshot().AllRegisters() {
		r.registers[reg.Name] = append(r.registers[reg.Name], version[*lease.Register]{0, reg})
	}
}

func (r *replay) granted(name string, g *lease.Grant) {
	r.grants[g.Token] = grantAt{g, name}
	a := history.Attempt{Name: name, Holder: g.Holder, RequestID: g.RequestID}
	r.attempts[a] = append(r.attempts[a], g.Token)
}

func (r *replay) apply(t *lease.Table, e history.Entry) {
	s := step{entry: e}
	if e.Command != nil {
		s.result = t.Apply(lease.Entry{Index: e.Index, Term: e.Term, At: e.At}, e.Command)
		if _, ok := e.Command.(lease.Lead); ok {
			r.leads = append(r.leads, e.Index)
		}
		r.note(e.Index, s.result)
		for _, one := range s.result.Each {
			r.note(e.Index, one)
		}
		for _, ev := range s.result.Events {
			if ev.Kind == lease.KindGranted {
				r.granted(ev.Name, s.result.Lease.Grant)
			}
		}
	}
	s.hash = history.Hash(t.Hash())
	r.steps = append(r.steps, s)
}

func (r *replay) note(index uint64, res lease.Result) {
	if res.Name != "" {
		r.leases[res.Name] = append(r.leases[res.Name], version[*lease.Lease]{index, res.Lease})
	}
	if res.Register != nil {
		r.registers[res.Register.Name] = append(r.registers[res.Register.Name], version[*lease.Register]{index, res.Register})
	}
}

// at returns the step of that index, nil if the log does not have it.
func (r *replay) at(index uint64) *step {
	if index < r.first || index > r.last {
		return nil
	}
	return &r.steps[index-r.first]
}

// lease is the state of a lease at an index, nil if it was free.
func (r *replay) lease(name string, index uint64) *lease.Lease {
	return latest(r.leases[name], index)
}

// register is the state of a register at an index, nil if it was not yet written.
func (r *replay) register(name string, index uint64) *lease.Register {
	return latest(r.registers[name], index)
}

func latest[T any](versions []version[T], index uint64) (state T) {
	i := sort.Search(len(versions), func(i int) bool { return versions[i].index > index })
	if i == 0 {
		return state
	}
	return versions[i-1].state
}

// lead is the index at which the leader of an index took over, 0 if not known.
func (r *replay) lead(index uint64) uint64 {
	i := sort.Search(len(r.leads), func(i int) bool { return r.leads[i] > index })
	if i == 0 {
		return 0
	}
	return r.leads[i-1]
}
