package cluster

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"leasehold/lease"
)

// The keeper of a leadership knows when something falls due, and proposes it:
//
//	a grant that is not renewed      Expire    its TTL after the last renewal
//	a lock delay                     Reopen    the delay after the grant's end
//	a waiter whose client is gone, or whose wait is over, and
//	a grant whose client was gone    Abandon   see waits.go
//
// All of them count from when the entry that started them was applied here. The
// state machine decides whether what was proposed still applies.
//
//	         arm (an entry was applied)
//	              ┌──────────────┐
//	              ▼              │ renewed
//	unknown ──▶ waiting ──due──▶ proposed ──applied──▶ unknown
//	              │  ▲           │  ▲
//	       due and│  │outcome    └──┘ proposal failed: again after
//	     a renewal▼  │known            proposalRetry
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
//   - acquire after the deadline: proposeIfDue proposes the Expire (or Reopen)
//     before it, on the same path, so the acquire finds the lease free.
//   - leadership lost: the keeper is dropped with all it knew; the next leader
//     gives every lease its full TTL, and every lock delay its full time.
const (
	// proposalsInFlight bounds the keeper's entries on their way at once. It is
	// large enough to fill Raft's batches and small enough that an acquire
	// queued behind them waits for a batch or two only.
	proposalsInFlight = 512
	proposalRetry     = 50 * time.Millisecond
	keeperMaxSleep    = 50 * time.Millisecond
)

// keeper watches deadlines for one leadership.
type keeper struct {
	clock *leaseClock
	// propose hands a command to Raft and calls done when its outcome is known;
	// applied is false if it did not get into the log.
	propose func(c lease.Command, done func(applied bool))
	kick    chan struct{} // buffered 1: look again now

	mu       sync.Mutex // guards what follows
	term     uint64
	byID     map[deadlineID]*deadline
	queue    deadlineHeap
	inFlight int
	waits    map[requestKey]*wait
}

func newKeeper(clock *leaseClock, propose func(lease.Command, func(bool))) *keeper {
	return &keeper{
		clock: clock, propose: propose,
		kick:  make(chan struct{}, 1),
		byID:  make(map[deadlineID]*deadline),
		waits: make(map[requestKey]*wait),
	}
}

