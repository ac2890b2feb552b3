package lease

import (
	"cmp"
	"errors"
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
// [Acquire], [Renew], [RenewMany], [Release], [Expire], [Reopen], [Abandon],
// [Revoke] or [Write].
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
	// Wait, if it is not 0, puts the request into the queue of the lease when it
	// cannot be granted at once. How long it waits is up to the leader: the table
	// has no clock. Whole milliseconds, at most [MaxWait].
	Wait time.Duration
	// LockDelay keeps the lease closed for that long after the grant has expired
	// or was revoked, for resources that cannot compare tokens. Whole
	// milliseconds, at most [MaxLockDelay].
	LockDelay time.Duration
	// Value is published with the grant.
	Value string
	// Reclaim takes the lease over from an older grant of the same holder: for
	// a process restarted under a stable name.
	Reclaim bool
}

// Bounds of an [Acquire].
const (
	MaxWait      = 10 * time.Minute
	MaxLockDelay = time.Minute
)

// Check says which field of an Acquire is out of the bounds that hold for every
// node. The error is a *[FieldError]. What gets into the log must keep them.
func (c Acquire) Check() error {
	return cmp.Or(CheckName(c.Name), CheckHolder(c.Holder), CheckRequestID(c.RequestID), CheckValue(c.Value),
		checkDuration("wait_ms", c.Wait, MaxWait), checkDuration("lock_delay_ms", c.LockDelay, MaxLockDelay))
}

func (c Acquire) request() request { return request{c.Name, c.Holder, c.RequestID} }

// Renew keeps a grant alive for its TTL from now on.
type Renew struct {
	Name, Holder string
	Token        uint64
	// TTL replaces the TTL of the grant, unless it is 0.
	TTL time.Duration
	// Value replaces the published value, unless it is nil.
	Value *string
}

// RenewMany renews grants of one holder, each as a [Renew] by itself would, in one
// entry: what an entry costs is shared by all of them.
type RenewMany struct {
	Holder   string
	Renewals []Renewal // of distinct names, at most [MaxRenewals]
}

// Renewal is one part of a [RenewMany].
type Renewal struct {
	Name  string
	Token uint64
}

// MaxRenewals bounds the renewals in one entry.
const MaxRenewals = 512

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

// Reopen ends the lock delay that followed the grant of that token.
type Reopen struct {
	Name  string
	Token uint64
}

// Abandon is for a request whose client waits no longer: it takes the waiter out of
// its queue. If that was granted meanwhile, and its client is gone and has not taken
// the grant, the grant is given back.
type Abandon struct {
	Name, Holder, RequestID string
	// Place is the index of the entry that queued the waiter. A request that was
	// abandoned may be queued again, and an Abandon of its first place must not
	// take it out of the second.
	Place  uint64
	Reason Reason
}

// Reason why a waiter was abandoned, as the end of a sentence.
type Reason string

// The reasons of an [Abandon].
const (
	WaitOver   Reason = "its wait was over"
	ClientGone Reason = "its client closed the connection"
	NotBack    Reason = "its client did not come back after a change of leader"
)

// Revoke ends a grant at the wish of an operator, who has to name the token that
// was seen.
type Revoke struct {
	Name   string
	Token  uint64
	Reason string
}

// Check says which field of a Revoke is out of bounds, as a *[FieldError].
func (c Revoke) Check() error { return cmp.Or(CheckName(c.Name), CheckReason(c.Reason)) }

// Write writes to a register, which accepts it or not by the token that comes
// with it.
type Write struct {
	Register, Value string
	// Token, if it is not 0, must be no less than the highest that the register
	// has seen.
	Token uint64
	// Lease, if it is not empty, must be held under Token at this very entry.
	Lease string
}

// Check says which field of a Write is out of bounds, as a *[FieldError].
func (c Write) Check() error {
	switch {
	case c.Lease == "":
		return cmp.Or(CheckName(c.Register), CheckValue(c.Value))
	case c.Token == 0:
		return &FieldError{"token", "is missing; a write that names a lease must have the token of its grant"}
	}
	if bad, ok := errors.AsType[*FieldError](CheckName(c.Lease)); ok {
		return &FieldError{"lease", bad.Detail}
	}
	return cmp.Or(CheckName(c.Register), CheckValue(c.Value))
}
