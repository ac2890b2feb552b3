// Package cluster runs one node of a leasehold cluster: it joins the state
// machine to Raft, leads when it is elected, and answers reads.
//
//	requests ──▶ Node ──propose──▶ Raft ──committed──▶ fsm.Machine
//	              │                  │                     │
//	              │            leadership loop             │ every result
//	              │                  ▼                     ▼
//	              └──confirm──▶ leadership ◀────────── keeper
//	                   │        (one term)        (lease clock, deadlines)
//	                   ▼
//	                 peers ── "what is your term?" ──▶ the other nodes
//
// Four nouns: a [Node] is one process of the cluster; a leadership is what
// exists only while this node leads, one for each term; its keeper knows when
// leases run out; peers are the other nodes as seen from here.
//
// # Time
//
// Only the leader keeps time, on the lease clock (clock.go), and only proposals
// come of it: a grant ends when an Expire entry is applied, never because some
// clock says so.
//
// # What a request can come to
//
// See errors.go: it took effect, it was refused by the log, nothing happened, or
// nobody knows. Raft's Apply timeout bounds only the way into its queue, and its
// ErrLeadershipLost means that the entry may still be committed by the next
// leader; propose.go is the one place that tells these apart.
package cluster
