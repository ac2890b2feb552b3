// Package client holds leases from a Go program, and calls the HTTP API of a
// leasehold cluster.
//
// It has two levels. Most programs need the upper one:
//
//   - A [Client] is one holder. It acquires leases, keeps them renewed, campaigns
//     ([Client.Elect]) and observes ([Client.Observe]).
//   - A [Lease] is one grant that this process has, with its fencing token, until it
//     is released or lost.
//   - An [API] makes the calls of the cluster, one method a call, with the bodies of
//     package wire. It renews nothing. The command line is built on it.
//
// # The life of a lease
//
//	                     ┌─── a renewal is confirmed ────┐
//	                     ▼                               │
//	Acquire ─────────▶ held ── no word for TTL/2 ──▶ uncertain
//	                     │                               │
//	                     ├── the server says so ─────────┤
//	       Release ◀─────┤                               ├── no word until the
//	          │          └──────────▶ lost ◀─────────────┘   deadline
//	          ▼
//	       released
//
// All times count from before the latest confirmed request was sent, on the
// monotonic clock. The server began its TTL later, so this deadline passes first.
// Renewals are due at TTL/3, less up to a fifth of that by chance; each try is
// shorter than TTL/3 and asks every server that it has to; failures are tried again
// after a moment. The lease is lost at its deadline, a margin of TTL/50 + 10 ms
// before the TTL is over. The margin is for clocks of different rates (NTP keeps a
// kernel's clock within 0.05 % of true time; a fiftieth is 2 %) and for timers that
// fire late. Clocks that are slewed by more than that, as chrony may do after a large
// correction (8 %), need a larger TTL than the work, or a lock delay. A machine that
// is suspended stops its monotonic clock too: that is a pause like any other.
//
// A process that was paused cannot know it. On waking up the first thing that a
// Lease does when it is used is to look at the clock, but between that look and what
// follows it there may be another pause. So give the token to whatever the lease
// protects, and let that refuse older ones. See package fence.
//
// Leases of one client that are due at about the same time are renewed by one
// request, so 10,000 of them are nothing unusual.
//
// # A call and its tries
//
//	Acquire ──▶ rounds over the servers ──▶ tries, side by side ──▶ an exchange
//	            (retry.go)                  (hedge.go, try.go:      of one request
//	            the leader first,            one redirect at most)   and one answer
//	            a pause between rounds
//
// What a try tells about the request decides what follows:
//
//	answered   a 200 or a refusal of the cluster    → return it
//	nothing    503, or no connection                → the next server
//	unknown    the connection broke, or time was up → the next server, and
//	           after the request was sent; 504        remember that it is unknown
//	silent     no answer yet for 150 ms             → ask all servers at once who
//	                                                  leads, and try there as well
//
// Trying again is safe because every call is: an acquire carries the same request
// id in all its tries and so makes one grant at most; renew, release and revoke are
// idempotent. The one exception, a write to a register, is not sent again after a
// try with unknown outcome. If time runs out after a try with unknown outcome, the
// error is [ErrUnknown], whatever other servers said about the later tries.
//
// # Errors
//
// Errors of the cluster are *[Error] and work with [errors.Is]: [ErrHeld],
// [ErrCooling], [ErrWaitTimeout], [ErrNotHolder], [ErrLost], [ErrRequestEnded],
// [ErrStaleToken], [ErrUnavailable] and [ErrUnknown]. A lease that is lost says why
// with a *[LostError], which is [ErrLost].
//
// [API.Watch] is the one call that goes on: it follows the events of the cluster from
// server to server, by the index that it has come to (watch.go).
package client
