// Package wire holds the JSON bodies of the HTTP API, shared by the server and
// its clients. Times are integer milliseconds in fields named _ms, wall-clock
// times are RFC 3339 strings for people to read.
package wire

// AcquireRequest is the body of POST /v1/acquire.
type AcquireRequest struct {
	Name      string `json:"name"`
	Holder    string `json:"holder"`
	TTLMillis int64  `json:"ttl_ms"`
	RequestID string `json:"request_id,omitempty"`
	Value     string `json:"value,omitempty"`
	Reclaim   bool   `json:"reclaim,omitempty"`

	// WaitMillis is how long to wait in the queue, 0 for not at all.
	WaitMillis int64 `json:"wait_ms,omitempty"`
	// LockDelayMillis keeps the lease closed after the grant has expired or was
	// revoked.
	LockDelayMillis int64 `json:"lock_delay_ms,omitempty"`
}

// RenewRequest is the body of POST /v1/renew. A TTLMillis of 0 and a nil Value
// leave those of the grant as they are.
type RenewRequest struct {
	Name      string  `json:"name"`
	Holder    string  `json:"holder"`
	Token     uint64  `json:"token"`
	TTLMillis int64   `json:"ttl_ms,omitempty"`
	Value     *string `json:"value,omitempty"`
}

// ReleaseRequest is the body of POST /v1/release.
type ReleaseRequest struct {
	Name   string `json:"name"`
	Holder string `json:"holder"`
	Token  uint64 `json:"token"`
}

// Grant answers an acquire and a renew.
type Grant struct {
	Name            string `json:"name"`
	Holder          string `json:"holder"`
	Token           uint64 `json:"token"`
	TTLMillis       int64  `json:"ttl_ms"`
	RemainingMillis int64  `json:"remaining_ms"`
	Value           string `json:"value"`
	RequestID       string `json:"request_id"`
	Replayed        bool   `json:"replayed"`
	ClusterID       string `json:"cluster_id"`
	Term            uint64 `json:"term"`  // of the entry that answered
	Index           uint64 `json:"index"` // of the entry that answered
}

// Release answers a release.
type Release struct {
	Name    string `json:"name"`
	Token   uint64 `json:"token"`
	Index   uint64 `json:"index"` // of the entry that ended the grant
	Already bool   `json:"already"`
}

// Lease is a lease as a reader sees it. The fields of its grant are absent when
// nobody holds it.
type Lease struct {
	Name            string `json:"name"`
	State           string `json:"state"` // "held", "cooling", "free"
	Holder          string `json:"holder,omitempty"`
	Token           uint64 `json:"token,omitempty"`
	TTLMillis       int64  `json:"ttl_ms,omitempty"`
	LockDelayMillis int64  `json:"lock_delay_ms,omitempty"` // of the grant; while cooling, the one that runs
	CoolingSince    uint64 `json:"cooling_since,omitempty"` // index of the entry that began it
	RemainingMillis *int64 `json:"remaining_ms,omitempty"`  // of the TTL, while cooling of the lock delay; leader only
	Value           string `json:"value,omitempty"`
	RequestID       string `json:"request_id,omitempty"`
	GrantedAt       string `json:"granted_at,omitempty"`
	RenewedAt       string `json:"renewed_at,omitempty"`
	Renewals        uint64 `json:"renewals"`
	Waiters         int    `json:"waiters"`
	Last            *Last  `json:"last,omitempty"`
	ClusterID       string `json:"cluster_id,omitempty"`
	Term            uint64 `json:"term,omitempty"`
	Index           uint64 `json:"index,omitempty"` // of the state read
	*StaleRead
}

// Last says how a lease's previous grant ended.
type Last struct {
	Token  uint64 `json:"token"`
	Holder string `json:"holder"`
	How    string `json:"how"` // "released", "expired", "reclaimed", "revoked"
	Reason string `json:"reason,omitempty"`
	Index  uint64 `json:"index"`
	At     string `json:"at,omitempty"`
	Why    string `json:"why"`
}

// StaleRead labels an answer that may be old.
type StaleRead struct {
	Stale             bool   `json:"stale"` // always true
	AppliedIndex      uint64 `json:"applied_index"`
	Leader            *Node  `json:"leader"`          // null while none is known
	LastContactMillis *int64 `json:"last_contact_ms"` // null if it never heard from a leader
}

// Node names a node.
type Node struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// Leases is a page of GET /v1/leases.
type Leases struct {
	Leases []Lease `json:"leases"`
	Next   string  `json:"next"` // the after of the next page, empty at the end
	Index  uint64  `json:"index"`
	*StaleRead
}

