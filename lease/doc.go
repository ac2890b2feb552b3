// Package lease is the state machine of leasehold: what a lease is, and what
// each command in the log does to it.
//
// It is a pure function of the log. It reads no clock, draws no random number,
// depends on no flag of the node and iterates no map, so every node that has
// applied the same entries holds the same [Table], byte for byte. Time enters
// only as commands: a leader that has watched a deadline pass proposes an
// [Expire], and it is the entry that ends the grant, not the clock.
//
//	                           Renew: same token, new renewal index
//	                           ┌──┐
//	          Acquire          │  ▼     Release, Expire, Revoke
//	free ────────────────────▶ held ────────────────────────────▶ free
//	                           ▲ ▲ │
//	     somebody waits: the   │ │ │ Expire or Revoke of a grant
//	     same entry grants to  │ │ │ with a lock delay
//	     the first in the queue└─┼─┤
//	                             │ ▼
//	                             cooling ── Reopen, nobody waits ──▶ free
//
// Six nouns:
//
//   - a [Lease] is a named right, present in the table only while it is held or
//     cooling;
//   - a [Grant] is one period of holding. Its Token is the index of the log
//     entry that made it, so tokens rise strictly and each names one grant;
//   - a [Waiter] is an acquire in the queue of a lease. Its place is the index of
//     the entry that queued it;
//   - a [Register] is a value that refuses writers whose token was overtaken;
//   - an [Ended] says how a grant ended and at which index. The table keeps the
//     last [EndedKept] of them, to answer "what happened to my request?";
//   - an [Event] is one thing that an entry did, with the reason why.
//
// The table does not decide when a grant has run out and does not check limits
// that are flags of a node (TTL bounds, number of leases): replicas with
// different flags would part ways. The leader checks those before it proposes.
package lease
