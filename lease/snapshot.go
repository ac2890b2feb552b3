package lease

import (
	"fmt"
	"iter"

	"github.com/tidwall/btree"
)

// Snapshot is the state of a table at one index. It shares its records with the
// table, which never changes a record in place, and is safe to read while the
// table moves on.
type Snapshot struct {
	Header
	leases    *leaseTree
	waiters   *btree.Map[string, *Waiter]
	registers *btree.Map[string, *Register]
	ended     [EndedKept]*Ended
}

// Header is the part of the state that is not a list.
type Header struct {
	Applied   Entry
	ClusterID string
	Leader    Lead
	LeadEntry Entry
	EndedEver uint64 // grants that ever ended
	Leases    int    // number of leases that are not free
	Waiters   int    // number of waiters in all queues
	Registers int
	Hash      uint64 // of the whole state
}

// Snapshot freezes the state. It takes constant time, however many leases there
// are: the trees are shared and copied where they are written to later.
func (t *Table) Snapshot() *Snapshot {
	return &Snapshot{
		Header: Header{
			Applied: t.applied, ClusterID: t.clusterID,
			Leader: t.leader, LeadEntry: t.leadEntry,
			EndedEver: t.ended.count, Leases: t.Len(), Waiters: t.Waiters(), Registers: t.Registers(),
			Hash: t.Hash(),
		},
		leases:    t.leases.Copy(),
		waiters:   t.waiters.byPlace.Copy(),
		registers: t.registers.Copy(),
		ended:     t.ended.slots,
	}
}

// All iterates over the leases in the order of their names.
func (s *Snapshot) All() iter.Seq[*Lease] { return ascend(s.leases, "") }

// AllWaiters iterates over the waiters in the order of the names of their leases,
// and of their places.
func (s *Snapshot) AllWaiters() iter.Seq[*Waiter] {
	return func(yield func(*Waiter) bool) {
		s.waiters.Scan(func(_ string, w *Waiter) bool { return yield(w) })
	}
}

// AllRegisters iterates over the registers in the order of their names.
func (s *Snapshot) AllRegisters() iter.Seq[*Register] { return allRegisters(s.registers) }

// Ended iterates over the ended grants that are still known, oldest first.
func (s *Snapshot) Ended() iter.Seq[*Ended] {
	ring := endedRing{slots: s.ended, count: s.EndedEver}
	return ring.all()
}

// Parts are the lists of a snapshot, in its order.
type Parts struct {
	Leases    iter.Seq[*Lease]
	Waiters   iter.Seq[*Waiter]
	Registers iter.Seq[*Register]
	Ended     iter.Seq[*Ended]
}

// Parts returns the lists of the snapshot.
func (s *Snapshot) Parts() Parts {
	return Parts{s.All(), s.AllWaiters(), s.AllRegisters(), s.Ended()}
}

// Restore builds the table that a snapshot was taken of. It fails if the parts
// do not add up to the hash in the header, or are not in order.
func Restore(h Header, p Parts) (*Table, error) {
	t := &Table{clusterID: h.ClusterID, leader: h.Leader, leadEntry: h.LeadEntry, applied: h.Applied}
	for _, part := range []error{
		t.restoreLeases(h, p.Leases),
		t.restoreWaiters(h, p.Waiters),
		t.restoreRegisters(h, p.Registers),
		t.restoreEnded(h, p.Ended),
	} {
		if part != nil {
			return nil, part
		}
	}
	if got := t.Hash(); got != h.Hash {
		return nil, fmt.Errorf("state hash %016x where %016x is due", got, h.Hash)
	}
	return t, nil
}

func (t *Table) restoreLeases(h Header, leases iter.Seq[*Lease]) error {
	last := ""
	for l := range leases {
		if l.State() == Free || l.Grant != nil && l.Cooldown != nil || l.Name <= last {
			return fmt.Errorf("lease %q is out of order, or neither held nor cooling", l.Name)
		}
		last = l.Name
		t.put(l)
	}
	return counted("leases", t.Len(), h.Leases)
}

// restoreWaiters also counts those of each lease, which the lease has counted
// itself.
func (t *Table) restoreWaiters(h Header, waiters iter.Seq[*Waiter]) error {
	last, ofName := &Waiter{}, 0
	check := func() error {
		if l := t.Get(last.Name); l != nil && l.Waiters != ofName {
			return fmt.Errorf("lease %q has %d waiters and counts %d", last.Name, ofName, l.Waiters)
		}
		return nil
	}
	inQueues := 0
	for w := range waiters {
		if w.Name < last.Name || w.Name == last.Name && w.Place <= last.Place || t.Get(w.Name) == nil {
			return fmt.Errorf("the waiter of index %d is out of order, or waits for a free lease", w.Place)
		}
		if w.Name != last.Name {
			if err := check(); err != nil {
				return err
			}
			ofName = 0
		}
		last = w
		ofName++
		t.waiters.add(w)
		t.hash.add(w)
	}
	if err := check(); err != nil {
		return err
	}
	for l := range t.Ascend("") {
		inQueues += l.Waiters
	}
	if err := counted("waiters", t.Waiters(), inQueues); err != nil {
		return err
	}
	return counted("waiters", t.Waiters(), h.Waiters)
}

func (t *Table) restoreRegisters(h Header, registers iter.Seq[*Register]) error {
	last := ""
	for reg := range registers {
		if reg.Name <= last || len(reg.Writes) == 0 || len(reg.Writes) > WritesKept {
			return fmt.Errorf("register %q is out of order, or has %d writes", reg.Name, len(reg.Writes))
		}
		last = reg.Name
		t.putRegister(reg)
	}
	return counted("registers", t.Registers(), h.Registers)
}

func (t *Table) restoreEnded(h Header, ended iter.Seq[*Ended]) error {
	kept := min(h.EndedEver, EndedKept)
	t.ended.count = h.EndedEver - kept
	last := uint64(0)
	for e := range ended {
		// The hash is a sum and does not see the order, but the order decides
		// which end is forgotten next.
		if e.Index <= last {
			return fmt.Errorf("the end of token %d at index %d is out of order", e.Token, e.Index)
		}
		last = e.Index
		t.ended.add(e)
		t.hash.add(e)
	}
	return counted("ended grants", int(t.ended.count), int(h.EndedEver))
}

func counted(what string, got, due int) error {
	if got != due {
		return fmt.Errorf("%d %s where %d are due", got, what, due)
	}
	return nil
}
