package cluster

import (
	"time"

	"leasehold/lease"
)

// Outcome is what a write came to.
type Outcome struct {
	Result lease.Result
	// Remaining is how long the lease now in Result.Lease has left on the
	// leader's lease clock, within 0 and its TTL.
	Remaining time.Duration
	ClusterID string
	// Answered, if it is not nil, must be called once: was this outcome written to
	// the client, or was the client gone? Nobody holds a lease on behalf of a client
	// that was gone before its answer.
	Answered func(written bool)
}

// Consistency of a read.
type Consistency string

// The two kinds of reads.
const (
	// Linearizable: the answer is no older than the request. Leader only.
	Linearizable Consistency = "linearizable"
	// Stale: what this node has applied, however old.
	Stale Consistency = "stale"
)

// Read says what state an answer was made from.
type Read struct {
	Consistency Consistency
	Index, Term uint64 // of the entry applied last
	ClusterID   string
	// Leader as this node knows it, and how long ago it heard from it (0 on the
	// leader, -1 if never).
	Leader      Peer
	LastContact time.Duration
}

// LeaseView is a lease as a reader sees it.
type LeaseView struct {
	Name  string
	Lease *lease.Lease // nil if free
	Last  *lease.Ended // how the previous grant ended, nil if not known
	// Remaining is known to the leader alone; negative elsewhere.
	Remaining time.Duration
}

// LeaseQuery selects leases for a list.
type LeaseQuery struct {
	Prefix string // of the name
	After  string // names greater than this
	Limit  int    // 1 to MaxPage
}

// MaxPage bounds the items of one list.
const MaxPage = 1000

// LeasePage is a part of a list, in the order of names. Next is the After of the
// page that follows, empty at the end.
type LeasePage struct {
	Leases []LeaseView
	Next   string
}

// RequestView is one thing known of a request id.
type RequestView struct {
	Name, Holder string
	// One of these is set.
	Grant  *lease.Grant  // live
	Waiter *lease.Waiter // queued
	Ended  *lease.Ended  // ended
}

// Role of a node in Raft.
type Role string

// The roles. A node that has not formed or joined a cluster yet is Starting.
const (
	Starting  Role = "starting"
	Follower  Role = "follower"
	Candidate Role = "candidate"
	Leader    Role = "leader"
	Stopped   Role = "stopped"
)

// Status is a node's own view of itself.
type Status struct {
	ID, Address   string
	Role          Role
	Term          uint64
	Leader        Peer
	ClusterID     string
	LastIndex     uint64 // of the log
	CommitIndex   uint64
	AppliedIndex  uint64 // of the state machine
	SnapshotIndex uint64
	StateHash     uint64 // at AppliedIndex
	LastContact   time.Duration
	Peers         []PeerStatus
	Leases        int // that are not free
	Waiters       int // in all queues
	Registers     int
	Version       string
	Uptime        time.Duration
	Waiting       string // why a starting node is not ready, in a sentence
}

// PeerStatus is how another node looks from here.
type PeerStatus struct {
	Peer
	Reachable bool
	LastHeard time.Duration // since its last answer; -1 if never
}

// Member of the cluster, by the latest configuration in this node's log.
type Member struct {
	Peer
	Suffrage string // "voter", "nonvoter"
}

// Members of the cluster.
type Members struct {
	ClusterID string
	Leader    Peer
	Members   []Member
}

// LogEntry is one entry of this node's Raft log, decoded.
type LogEntry struct {
	Index, Term uint64
	At          int64  // wall-clock milliseconds, 0 if the entry has none
	Kind        string // "acquire", "expire", …; "noop", "configuration" of Raft's own
	Command     lease.Command
	Members     []Member // of a configuration
}

// LogPage is a part of the log. First and Last are the bounds of what the node
// has, both 0 when it is empty.
type LogPage struct {
	First, Last uint64
	Entries     []LogEntry
}
