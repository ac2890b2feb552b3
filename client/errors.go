package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// The refusals of the cluster. They are those of package lease, under the names
// by which a user of this package alone knows them.
var (
	// ErrHeld: another grant of the lease is live. The [Error] tells whose, and when
	// to ask again.
	ErrHeld = lease.ErrHeld
	// ErrCooling: the lock delay of the grant before still runs.
	ErrCooling = lease.ErrCooling
	// ErrLost: the grant is over, or cannot be relied on any more. See [LostError].
	ErrLost = lease.ErrLost
	// ErrNotHolder: the token belongs to another holder.
	ErrNotHolder = lease.ErrNotHolder
	// ErrRequestEnded: the grant that this request id once made is over.
	ErrRequestEnded = lease.ErrRequestEnded
	// ErrStaleToken: the register has seen a higher token, or the token is not live.
	ErrStaleToken = lease.ErrStaleToken
)

var (
	// ErrUnavailable: no server could be reached, or none of them could serve.
	// Nothing happened.
	ErrUnavailable = errors.New("no server can serve the request")
	// ErrUnknown: the request may or may not have taken effect. Repeat an
	// acquire with the request id that the [Error] names to learn it.
	ErrUnknown = errors.New("the outcome is unknown")
	// ErrCompacted: no server that answers keeps the events that a watch has come
	// to. The [Error] names the index after which they are kept. List the leases,
	// and watch on from the index of the list.
	ErrCompacted = errors.New("the events are no longer kept")
	// ErrWaitTimeout: the request waited in the queue as long as it asked for, and is
	// out of it.
	ErrWaitTimeout = errors.New("the wait is over")

	// ErrReleased: the lease was given back by [Lease.Release].
	ErrReleased = errors.New("the lease was released")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("the client is closed")
)

// Codes that the client itself gives; all others come from servers.
const (
	codeUnknown     = "outcome_unknown" // also a server's
	codeUnreachable = "unreachable"     // no server answered
	codeUnexpected  = "unexpected"      // an answer that no leasehold server gives
	codeCancelled   = "cancelled"       // the caller's context ended before anything happened
)

// sentinels is what the codes of the API mean to a Go program: the inverse of
// the server's table of errors. Codes that are not here are told apart by
// [Error.Code].
var sentinels = map[string]error{
	"held":          lease.ErrHeld,
	"cooling":       lease.ErrCooling,
	"wait_timeout":  ErrWaitTimeout,
	"not_holder":    lease.ErrNotHolder,
	"lease_lost":    lease.ErrLost,
	"request_ended": lease.ErrRequestEnded,
	"stale_token":   lease.ErrStaleToken,

	"compacted": ErrCompacted,

	"not_leader":    ErrUnavailable,
	"no_leader":     ErrUnavailable,
	"no_quorum":     ErrUnavailable,
	"transferring":  ErrUnavailable,
	"removed":       ErrUnavailable,
	codeUnreachable: ErrUnavailable,

	codeUnknown: ErrUnknown,
}

// Error is an answer of the cluster other than success, or the lack of one.
type Error struct {
	// Problem as the server described it. When no server did, the client fills
	// in Code and Detail, and Status is 0. RequestID is always set for an acquire.
	wire.Problem
	// Server that was asked last, as a URL.
	Server string
	// Cause is the error of the connection or the context, if there is one.
	Cause error
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Code
	}
	return e.Code + ": " + e.Detail
}

// Unwrap gives the sentinel of the code and the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	if s := e.sentinel(); s != nil {
		errs = append(errs, s)
	}
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	return errs
}

func (e *Error) sentinel() error {
	if s, ok := sentinels[e.Code]; ok {
		return s
	}
	switch e.Status {
	case http.StatusServiceUnavailable, http.StatusTemporaryRedirect:
		// With a code that this client does not know yet, or with none.
		return ErrUnavailable
	}
	return nil
}

// Holder gives who has the lease, where the answer tells it: with [ErrHeld],
// [ErrNotHolder] and [ErrLost]. Otherwise it is empty.
func (e *Error) Holder() string {
	if e.Lease == nil {
		return ""
	}
	return e.Lease.Holder
}

// RetryAfter is when asking again may help, from the time of the answer; 0 if
// nothing is known of it. With [ErrHeld] it is sufficient if the holder is silent
// from now on.
func (e *Error) RetryAfter() time.Duration {
	if e.RetryAfterMillis == nil {
		return 0
	}
	return time.Duration(min(*e.RetryAfterMillis, maxMillis)) * time.Millisecond
}

// maxMillis is the longest time in milliseconds that a Duration can hold.
const maxMillis = math.MaxInt64 / int64(time.Millisecond)

// unreachable is the error of a try that had no effect and brought no answer.
func unreachable(server string, cause error) *Error {
	return &Error{
		Problem: wire.Problem{Code: codeUnreachable, Detail: host(server) + ": " + reason(cause)},
		Server:  server, Cause: cause,
	}
}

// unsure is the error of a try that may have had an effect.
func unsure(server string, cause error) *Error {
	return &Error{
		Problem: wire.Problem{
			Code: codeUnknown,
			Detail: fmt.Sprintf("%s: %s; the request may or may not have taken effect",
				host(server), reason(cause)),
		},
		Server: server, Cause: cause,
	}
}

// unexpected is the error of an answer that no leasehold server gives.
func unexpected(server string, status int, what string) *Error {
	return &Error{
		Problem: wire.Problem{
			Status: status, Code: codeUnexpected,
			Detail: fmt.Sprintf("%s: answered %d %s: %s", host(server), status, http.StatusText(status), what),
		},
		Server: server,
	}
}

func host(server string) string { return strings.TrimPrefix(server, "http://") }

// reason says what went wrong with a connection, without the URL and the verb
// that net/http puts around it.
func reason(cause error) string {
	switch {
	case errors.Is(cause, io.EOF), errors.Is(cause, io.ErrUnexpectedEOF):
		return "the connection broke before its answer"
	case errors.Is(cause, context.DeadlineExceeded):
		return "no answer in time"
	}
	innermost := cause
	for e := cause; e != nil; e = errors.Unwrap(e) {
		innermost = e
	}
	return innermost.Error()
}