// Request is one item of GET /v1/requests/{request_id}.
type Request struct {
	Name   string `json:"name"`
	Holder string `json:"holder"`
	State  string `json:"state"` // "granted", "queued", "ended"
	Token  uint64 `json:"token"` // 0 while it is queued
	How    string `json:"how,omitempty"`
	Reason string `json:"reason,omitempty"` // of a revoke
	Index  uint64 `json:"index"`            // of the entry that granted, queued or ended it
}

// Status answers GET /v1/status: the view of the node that was asked.
type Status struct {
	ID                string       `json:"id"`
	Address           string       `json:"address"`
	Role              string       `json:"role"`
	Term              uint64       `json:"term"`
	Leader            *Node        `json:"leader"` // null while none is known
	ClusterID         string       `json:"cluster_id"`
	LastIndex         uint64       `json:"last_index"`
	CommitIndex       uint64       `json:"commit_index"`
	AppliedIndex      uint64       `json:"applied_index"`
	SnapshotIndex     uint64       `json:"snapshot_index"`
	StateHash         string       `json:"state_hash"` // 16 hex digits, at applied_index
	LastContactMillis *int64       `json:"last_contact_ms"`
	Peers             []PeerStatus `json:"peers"`
	Leases            int          `json:"leases"`
	Waiters           int          `json:"waiters"`
	Registers         int          `json:"registers"`
	Version           string       `json:"version"`
	UptimeMillis      int64        `json:"uptime_ms"`
	Lab               bool         `json:"lab"`
	Faults            []Fault      `json:"faults,omitempty"` // that are on
	Waiting           string       `json:"waiting,omitempty"`
}

// PeerStatus is how another node looks from the one that was asked.
type PeerStatus struct {
	Node
	Reachable       bool   `json:"reachable"`
	LastHeardMillis *int64 `json:"last_heard_ms"`
}

// Cluster answers GET /v1/cluster.
type Cluster struct {
	ClusterID string   `json:"cluster_id"`
	Leader    *Node    `json:"leader"`
	Members   []Member `json:"members"`
}

// Member of the cluster.
type Member struct {
	Node
	Suffrage string `json:"suffrage"` // "voter", "nonvoter"
}

// Log answers GET /v1/log.
type Log struct {
	First   uint64     `json:"first"`
	Last    uint64     `json:"last"`
	Entries []LogEntry `json:"entries"`
}

// LogEntry is one entry of a node's Raft log, decoded. Which fields are present
// depends on Kind.
type LogEntry struct {
	Index           uint64    `json:"index"`
	Term            uint64    `json:"term"`
	At              string    `json:"at"`
	Kind            string    `json:"kind"`
	Name            string    `json:"name,omitempty"`
	Holder          string    `json:"holder,omitempty"`
	RequestID       string    `json:"request_id,omitempty"`
	Token           uint64    `json:"token,omitempty"`
	Renewal         uint64    `json:"renewal,omitempty"`
	OfTerm          uint64    `json:"of_term,omitempty"` // expire: the term whose clock ran out
	TTLMillis       int64     `json:"ttl_ms,omitempty"`
	WaitMillis      int64     `json:"wait_ms,omitempty"`
	LockDelayMillis int64     `json:"lock_delay_ms,omitempty"`
	Value           *string   `json:"value,omitempty"`
	Reclaim         bool      `json:"reclaim,omitempty"`
	Place           uint64    `json:"place,omitempty"`      // abandon: index of the entry that queued it
	Reason          string    `json:"reason,omitempty"`     // abandon, revoke
	Register        string    `json:"register,omitempty"`   // write
	Lease           string    `json:"lease,omitempty"`      // write
	Node            *Node     `json:"node,omitempty"`       // lead
	ClusterID       string    `json:"cluster_id,omitempty"` // lead
	Members         []Member  `json:"members,omitempty"`    // configuration
	Renewals        []Renewal `json:"renewals,omitempty"`   // renew-many
}

// Version answers GET /version.
type Version struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

// Live answers GET /livez.
type Live struct {
	Live bool `json:"live"` // always true
}

// Ready answers GET /readyz. A node that is not ready answers with a Problem.
type Ready struct {
	Ready bool `json:"ready"` // always true
}

// Problem is the body of every error (RFC 9457, application/problem+json).
type Problem struct {
	Type             string `json:"type"` // "about:blank"
	Title            string `json:"title"`
	Status           int    `json:"status"`
	Code             string `json:"code"`
	Detail           string `json:"detail"`
	Field            string `json:"field,omitempty"`
	Lease            *Lease `json:"lease,omitempty"`
	Leader           *Node  `json:"leader,omitempty"`
	RetryAfterMillis *int64 `json:"retry_after_ms,omitempty"`
	RequestID        string `json:"request_id,omitempty"`
	How              string `json:"how,omitempty"`
	Index            uint64 `json:"index,omitempty"`
	Token            uint64 `json:"token,omitempty"`
	HighestToken     uint64 `json:"highest_token,omitempty"` // that the register has seen
}
