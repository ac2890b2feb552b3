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

	// GrantedAt and RenewedAt are wall-clock milliseconds of the entries Token
	// and Renewal, for people to read.
	GrantedAt, RenewedAt int64
}

// Lease is a named right. One exists in the table only while it is held; a
// free name costs nothing.
type Lease struct {
	Name  string
	Grant *Grant // nil when the lease is free
}

// State of a lease.
type State string

// The states of a lease.
const (
	Free State = "free"
	Held State = "held"
)

// State says whether the lease is held.
func (l *Lease) State() State {
	if l == nil || l.Grant == nil {
		return Free
	}
	return Held
}

// How says how a grant ended.
type How string

// The ways in which a grant can end.
const (
	Released  How = "released"  // by its holder
	Expired   How = "expired"   // it was not renewed within its TTL
	Reclaimed How = "reclaimed" // its holder started again and asked anew
)

// Ended records the end of a grant.
type Ended struct {
	Name      string
	Token     uint64
	Holder    string
	RequestID string
	How       How
	Index     uint64 // of the entry that ended it
	At        int64  // wall-clock milliseconds of that entry
}
