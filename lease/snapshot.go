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
	leases *btree.Map[string, *Lease]
	ended  [EndedKept]*Ended
}

// Header is the part of the state that is not a list.
type Header struct {
	Applied   Entry
	ClusterID string
	Leader    Lead
	LeadEntry Entry
	EndedEver uint64 // grants that ever ended
	Leases    int    // number of leases that are held
	Hash      uint64 // of the whole state
}

// Snapshot freezes the state. It takes constant time, however many leases there
// are: the tree is shared and copied where it is written to later.
func (t *Table) Snapshot() *Snapshot {
	return &Snapshot{
		Header: Header{
			Applied: t.applied, ClusterID: t.clusterID,
			Leader: t.leader, LeadEntry: t.leadEntry,
			EndedEver: t.ended.count, Leases: t.leases.Len(), Hash: t.Hash(),
		},
		leases: t.leases.Copy(),
		ended:  t.ended.slots,
	}
}

// All iterates over the leases in the order of their names.
func (s *Snapshot) All() iter.Seq[*Lease] { return ascend(s.leases, "") }

// Ended iterates over the ended grants that are still known, oldest first.
func (s *Snapshot) Ended() iter.Seq[*Ended] {
	ring := endedRing{slots: s.ended, count: s.EndedEver}
	return ring.all()
}

// Restore builds the table that a snapshot was taken of. It fails if the parts
// do not add up to the hash in the header, or are not in order.
func Restore(h Header, leases iter.Seq[*Lease], ended iter.Seq[*Ended]) (*Table, error) {
	t := &Table{clusterID: h.ClusterID, leader: h.Leader, leadEntry: h.LeadEntry, applied: h.Applied}
	last := ""
	for l := range leases {
		if l.Grant == nil || l.Name <= last {
			return nil, fmt.Errorf("lease %q is out of order or empty", l.Name)
		}
		last = l.Name
		t.put(l)
	}
	kept := min(h.EndedEver, EndedKept)
	t.ended.count = h.EndedEver - kept
	lastEnd := uint64(0)
	for e := range ended {
		// The hash is a sum and does not see the order, but the order decides
		// which end is forgotten next.
		if e.Index <= lastEnd {
			return nil, fmt.Errorf("the end of token %d at index %d is out of order", e.Token, e.Index)
		}
		lastEnd = e.Index
		t.ended.add(e)
		t.hash.addEnded(e)
	}
	if t.ended.count != h.EndedEver {
		return nil, fmt.Errorf("%d ended grants where %d are due", kept+t.ended.count-h.EndedEver, kept)
	}
	if t.leases.Len() != h.Leases {
		return nil, fmt.Errorf("%d leases where %d are due", t.leases.Len(), h.Leases)
	}
	if got := t.Hash(); got != h.Hash {
		return nil, fmt.Errorf("state hash %016x where %016x is due", got, h.Hash)
	}
	return t, nil
}
