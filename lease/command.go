package lease

import (
	"cmp"
	"time"
)

// Entry is where a command stands in the log.
type Entry struct {
	// Index is the Raft log index, Term the Raft term of the leader that
	// appended the entry.
	Index, Term uint64
	// At is the leader's wall clock when it appended the entry, in
	// milliseconds since 1970. It is kept for people to read and never compared.
	At int64
}

// Command is one of the requests that a log entry can carry: [Lead],
// [Acquire], [Renew], [Release] or [Expire].
type Command interface {
	// apply carries the command out. It is unexported so that the set of
	// commands is closed: what a log may contain is decided here.
	apply(t *Table, e Entry) Result
}

// Lead is the first command of every term, proposed by the new leader. Once it
// is applied so is everything before it, which makes it the barrier after which
// the leader may answer.
type Lead struct {
	// Node and Address name the leader.
	Node, Address string
	// ClusterID is adopted as the identity of the cluster if it has none yet.
	ClusterID string
}

// Acquire asks for a lease.
type Acquire struct {
	Name, Holder string
	// RequestID is the holder's name for this attempt. The same id of the same
	// holder for the same lease never makes a second grant.
	RequestID string
	// TTL is how long the grant lasts without renewal, in whole milliseconds.
	TTL time.Duration
	// Value is published with the grant.
	Value string
	// Reclaim takes the lease over from an older grant of the same holder: for
	// a process restarted under a stable name.
	Reclaim bool
}

// Check says which field of an Acquire is out of the bounds that hold for every
// node. The error is a *[FieldError]. What gets into the log must keep them.
func (c Acquire) Check() error {
	return cmp.Or(CheckName(c.Name), CheckHolder(c.Holder), CheckRequestID(c.RequestID), CheckValue(c.Value))
}

// Renew keeps a grant alive for its TTL from now on.
type Renew struct {
	Name, Holder string
	Token        uint64
	// TTL replaces the TTL of the grant, unless it is 0.
	TTL time.Duration
	// Value replaces the published value, unless it is nil.
	Value *string
}

// Release ends a grant at the wish of its holder.
type Release struct {
	Name, Holder string
	Token        uint64
}

// Expire ends a grant that was not renewed in time. It names the renewal that
// the leader's clock ran from, and the term in which it ran: if the grant was
// renewed since, or another leader has taken over and given every lease its
// full TTL again, the entry does nothing.
type Expire struct {
	Name    string
	Token   uint64
	Renewal uint64
	Term    uint64
}
