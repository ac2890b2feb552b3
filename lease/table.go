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
	// Name of the lease that the command was about; empty for [Lead], [RenewMany] and
	// [Write].
	Name string
	// Lease is the state of that lease after the entry, nil if it is free.
	Lease *Lease
	// Waiter is the place that an Acquire has in the queue, if it was not granted,
	// or the one that an Abandon gave up. Else nil.
	Waiter *Waiter
	// Replayed: the Acquire repeated an older request, whose grant is in Lease or
	// whose place is in Waiter.
	Replayed bool
	// Already: the Release or Revoke repeated an older one.
	Already bool
	// Ended is the grant that this entry ended or, in a refusal and a repeated
	// release, the ended grant that explains it. Nil if there is none.
	Ended *Ended
	// Register is the state of the register after a [Write].
	Register *Register
	// Each is the result of every renewal of a [RenewMany], in order. Their events
	// are in Events as well.
	Each []Result
	// Events says what happened, in order.
	Events []Event
}

// Table is the replicated state. It is not safe for concurrent use: its owner
// applies entries one at a time and keeps readers out meanwhile. A [Snapshot]
// may be read at any time.
type Table struct {
	leases    leaseTree
	waiters   waitQueue
	registers btree.Map[string, *Register]
	ended     endedRing

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

// Len is the number of leases that are not free.
func (t *Table) Len() int { return t.leases.Len() }

// Waiters is the number of waiters in all queues.
func (t *Table) Waiters() int { return t.waiters.byPlace.Len() }

// Waiting returns the waiter of that request, nil if it is in no queue.
func (t *Table) Waiting(name, holder, requestID string) *Waiter {
	return t.waiters.find(request{name, holder, requestID})
}

// WaitersOf iterates over the waiters of a lease, first in the queue first.
func (t *Table) WaitersOf(name string) iter.Seq[*Waiter] {
	return waitersOf(&t.waiters.byPlace, name)
}

// Get returns the lease of that name, nil if it is free. The caller must not
// change it.
func (t *Table) Get(name string) *Lease {
	l, _ := t.leases.Get(name)
	return l.Lease
}

// LastEnded returns how the latest ended grant of that name ended, nil if the
// table no longer knows.
func (t *Table) LastEnded(name string) *Ended { return t.ended.byName(name) }

// Ascend iterates over the leases in the order of their names, from the first
// one not less than from.
func (t *Table) Ascend(from string) iter.Seq[*Lease] {
	return ascend(&t.leases, from)
}

// leaseTree holds leases by name, each with its hash, which is needed again when
// the lease is changed.
type leaseTree = btree.Map[string, hashedLease]

type hashedLease struct {
	*Lease
	hash uint64
}

func ascend(leases *leaseTree, from string) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		leases.Ascend(from, func(_ string, l hashedLease) bool { return yield(l.Lease) })
	}
}

// Ended iterates over the ended grants that are still known, oldest first.
func (t *Table) Ended() iter.Seq[*Ended] { return t.ended.all() }

// put stores a lease, or drops it if it is free.
func (t *Table) put(l *Lease) {
	if l.State() == Free {
		old, _ := t.leases.Delete(l.Name)
		t.hash -= stateHash(old.hash)
		return
	}
	hashed := hashedLease{l, l.hash()}
	old, _ := t.leases.Set(l.Name, hashed)
	t.hash += stateHash(hashed.hash) - stateHash(old.hash)
}
