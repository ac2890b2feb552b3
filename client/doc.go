// Package client calls the HTTP API of a leasehold cluster from Go.
//
// A [Client] knows some servers of one cluster and hides from its caller which
// of them leads. One method makes one call of the API; the bodies are those of
// package wire.
//
//	Acquire ──▶ rounds over the servers ──▶ a try at one server ──▶ an exchange
//	            (retry.go)                  (try.go: one redirect   of one request
//	            the leader first,            at most)               and one answer
//	            a pause between rounds
//
// What a try tells about the request decides what follows:
//
//	answered   a 200 or a refusal of the cluster    → return it
//	nothing    503, or no connection                → the next server
//	unknown    the connection broke, or time was up → the next server, and
//	           after the request was sent; 504        remember that it is unknown
//
// Trying again is safe because every call is: an acquire carries the same request
// id in all its tries and so makes one grant at most; renew, release and revoke are
// idempotent. The one exception, a write to a register, is not sent again after a
// try with unknown outcome. If time runs out after a try with unknown outcome, the error is
// [ErrUnknown], whatever other servers said about the later tries.
//
// Errors are *[Error] and work with [errors.Is] for the refusals of package
// lease ([lease.ErrHeld], [lease.ErrNotHolder], [lease.ErrLost],
// [lease.ErrRequestEnded], [lease.ErrStaleToken]) and for [ErrUnavailable] and [ErrUnknown].
//
// [Client.Watch] is the one call that goes on: it follows the events of the
// cluster from server to server, by the index that it has come to (watch.go).
//
// A grant is not yet safety: between the answer and its use any time may pass.
// Count the TTL from before the request was sent, and give the token to whatever
// the lease protects so that it can refuse older ones.
package client
