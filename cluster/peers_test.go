package cluster

import (
	"errors"
	"testing"

	"leasehold/transport"
)

// hello is an answer of a node that runs in that term.
func hello(term uint64) transport.Hello { return transport.Hello{Running: true, Term: term} }

// newRound is a round for term 5 under way among four other voters, of which two
// are needed.
func newRound() (*peers, *round) {
	r := &round{
		done: make(chan struct{}), term: 5, need: 2,
		voters: map[string]bool{"n2": true, "n3": true, "n4": true, "n5": true},
	}
	return &peers{now: r}, r
}

// ended says whether a round is over, and how.
func (r *round) ended() (bool, error) {
	select {
	case <-r.done:
		return true, r.err
	default:
		return false, nil
	}
}

// A majority of answers from the same or an older term confirms a round.
func TestRound_Majority(t *testing.T) {
	p, r := newRound()
	p.vote(r, "n2", hello(5))
	if over, _ := r.ended(); over {
		t.Fatal("one answer of two ended the round")
	}
	p.vote(r, "n4", hello(3))
	if over, err := r.ended(); !over || err != nil {
		t.Errorf("over: %v, %v, want confirmed", over, err)
	}
	if p.now != nil {
		t.Error("it is still under way")
	}
	p.vote(r, "n5", hello(9)) // late, and of no concern to anybody
	if _, err := r.ended(); err != nil {
		t.Errorf("a late answer changed it to %v", err)
	}
}

// One answer from a newer term is enough to refuse.
func TestRound_NewerTerm(t *testing.T) {
	p, r := newRound()
	p.vote(r, "n2", hello(5))
	p.vote(r, "n3", hello(6))
	over, err := r.ended()
	var unavailable *Unavailable
	if !over || !errors.As(err, &unavailable) || unavailable.Reason != NoLeader {
		t.Errorf("over: %v, %v, want refused", over, err)
	}
}

// An answer counts once, only a voter's counts, and only if Raft runs there.
func TestRound_WhatDoesNotCount(t *testing.T) {
	p, r := newRound()
	p.vote(r, "n2", hello(5))
	p.vote(r, "n2", hello(5))
	p.vote(r, "stranger", hello(5))
	p.vote(r, "stranger", hello(6))
	p.vote(r, "n3", transport.Hello{})
	if over, err := r.ended(); over {
		t.Errorf("the round ended with one vote: %v", err)
	}
	p.vote(r, "n3", hello(5)) // it runs now
	if over, err := r.ended(); !over || err != nil {
		t.Errorf("over: %v, %v, want confirmed", over, err)
	}
}

// An answer to a question of an older round counts for nothing in the one under
// way.
func TestRound_AnswerForAnOlderRound(t *testing.T) {
	p, old := newRound()
	_, now := newRound()
	p.now = now
	for _, id := range []string{"n2", "n3", "n4", "n5"} {
		p.vote(old, id, hello(5))
		p.vote(old, id, hello(6))
	}
	if over, err := now.ended(); over || now.need != 2 {
		t.Errorf("over: %v, %v, %d votes missing, want nothing changed", over, err, now.need)
	}
}
