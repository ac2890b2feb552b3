package cluster

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"leasehold/lease"
)

// The keeper of a leadership knows when each lease runs out, and proposes its
// Expire. The state machine decides whether that still applies.
//
//	         arm (an acquire or renew was applied)
//	              ┌──────────────┐
//	              ▼              │ renewed
//	unknown ──▶ waiting ──due──▶ expiring ──applied──▶ unknown
//	              │  ▲           │  ▲
//	       due and│  │outcome    └──┘ proposal failed: again after
//	     a renewal▼  │known            expiryRetry
//	    in flight: held back
//
// Races, and who wins:
//
//   - renewal in flight when the deadline passes: the expiry waits for its
//     outcome (held back). A renewal that comes after the deadline but before
//     the Expire was proposed is still in time; one that comes later finds the
//     grant over.
//   - Expire in the log behind a renewal, or from another term: the table
//     refuses it by its guard.
//   - acquire after the deadline: expireIfDue proposes the Expire before it, on
//     the same path, so the acquire finds the lease free.
//   - leadership lost: the keeper is dropped with all it knew; the next leader
//     gives every lease its full TTL.
const (
	// expiriesInFlight bounds the Expire entries on their way at once. It is
	// large enough to fill Raft's batches and small enough that an acquire
	// queued behind them waits for a batch or two only.
	expiriesInFlight = 512
	expiryRetry      = 50 * time.Millisecond
	keeperMaxSleep   = 50 * time.Millisecond
)

// deadline is what the keeper knows of one lease.
type deadline struct {
	name           string
	token, renewal uint64
	at             time.Duration // lease time
	// key orders the heap. It is never later than at: a renewal moves only at,
	// and the deadline is put back when it comes up early.
	key       time.Duration
	place     int     // in the heap, -1 if not there
	renewals  int     // in flight
	expiring  *expiry // under way, nil if none
	heldBack  bool    // due, but a renewal is in flight
	retryFrom time.Duration
}

// expiry is one attempt to have an Expire applied.
type expiry struct {
	lease.Expire
	of   *deadline
	sent chan struct{} // closed when it is in Raft's queue, or will never be
}

// keeper watches deadlines for one leadership.
type keeper struct {
	clock *leaseClock
	// propose hands an Expire to Raft and calls done when its outcome is known;
	// applied is false if it did not get into the log.
	propose func(e lease.Expire, done func(applied bool))
	kick    chan struct{} // buffered 1: look again now

	mu       sync.Mutex // guards what follows
	term     uint64
	byName   map[string]*deadline
	queue    deadlineHeap
	inFlight int
}

func newKeeper(clock *leaseClock, propose func(lease.Expire, func(bool))) *keeper {
	return &keeper{
		clock: clock, propose: propose,
		kick:   make(chan struct{}, 1),
		byName: make(map[string]*deadline),
	}
}

// begin arms every lease of the state at the start of a term with its full TTL.
// Entries applied meanwhile reach observe as well, in either order.
func (k *keeper) begin(term uint64, state *lease.Snapshot) {
	k.mu.Lock()
	k.term = term
	k.mu.Unlock()
	now := k.clock.Now()
	const chunk = 1024 // let observe, that is Raft's thread, in between
	n := 0
	k.mu.Lock()
	for l := range state.All() {
		if n++; n%chunk == 0 {
			k.mu.Unlock()
			k.mu.Lock()
		}
		k.armLocked(l.Name, l.Grant, now, true)
	}
	k.mu.Unlock()
}

// observe follows the state machine: it is called for every entry.
func (k *keeper) observe(r lease.Result) {
	if r.Name == "" {
		return
	}
	now := k.clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Lease == nil {
		if d := k.byName[r.Name]; d != nil {
			k.dropLocked(d)
		}
		return
	}
	k.armLocked(r.Name, r.Lease.Grant, now, false)
}

// armLocked sets the deadline of a grant from now, unless what is known is
// newer. With restart the same renewal starts its TTL again.
func (k *keeper) armLocked(name string, g *lease.Grant, now time.Duration, restart bool) {
	d := k.byName[name]
	if d == nil {
		d = &deadline{name: name, place: -1}
		k.byName[name] = d
	} else if d.renewal > g.Renewal || d.renewal == g.Renewal && !restart {
		return
	}
	d.token, d.renewal, d.at = g.Token, g.Renewal, now+g.TTL
	d.expiring, d.heldBack = nil, false
	k.enqueueLocked(d)
}

// enqueueLocked makes sure that d comes up no later than d.at.
func (k *keeper) enqueueLocked(d *deadline) {
	at := max(d.at, d.retryFrom)
	switch {
	case d.place < 0:
		d.key = at
		heap.Push(&k.queue, d)
	case at < d.key: // a shorter TTL
		d.key = at
		heap.Fix(&k.queue, d.place)
	}
	if d.place == 0 {
		k.wake()
	}
}

