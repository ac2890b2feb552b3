package client

import (
	"container/heap"
	"math/rand/v2"
	"sync"
	"time"
)

// renewer keeps the leases of a client alive. One goroutine, which runs as long as
// there is a lease, looks after all of them: each has a time at which something
// must be done about it, and the heap has the earliest of them on top.
//
//	       ┌──────────────────────────── its time comes ◀─┐
//	       ▼                                              │
//	due for renewal ──▶ in a batch, on its way ──▶ renewed: again at TTL/3
//	       │                    │        └───────▶ no word: again in a moment
//	       │                    │        └───────▶ refused: lost
//	       └── deadline ────────┴──▶ lost
//
// Leases that are due together, or will be in a moment, are renewed by one request.
// Each request has a goroutine of its own, so that one that is stuck delays no
// other; and while a lease is in one its time is its deadline, so that it is lost in
// time whatever becomes of the request.
type renewer struct {
	client *Client
	wake   chan struct{} // the top of the heap has changed

	mu      sync.Mutex // guards what follows, and the plan of each lease
	leases  leaseHeap
	running bool
	closed  bool
}

// plan is what is going to be done about a lease.
type plan struct {
	at       time.Time // when something must be done
	batch    *batch    // that it is in, nil if it is in none
	failures int       // since the last confirmed renewal
	place    int       // in the heap, -1 if it is not there
}

func newRenewer(c *Client) *renewer {
	return &renewer{client: c, wake: make(chan struct{}, 1)}
}

// renewAt is when to renew a lease that was confirmed by a request sent at sent: at
// TTL/3, or up to a fifth of that earlier, by chance, so that leases which were
// acquired together do not stay together.
func renewAt(sent time.Time, ttl time.Duration) time.Time {
	third := ttl / 3
	return sent.Add(third - rand.N(third/5+1))
}

// retryAt is when to try again after a failure.
func retryAt(now time.Time, failures int, ttl time.Duration) time.Time {
	return now.Add(min(pause(failures-1), ttl/10))
}

// ahead is how much earlier than its time a lease may be renewed, if others are.
func ahead(ttl time.Duration) time.Duration { return ttl / 15 }

// add begins to look after a lease. It refuses to once the client is closed.
func (r *renewer) add(l *Lease) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.mu.Lock()
	l.plan.at = renewAt(l.confirmed, l.ttl)
	l.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	heap.Push(&r.leases, l)
	if !r.running {
		r.running = true
		go r.run()
	}
	if l.plan.place == 0 {
		r.wakeUp()
	}
	return nil
}

// drop ends looking after a lease. A request that has no other left is given up.
func (r *renewer) drop(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.plan.place >= 0 {
		heap.Remove(&r.leases, l.plan.place)
	}
	if b := l.plan.batch; b != nil {
		l.plan.batch = nil
		if b.live--; b.live == 0 {
			b.cancel()
		}
	}
	if len(r.leases) == 0 {
		r.wakeUp()
	}
}

// close lists the leases that are looked after. No more are taken.
func (r *renewer) close() []*Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return append([]*Lease(nil), r.leases...)
}

func (r *renewer) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *renewer) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-r.wake:
		}
		lost, batches, next, more := r.turn(time.Now())
		for _, l := range lost {
			l.expire()
		}
		for _, b := range batches {
			go b.run()
		}
		if !more {
			return
		}
		timer.Reset(time.Until(next))
	}
}

// turn takes what is to be done now from the heap. It gives the time of the next
// turn, or no more if there is no lease left.
func (r *renewer) turn(now time.Time) (lost []*Lease, batches []*batch, next time.Time, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var due []*Lease
	for len(r.leases) > 0 {
		l := r.leases[0]
		early := len(due) > 0 && l.plan.batch == nil && !now.Add(ahead(l.ttl)).Before(l.plan.at)
		if now.Before(l.plan.at) && !early {
			break
		}
		end := l.Deadline()
		switch {
		case !now.Before(end):
			lost = append(lost, l)
			heap.Pop(&r.leases) // expire does the rest
			continue
		case l.plan.batch == nil:
			due = append(due, l)
			l.plan.batch = forming
		}
		l.plan.at = end
		heap.Fix(&r.leases, 0)
	}
	if len(r.leases) == 0 {
		r.running = false
		return lost, nil, next, false
	}
	return lost, r.batchesLocked(due), r.leases[0].plan.at, true
}

// settled takes a lease back from a batch in which it was.
func (r *renewer) settled(l *Lease, b *batch, sent time.Time, err error) {
	_ = l.heard(sent, err) // if that ends the lease it is dropped
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.plan.batch != b || l.plan.place < 0 {
		return
	}
	l.plan.batch = nil
	b.live--
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.plan.failures = 0
		l.plan.at = renewAt(sent, l.ttl)
	} else {
		l.plan.failures++
		l.plan.at = retryAt(time.Now(), l.plan.failures, l.ttl)
	}
	if end := deadline(l.confirmed, l.ttl); end.Before(l.plan.at) {
		l.plan.at = end
	}
	heap.Fix(&r.leases, l.plan.place)
	if l.plan.place == 0 {
		r.wakeUp()
	}
}

// leaseHeap is ordered by the time at which something must be done.
type leaseHeap []*Lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].plan.at.Before(h[j].plan.at) }

func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].plan.place, h[j].plan.place = i, j
}

func (h *leaseHeap) Push(x any) {
	l := x.(*Lease)
	l.plan.place = len(*h)
	*h = append(*h, l)
}

func (h *leaseHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.plan.place = -1
	return l
}

// forming stands for the batch of a lease while batches are being made.
var forming = new(batch)
