package cluster

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"leasehold/lease"
)

// A request to a node ends in one of four ways, and a client must know which:
//
//	it took effect        a value, no error
//	it was refused        *Refusal: an entry of the log says no
//	nothing happened      *NotLeader, *Unavailable, *LimitError, *lease.FieldError
//	nobody knows          *Unknown
//
// Every error of the Raft library is mapped to one of the last two in propose.go.

// Peer is a node as others know it.
type Peer struct{ ID, Address string }

// NotLeader: another node leads, ask it. Nothing happened.
type NotLeader struct{ Leader Peer }

func (e *NotLeader) Error() string {
	return fmt.Sprintf("node %s at %s is the leader", e.Leader.ID, e.Leader.Address)
}

// Reason why a node cannot serve.
type Reason string

// The reasons of [Unavailable].
const (
	NoLeader     Reason = "no_leader"    // an election is under way
	NoQuorum     Reason = "no_quorum"    // this node reaches no majority of voters
	Transferring Reason = "transferring" // leadership is being handed over
)

// Unavailable: no leader can take the request now. Nothing happened; try again.
type Unavailable struct {
	Reason Reason
	Detail string // a sentence for people
}

func (e *Unavailable) Error() string { return e.Detail }

// Unknown: the request was handed to Raft, and leadership was lost before its
// entry was known to be committed. It may take effect or not. A client asks
// again with the same request id.
type Unknown struct{ Cause error }

func (e *Unknown) Error() string {
	return fmt.Sprintf("the outcome is unknown: %v; repeat the request with the same request id to learn it", e.Cause)
}
func (e *Unknown) Unwrap() error { return e.Cause }

// TooManyRegisters is the code of the limit that no waiting gets below.
const TooManyRegisters = "too_many_registers"

// LimitError: a bound of this server is reached. Nothing happened.
type LimitError struct {
	Code   string // "too_many_leases", TooManyRegisters
	Detail string
}

func (e *LimitError) Error() string { return e.Detail }

// ErrWaitTimeout: the request waited as long as it asked for, and was then taken
// out of the queue.
var ErrWaitTimeout = errors.New("the wait is over")

// Queued: the request is in the queue of its lease, but this node can no longer
// answer it. It keeps its place for a client that asks the next leader with the
// same request id soon enough. It unwraps to where to ask.
type Queued struct{ Err error }

func (e *Queued) Error() string {
	who := "this node no longer leads"
	if _, known := errors.AsType[*NotLeader](e.Err); known {
		who = e.Err.Error()
	}
	return fmt.Sprintf("%s; the request keeps its place in the queue if its client asks the next leader with the same request_id within %v of that one's start", who, waitGrace)
}
func (e *Queued) Unwrap() error { return e.Err }

// Refusal: an entry of the log refused the request. It unwraps to the refusal of
// package lease, or to [ErrWaitTimeout].
type Refusal struct {
	Outcome
	// RetryAfter is when it is worth asking again; 0 if asking again is no use.
	RetryAfter time.Duration
	// Last is how the lease's previous grant ended, nil if not known.
	Last *lease.Ended
	// Note is what else there is to say, empty if nothing.
	Note string
}

func (e *Refusal) Error() string {
	why := e.Note
	for _, ev := range e.Result.Events {
		if ev.Kind == lease.KindRefused || ev.Kind == lease.KindAbandoned {
			why = ev.Why()
		}
	}
	return strings.TrimSuffix(fmt.Sprintf("%v: %s", e.Result.Err, why), ": ")
}
func (e *Refusal) Unwrap() error { return e.Result.Err }
