package lease

import (
	"iter"

	"github.com/tidwall/btree"
)

// Result is what an entry came to.
type Result struct {
	Entry Entry
	// Err is nil if the entry did what was asked, else one of the refusals.
	Err error
	// Name of the lease that the command was about; empty for [Lead].
	Name string
	// Lease is the state of that lease after the entry, nil if it is free.
	Lease *Lease
	// Replayed: the Acquire repeated an older request, whose grant is in Lease.
	Replayed bool
	// Already: the Release repeated an older one.
	Already bool
	// Ended is the grant that this entry ended or, in a refusal and a repeated
	// release, the ended grant that explains it. Nil if there is none.
	Ended *Ended
	// Events says what happened, in order.
	Events []Event
}

// Table is the replicated state. It is not safe for concurrent use: its owner
// applies entries one at a time and keeps readers out meanwhile. A [Snapshot]
// may be read at any time.
type Table struct {
	leases btree.Map[string, *Lease]
	ended  endedRing

	clusterID string
	leader    Lead  // the latest
	leadEntry Entry // its entry
	applied   Entry // the latest entry

	hash stateHash
}

// Apply carries out one entry of the log. Entries come in the order of their
// indexes; a command never fails except by a refusal in the Result.
func (t *Table) Apply(e Entry, c Command) Result {
	r := c.apply(t, e)
	r.Entry = e
	t.applied = e
	return r
}

// Applied is the entry that was applied last.
func (t *Table) Applied() Entry { return t.applied }

// ClusterID is the identity of the cluster, empty before the first [Lead].
func (t *Table) ClusterID() string { return t.clusterID }

// Leader is the latest [Lead] and the entry it stood in.
func (t *Table) Leader() (Lead, Entry) { return t.leader, t.leadEntry }

// Len is the number of leases that are held.
func (t *Table) Len() int { return t.leases.Len() }

// Get returns the lease of that name, nil if it is free. The caller must not
// change it.
func (t *Table) Get(name string) *Lease {
	l, _ := t.leases.Get(name)
	return l
}

// LastEnded returns how the latest ended grant of that name ended, nil if the
// table no longer knows.
func (t *Table) LastEnded(name string) *Ended { return t.ended.byName(name) }

// Ascend iterates over the leases in the order of their names, from the first
// one not less than from.
func (t *Table) Ascend(from string) iter.Seq[*Lease] {
	return ascend(&t.leases, from)
}

func ascend(leases *btree.Map[string, *Lease], from string) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		leases.Ascend(from, func(_ string, l *Lease) bool { return yield(l) })
	}
}

// Ended iterates over the ended grants that are still known, oldest first.
func (t *Table) Ended() iter.Seq[*Ended] { return t.ended.all() }

// put stores a lease, or drops it if nothing is left of it.
func (t *Table) put(l *Lease) {
	if l.Grant == nil {
		if old, was := t.leases.Delete(l.Name); was {
			t.hash.dropLease(old)
		}
		return
	}
	if old, was := t.leases.Set(l.Name, l); was {
		t.hash.dropLease(old)
	}
	t.hash.addLease(l)
}

// end takes the grant off a lease and remembers how it ended. It returns the
// record; the caller puts the lease back, empty or with another grant.
func (t *Table) end(e Entry, name string, g *Grant, how How) *Ended {
	ended := &Ended{
		Name: name, Token: g.Token, Holder: g.Holder, RequestID: g.RequestID,
		How: how, Index: e.Index, At: e.At,
	}
	if oldest := t.ended.add(ended); oldest != nil {
		t.hash.dropEnded(oldest)
	}
	t.hash.addEnded(ended)
	return ended
}
