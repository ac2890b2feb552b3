package check_test

import (
	"fmt"
	"time"

	"leasehold/lease"
	"leasehold/torture/history"
)

// story is a small history made by hand.
type story struct {
	h     history.History
	table lease.Table
}

const ms = time.Millisecond

// entry appends a command to the log and returns its index. The log begins with
// one of Raft's own entries, as a real one does.
func (s *story) entry(c lease.Command) uint64 {
	if len(s.h.Entries) == 0 {
		s.h.Entries = append(s.h.Entries, history.Entry{Node: "n1", Index: 1, Term: 1, Kind: "configuration"})
	}
	e := history.Entry{Node: "n1", Index: uint64(len(s.h.Entries) + 1), Term: 1, Kind: "command", Command: c}
	s.h.Entries = append(s.h.Entries, e)
	s.table.Apply(lease.Entry{Index: e.Index, Term: e.Term}, c)
	return e.Index
}

// op records an operation that took from one time to another.
func (s *story) op(from, to time.Duration, o history.Operation) {
	o.ID, o.Call, o.Return = len(s.h.Operations)+1, from, to
	if o.Client == "" {
		o.Client = o.Holder
	}
	if o.Outcome == "" {
		o.Outcome = history.OK
	}
	s.h.Operations = append(s.h.Operations, o)
}

// acquire is an answered acquire of a second's TTL, index 0: without a log.
func acquire(name, holder string, token, index uint64) history.Operation {
	return history.Operation{
		Kind: history.Acquire, Name: name, Holder: holder, RequestID: fmt.Sprintf("r%d", token), TTL: time.Second,
		Answer: history.Answer{Token: token, Holder: holder, Index: index},
	}
}

func renew(name, holder string, token, index uint64) history.Operation {
	return history.Operation{
		Kind: history.Renew, Name: name, Holder: holder, Token: token,
		Answer: history.Answer{Token: token, Index: index},
	}
}

func release(name, holder string, token, index uint64) history.Operation {
	return history.Operation{Kind: history.Release, Name: name, Holder: holder, Token: token, Answer: history.Answer{Index: index}}
}

func read(name, state, holder string, token, index uint64) history.Operation {
	return history.Operation{
		Kind: history.Get, Name: name, Client: "reader",
		Answer: history.Answer{State: state, Holder: holder, Token: token, Index: index},
	}
}

func staleRead(session string, index uint64) history.Operation {
	o := read("a", "free", "", 0, index)
	o.Kind, o.Session, o.Answer.Stale = history.StaleGet, session, true
	return o
}

func write(register string, token uint64, value string) history.Operation {
	return history.Operation{Kind: history.Write, Client: fmt.Sprintf("writer%d", token), Register: register, Token: token, Value: &value}
}

func refused(o history.Operation, code string) history.Operation {
	o.Outcome, o.Code = history.Refused, code
	o.Answer = history.Answer{Index: o.Answer.Index}
	return o
}

// logAcquire is the command that such an acquire asks for, with the request id of
// the token that it is going to get.
func (s *story) logAcquire(name, holder string, wait time.Duration) (history.Operation, uint64) {
	next := uint64(max(2, len(s.h.Entries)+1))
	o := acquire(name, holder, next, next)
	o.Wait = wait
	at := s.entry(lease.Acquire{Name: name, Holder: holder, RequestID: o.RequestID, TTL: o.TTL, Wait: wait})
	return o, at
}
