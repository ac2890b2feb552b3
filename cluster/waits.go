package cluster

import (
	"context"
	"slices"
	"time"

	"leasehold/lease"
)

// A request that waits is two things: a waiter in the replicated queue, and one
// or more connections of its client to the leader. This file keeps the two
// together for as long as one leadership lasts.
//
//	         ┌────────── Acquire ──────────┐
//	attach ──┤                             ├──▶ granted ──▶ answered
//	         └─▶ queued ── its turn ───────┘       │
//	               │ ▲                             │ its client was gone before
//	   nobody waits│ │ attach again                ▼ it could be answered
//	      any more ▼ │                          Abandon
//	            Abandon
//
// Nobody waits any more: its wait is over; its last connection was closed by the
// client; or the queue is older than this leadership and no connection has come
// for it within waitGrace.
//
// Races, and who wins:
//
//   - its turn comes while the Abandon is on its way: the table refuses the
//     Abandon, observe has seen the grant, and the request is answered with it, or
//     the grant is released if there is nobody to answer.
//   - the client comes back while the Abandon is on its way: attach waits for its
//     outcome, and the request starts afresh. Were it to attach at once it could
//     lose the place that it believes it has kept.
//   - the client comes back while a grant waits for somebody to take it: it is
//     answered with that grant. Only when the last connection has left unanswered
//     is it given back.
//   - the client renews such a grant, or asks for it without waiting: this file does
//     not see that, the table does. The grant is taken from that entry on, and an
//     Abandon behind it in the log does nothing.
//   - two connections of one request, say an old one that is half dead: both are
//     answered, and the request waits for as long as the more patient of them.
//   - leadership lost: the place stays in the queue, and so does a grant that was
//     not answered; the client asks the next leader with the same request id. A
//     client that is gone by then keeps a grant until its TTL is over: the next
//     leader cannot know whether the answer was written.

// waitGrace is how long a place is kept for a client that may come back.
const waitGrace = 5 * time.Second

type requestKey struct{ name, holder, id string }

func keyOf(c lease.Acquire) requestKey { return requestKey{c.Name, c.Holder, c.RequestID} }

// wait is one request that waits, or that is on its way to do so. The lock of
// the keeper guards it.
type wait struct {
	request requestKey
	conns   []time.Duration // attached, each until that lease time
	flights int             // Acquire entries on their way
	until   time.Duration   // lease time: when nobody waits any more
	reason  lease.Reason    // why not
	place   uint64          // of the waiter, or of the one that was granted; 0 if there is neither
	token   uint64          // of its grant, 0 if it has none
	taken   bool            // a connection was answered with the grant
	due     *deadline       // what to propose at until, nil if there is nothing

	// settled is closed when the request was granted or abandoned. What follows is
	// then set, and free to read.
	settled chan struct{}
	result  lease.Result // of the entry that did it
	verdict error        // nil if it was granted, ErrWaitTimeout, or errAbandoned
}

func (k *keeper) newWaitLocked(r requestKey) *wait {
	w := &wait{request: r, settled: make(chan struct{})}
	k.waits[r] = w
	return w
}

// attach notes that a connection is going to propose c and to wait. The caller
// calls known when the outcome of the entry is known, and leave or take when the
// connection is done.
func (k *keeper) attach(ctx context.Context, c lease.Acquire) (attached, error) {
	for {
		now := k.clock.Now()
		k.mu.Lock()
		w := k.waits[keyOf(c)]
		if w != nil && w.due != nil && w.due.attempt != nil {
			x := w.due.attempt
			k.mu.Unlock()
			select {
			case <-x.known:
				continue
			case <-ctx.Done():
				return attached{}, context.Cause(ctx)
			}
		}
		if w == nil {
			w = k.newWaitLocked(keyOf(c))
		}
		until := now + c.Wait
		w.conns = append(w.conns, until)
		w.flights++
		w.waitForLocked()
		k.scheduleLocked(w)
		k.mu.Unlock()
		return attached{w, until}, nil
	}
}

// attached is one connection of a request.
type attached struct {
	*wait
	patience time.Duration // until that lease time
}

// detachLocked takes one connection off. Those that stay decide how long the
// request waits.
func (w attached) detachLocked() {
	i := slices.Index(w.conns, w.patience)
	w.conns = slices.Delete(w.conns, i, i+1)
	if len(w.conns) > 0 {
		w.waitForLocked()
	}
}

// waitForLocked makes the request wait as long as the most patient connection.
func (w *wait) waitForLocked() { w.until, w.reason = slices.Max(w.conns), lease.WaitOver }

// known notes that an Acquire entry is no longer on its way.
func (k *keeper) known(w attached) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w.flights--
	k.scheduleLocked(w.wait)
}