// begin arms everything in the state at the start of a term, with its full time.
// Entries applied meanwhile reach observe as well, in either order.
func (k *keeper) begin(term uint64, state *lease.Snapshot) {
	k.mu.Lock()
	k.term = term
	k.mu.Unlock()
	now := k.clock.Now()
	const chunk = 1024 // let observe, that is Raft's thread, in between
	n := 0
	breathe := func() {
		if n++; n%chunk == 0 {
			k.mu.Unlock()
			k.mu.Lock()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range state.All() {
		breathe()
		k.armLocked(l, now, true)
	}
	for w := range state.AllWaiters() {
		breathe()
		k.expectLocked(w, now)
	}
}

// observe follows the state machine: it is called for every entry.
func (k *keeper) observe(r lease.Result) {
	now := k.clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.observeLocked(r, now)
	for _, one := range r.Each {
		k.observeLocked(one, now)
	}
}

func (k *keeper) observeLocked(r lease.Result, now time.Duration) {
	if r.Name == "" {
		return
	}
	if r.Lease != nil {
		k.armLocked(r.Lease, now, false)
	} else if d := k.byID[deadlineID{name: r.Name}]; d != nil {
		k.dropLocked(d)
	}
	k.observeWaitsLocked(r, now)
}

// armLocked sets the deadline of a lease from now, unless what is known is
// newer. With restart the same renewal starts its TTL again.
func (k *keeper) armLocked(l *lease.Lease, now time.Duration, restart bool) {
	var c lease.Command
	var version uint64
	var last time.Duration
	if g := l.Grant; g != nil {
		c, version, last = lease.Expire{Name: l.Name, Token: g.Token, Renewal: g.Renewal}, g.Renewal, g.TTL
	} else {
		cool := l.Cooldown
		c, version, last = lease.Reopen{Name: l.Name, Token: cool.Token}, cool.Since, cool.Delay
	}
	id := deadlineID{name: l.Name}
	d := k.byID[id]
	if d == nil {
		d = &deadline{id: id, place: -1}
		k.byID[id] = d
	} else if d.version > version || d.version == version && !restart {
		return
	}
	d.version = version
	k.setLocked(d, c, now+last)
}

// setLocked gives a deadline another time and command. An attempt that is under
// way was at the old ones.
func (k *keeper) setLocked(d *deadline, c lease.Command, at time.Duration) {
	d.command, d.at = c, at
	d.attempt, d.heldBack = nil, false
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
	delete(k.byID, d.id)
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

// renewing notes that renewals of those grants have been received. The caller
// calls done when their outcome is known, however it ended.
func (k *keeper) renewing(renewals ...lease.Renewal) (done func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	waiting := make([]*deadline, 0, len(renewals))
	for _, r := range renewals {
		if d := k.byID[deadlineID{name: r.Name}]; d != nil && d.expires(r.Token) {
			d.renewals++
			waiting = append(waiting, d)
		}
	}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, d := range waiting {
			d.renewals--
			if d.heldBack && d.renewals == 0 && k.byID[d.id] == d {
				d.heldBack = false
				k.enqueueLocked(d)
				k.wake()
			}
		}
	}
}

// expires says whether the deadline is that of the grant with that token.
func (d *deadline) expires(token uint64) bool {
	e, ok := d.command.(lease.Expire)
	return ok && e.Token == token
}

// remaining says how long a grant or a lock delay has left, within 0 and its
// full time. One that the keeper has not heard of yet has just begun.
func (k *keeper) remaining(l *lease.Lease) time.Duration {
	now := k.clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.remainingLocked(l, now)
}

// remainingEach is remaining for the lease of each result, all at one time.
func (k *keeper) remainingEach(results []lease.Result) []time.Duration {
	each := make([]time.Duration, len(results))
	now := k.clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, r := range results {
		each[i] = k.remainingLocked(r.Lease, now)
	}
	return each
}

func (k *keeper) remainingLocked(l *lease.Lease, now time.Duration) time.Duration {
	var version uint64
	var full time.Duration
	switch l.State() {
	case lease.Held:
		version, full = l.Grant.Renewal, l.Grant.TTL
	case lease.Cooling:
		version, full = l.Cooldown.Since, l.Cooldown.Delay
	default:
		return 0
	}
	d := k.byID[deadlineID{name: l.Name}]
	if d == nil || d.version != version {
		return full
	}
	return min(max(d.at-now, 0), full)
}

// proposeIfDue proposes the end of a grant or lock delay whose deadline has
// passed, so that what the caller proposes next comes after it. If somebody else
// is about to propose it, it waits until that is done.
func (k *keeper) proposeIfDue(name string) {
	now := k.clock.Now()
	k.mu.Lock()
	d := k.byID[deadlineID{name: name}]
	if d != nil && d.attempt != nil {
		x := d.attempt
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

// run proposes what falls due, until ctx ends.
func (k *keeper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		sleep := k.proposeDue(ctx)
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-k.kick:
		case <-ctx.Done():
			return
		}
	}
}

// proposeDue proposes everything that is due, as far as the bound on those in
// flight allows, and says how long to sleep. It looks at ctx each time: when
// Raft takes no more proposals and many are due, those that failed first are due
// again before the last has been tried, and it would go round for ever.
func (k *keeper) proposeDue(ctx context.Context) time.Duration {
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
	for k.queue.Len() > 0 && k.inFlight < proposalsInFlight {
		d := k.queue[0]
		if d.key > now {
			return nil, min(k.clock.lasts(d.key-now), keeperMaxSleep)
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

func (k *keeper) startLocked(d *deadline) *attempt {
	k.inFlight++
	c := d.command
	if e, ok := c.(lease.Expire); ok {
		e.Term = k.term
		c = e
	}
	d.attempt = &attempt{command: c, of: d, sent: make(chan struct{}), known: make(chan struct{})}
	return d.attempt
}

// send proposes outside the lock, since Raft may make the proposer wait.
func (k *keeper) send(x *attempt) {
	defer close(x.sent)
	k.propose(x.command, func(applied bool) {
		defer close(x.known)
		now := k.clock.Now()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.inFlight--
		// If the entry was applied, observe has seen what it did.
		d := x.of
		current := k.byID[d.id] == d && d.attempt == x
		switch {
		case current && applied: // moot, and nothing newer is known: forget it
			k.dropLocked(d)
			k.forgetLocked(d.wait)
		case current:
			d.attempt = nil
			d.retryFrom = now + proposalRetry
			k.enqueueLocked(d)
		}
		k.wake()
	})
}
