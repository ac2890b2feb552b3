package main

import (
	"math/rand/v2"
	"time"
)

// place is where a worker that handles a batch can be hit.
type place int

const (
	nowhere    place = iota
	beforePush       // the last look at the lock is over, the push is not sent yet
	slowAnswer       // the API has booked, and takes long to say so; the process runs on
	beforeMark       // the API has answered, the database does not know of it yet
	afterMark        // the batch is done, the next one is not begun
)

var places = []place{beforePush, slowAnswer, beforeMark, afterMark}

// pause is what hits a worker while it handles one batch, if anything.
type pause struct {
	place  place
	length time.Duration
	crash  bool // it is no pause: the process dies there
}

// pauses says which worker is hit when. It is a function of the seed alone: the
// k-th batch that a worker handles has the same pause in every run, whichever
// batch that is and whatever the others do.
type pauses struct {
	seed    uint64
	every   int           // a worker is hit once in so many of its batches; 0 is never
	ttl     time.Duration // a pause takes 2 to 3 of it
	crashes bool          // half of what stops a process kills it
}

// of gives the pause for a batch that a worker handles; step counts them from 0.
func (p pauses) of(worker, step int) pause {
	if p.every == 0 {
		return pause{}
	}
	// The first time comes soon, or most workers would not live to see it.
	first := p.draw(worker, -1).IntN(min(p.every, 3))
	if step%p.every != first {
		return pause{}
	}
	r := p.draw(worker, step)
	hit := pause{
		place:  places[r.IntN(len(places))],
		length: 2*p.ttl + time.Duration(r.Int64N(int64(p.ttl))),
	}
	hit.crash = p.crashes && hit.place != slowAnswer && r.IntN(2) == 0
	return hit
}

func (p pauses) draw(worker, step int) *rand.Rand {
	return rand.New(rand.NewPCG(p.seed, uint64(worker)<<32|uint64(uint32(step))))
}