// leave notes that a connection is done without having been answered with a
// grant. A client that is gone has given up; any other may come back.
func (k *keeper) leave(w attached, gone bool) {
	now := k.clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	w.detachLocked()
	switch {
	case len(w.conns) > 0:
	case gone:
		w.until, w.reason = now, lease.ClientGone
	default:
		w.until, w.reason = now+waitGrace, lease.NotBack
	}
	k.scheduleLocked(w.wait)
}

// take notes that a connection has been answered with the grant.
func (k *keeper) take(w attached) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w.detachLocked()
	w.taken = true
	k.scheduleLocked(w.wait)
}

// alone says whether no other connection waits for the same request.
func (k *keeper) alone(w attached) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(w.conns) == 1
}

// expectLocked gives a waiter from before this leadership time to come back.
func (k *keeper) expectLocked(waiter *lease.Waiter, now time.Duration) {
	r := requestKey{waiter.Name, waiter.Holder, waiter.RequestID}
	w := k.waits[r]
	if w == nil {
		w = k.newWaitLocked(r)
		w.until, w.reason = now+waitGrace, lease.NotBack
	}
	if w.place == 0 && w.token == 0 { // else observe knows better
		w.place = waiter.Place
		k.scheduleLocked(w)
	}
}

// observeWaitsLocked follows what an entry did to those who wait.
func (k *keeper) observeWaitsLocked(r lease.Result, now time.Duration) {
	for _, ev := range r.Events {
		if ev.Kind != lease.KindQueued && ev.Kind != lease.KindGranted && ev.Kind != lease.KindAbandoned {
			continue // most entries are renewals, and this is Raft's thread
		}
		key := requestKey{ev.Name, ev.Holder, ev.RequestID}
		w := k.waits[key]
		switch {
		case ev.Kind == lease.KindQueued:
			if w == nil { // proposed by an earlier leader
				w = k.newWaitLocked(key)
				w.until, w.reason = now+waitGrace, lease.NotBack
			}
			k.undueLocked(w)
			w.place, w.token = ev.Place, 0
		case w == nil && ev.Kind == lease.KindGranted && ev.Place != 0: // before begin came to it
			w = k.newWaitLocked(key)
			w.until, w.reason = now+waitGrace, lease.NotBack
			w.place, w.token = r.Lease.Grant.Place, ev.Token
			w.settleLocked(r, nil)
		case w == nil:
			continue
		case ev.Kind == lease.KindGranted:
			w.place, w.token = r.Lease.Grant.Place, ev.Token
			w.settleLocked(r, nil)
		case ev.Kind == lease.KindAbandoned && w.place == ev.Place:
			w.place = 0
			k.undueLocked(w)
			delete(k.waits, key)
			verdict := errAbandoned
			if ev.Reason == string(lease.WaitOver) {
				verdict = ErrWaitTimeout
			}
			w.settleLocked(r, verdict)
			continue
		default:
			continue
		}
		k.scheduleLocked(w)
	}
}

func (w *wait) settleLocked(r lease.Result, verdict error) {
	select {
	case <-w.settled: // the grant of a request that was queued, granted and asked for again
	default:
		w.result, w.verdict = r, verdict
		close(w.settled)
	}
}

// scheduleLocked sees to it that what is to be done about a request is done at
// w.until, or forgets the request if there is nothing to be done any more.
func (k *keeper) scheduleLocked(w *wait) {
	name, holder, id := w.request.name, w.request.holder, w.request.id
	switch {
	case w.taken:
		k.forgetLocked(w)
	case w.token != 0 && len(w.conns) > 0: // somebody is about to be answered
		k.undueLocked(w)
	case w.place != 0:
		k.dueLocked(w, max(w.place, w.token), lease.Abandon{Name: name, Holder: holder, RequestID: id, Place: w.place, Reason: w.reason})
	case len(w.conns) == 0 && w.flights == 0:
		k.forgetLocked(w)
	}
}

func (k *keeper) dueLocked(w *wait, index uint64, c lease.Command) {
	id := deadlineID{w.request.name, index}
	if w.due != nil && w.due.id != id {
		k.undueLocked(w)
	}
	if w.due == nil {
		w.due = &deadline{id: id, wait: w, place: -1}
		k.byID[id] = w.due
	}
	if w.due.attempt == nil { // else it is being done
		k.setLocked(w.due, c, w.until)
	}
}

func (k *keeper) undueLocked(w *wait) {
	if w.due != nil {
		k.dropLocked(w.due)
		w.due = nil
	}
}

func (k *keeper) forgetLocked(w *wait) {
	if w == nil {
		return
	}
	k.undueLocked(w)
	if k.waits[w.request] == w {
		delete(k.waits, w.request)
	}
}