func (k *keeper) dropLocked(d *deadline) {
	delete(k.byName, d.name)
	if d.place >= 0 {
		heap.Remove(&k.queue, d.place)
	}
}

func (k *keeper) wake() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// renewing notes that a renewal of that grant has been received. The caller
// calls done when its outcome is known, however it ended.
func (k *keeper) renewing(name string, token uint64) (done func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.byName[name]
	if d == nil || d.token != token {
		return func() {}
	}
	d.renewals++
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		d.renewals--
		if d.heldBack && d.renewals == 0 && k.byName[name] == d {
			d.heldBack = false
			k.enqueueLocked(d)
			k.wake()
		}
	}
}

// remaining says how long a grant has left, within 0 and its TTL. A grant that
// the keeper has not heard of yet has just been made.
func (k *keeper) remaining(l *lease.Lease) time.Duration {
	now := k.clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.byName[l.Name]
	if d == nil || d.renewal != l.Grant.Renewal {
		return l.Grant.TTL
	}
	return min(max(d.at-now, 0), l.Grant.TTL)
}

// expireIfDue proposes the Expire of a lease whose deadline has passed, so that
// what the caller proposes next comes after it. If somebody else is about to
// propose it, it waits until that is done.
func (k *keeper) expireIfDue(name string) {
	now := k.clock.Now()
	k.mu.Lock()
	d := k.byName[name]
	if d != nil && d.expiring != nil {
		x := d.expiring
		k.mu.Unlock()
		<-x.sent
		return
	}
	if d == nil || d.at > now || d.renewals > 0 {
		k.mu.Unlock()
		return
	}
	if d.place >= 0 {
		heap.Remove(&k.queue, d.place)
	}
	x := k.startLocked(d)
	k.mu.Unlock()
	k.send(x)
}

// run proposes expiries as they fall due, until ctx ends.
func (k *keeper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		sleep := k.expireDue(ctx)
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-k.kick:
		case <-ctx.Done():
			return
		}
	}
}

// expireDue proposes every expiry that is due, as far as the bound on those in
// flight allows, and says how long to sleep. It looks at ctx each time: when
// Raft takes no more proposals and many are due, those that failed first are due
// again before the last has been tried, and it would go round for ever.
func (k *keeper) expireDue(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		now := k.clock.Now()
		k.mu.Lock()
		d, sleep := k.popDueLocked(now)
		if d == nil {
			k.mu.Unlock()
			return sleep
		}
		x := k.startLocked(d)
		k.mu.Unlock()
		k.send(x)
	}
	return keeperMaxSleep
}

// popDueLocked takes the next deadline that has passed off the queue. If there
// is none to act on it says when to look again.
func (k *keeper) popDueLocked(now time.Duration) (*deadline, time.Duration) {
	for k.queue.Len() > 0 && k.inFlight < expiriesInFlight {
		d := k.queue[0]
		if d.key > now {
			return nil, min(d.key-now, keeperMaxSleep)
		}
		if due := max(d.at, d.retryFrom); due > now { // it was renewed meanwhile
			d.key = due
			heap.Fix(&k.queue, 0)
			continue
		}
		heap.Pop(&k.queue)
		if d.renewals > 0 {
			d.heldBack = true
			continue
		}
		return d, 0
	}
	return nil, keeperMaxSleep
}

func (k *keeper) startLocked(d *deadline) *expiry {
	k.inFlight++
	d.expiring = &expiry{
		Expire: lease.Expire{Name: d.name, Token: d.token, Renewal: d.renewal, Term: k.term},
		of:     d, sent: make(chan struct{}),
	}
	return d.expiring
}

// send proposes outside the lock, since Raft may make the proposer wait.
func (k *keeper) send(x *expiry) {
	defer close(x.sent)
	k.propose(x.Expire, func(applied bool) {
		now := k.clock.Now()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.inFlight--
		// If the entry was applied, observe has seen what it did.
		d := x.of
		current := k.byName[x.Name] == d && d.expiring == x
		switch {
		case current && applied: // moot, and nothing newer is known: forget it
			k.dropLocked(d)
		case current:
			d.expiring = nil
			d.retryFrom = now + expiryRetry
			k.enqueueLocked(d)
		}
		k.wake()
	})
}

// deadlineHeap implements heap.Interface by key.
type deadlineHeap []*deadline

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].key < h[j].key }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *deadlineHeap) Push(x any) {
	d := x.(*deadline)
	d.place = len(*h)
	*h = append(*h, d)
}

func (h *deadlineHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	d.place = -1
	return d
}
