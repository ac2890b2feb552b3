package lease

import "time"

// Grant is one period of holding a lease. A Grant in the table is never
// changed: a renewal puts a new one in its place, so that a snapshot or a reader
// may keep the old one.
type Grant struct {
	// Token is the fencing token: the index of the entry that made this grant.
	Token uint64
	// Term is the Raft term of that entry.
	Term uint64
	// Renewal is the index of the last entry that renewed the grant, or Token
	// if none has.
	Renewal uint64
	// Renewals counts them.
	Renewals uint64

	Holder    string
	RequestID string
	Value     string
	// TTL is how long the grant lasts from its last renewal.
	TTL time.Duration
	// LockDelay is how long the lease stays closed after the grant has expired or
	// was revoked.
	LockDelay time.Duration
	// Place is the index of the entry that queued the request, or Token if it did
	// not wait.
	Place uint64
	// Taken: the client is known to have heard of the grant. One that was not waited
	// for is taken from the start; any other once it is renewed, or asked for again
	// by somebody who does not wait. Until then an [Abandon] may give it back.
	Taken bool

	// GrantedAt and RenewedAt are wall-clock milliseconds of the entries Token
	// and Renewal, for people to read.
	GrantedAt, RenewedAt int64
}

// Cooldown is a lock delay that runs.
type Cooldown struct {
	Token uint64 // of the grant that it follows
	Since uint64 // index of the entry that ended that grant
	Delay time.Duration
	At    int64 // wall-clock milliseconds of the entry Since
}

// Lease is a named right. One exists in the table only while it is held or
// cooling; a free name costs nothing. It is waited for only while it exists:
// what frees it hands it on.
type Lease struct {
	Name string
	// One of these is set, as long as the lease is in the table.
	Grant    *Grant    // while it is held
	Cooldown *Cooldown // while it is cooling
	Waiters  int       // in its queue
}

// State of a lease.
type State string

// The states of a lease.
const (
	Free    State = "free"
	Held    State = "held"
	Cooling State = "cooling" // nobody holds it, and nobody is granted it yet
)

// State of the lease; nil is a free one.
func (l *Lease) State() State {
	switch {
	case l == nil:
		return Free
	case l.Grant != nil:
		return Held
	case l.Cooldown != nil:
		return Cooling
	}
	return Free
}

// Live returns the grant of the lease if token is its live one, else nil.
func (l *Lease) Live(token uint64) *Grant {
	if l.State() != Held || l.Grant.Token != token {
		return nil
	}
	return l.Grant
}

// HeldBy says whether the lease is held under a grant that this request made.
func (l *Lease) HeldBy(holder, requestID string) bool {
	return l.State() == Held && l.Grant.Holder == holder && l.Grant.RequestID == requestID
}

// How says how a grant ended.
type How string

// The ways in which a grant can end.
const (
	Released  How = "released"  // by its holder
	Expired   How = "expired"   // it was not renewed within its TTL
	Reclaimed How = "reclaimed" // its holder started again and asked anew
	Revoked   How = "revoked"   // by an operator
)

// Ended records the end of a grant.
type Ended struct {
	Name      string
	Token     uint64
	Holder    string
	RequestID string
	How       How
	Reason    string // the operator's if it was revoked, a [Reason] if an Abandon gave it back
	Index     uint64 // of the entry that ended it
	At        int64  // wall-clock milliseconds of that entry
}
