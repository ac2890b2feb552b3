package lease

func (c Lead) apply(t *Table, e Entry) Result {
	if t.clusterID == "" {
		t.clusterID = c.ClusterID
	}
	t.leader, t.leadEntry = c, e
	return Result{Events: []Event{newEvent(e, KindLeader, c.Node)}}
}

func (c Acquire) apply(t *Table, e Entry) Result {
	l := t.Get(c.Name)
	r := Result{Name: c.Name, Lease: l}

	// Has this very request been made before? The answer was lost, or the client
	// is asking to be sure.
	if l.HeldBy(c.Holder, c.RequestID) {
		r.Replayed = true
		if c.Wait == 0 && !l.Grant.Taken {
			// Whoever asks is going to be told. With a wait it is the leader who knows
			// whether that comes about.
			g := *l.Grant
			g.Taken = true
			r.Lease = &Lease{Name: c.Name, Grant: &g, Waiters: l.Waiters}
			t.put(r.Lease)
		}
		return r
	}
	if w := t.waiters.find(c.request()); w != nil {
		r.Waiter, r.Replayed = w, true
		return r
	}
	if ended := t.ended.byRequest(c.Name, c.Holder, c.RequestID); ended != nil {
		r.Ended = ended
		return r.refuse(e, ErrRequestEnded, c.Holder, ended.Token, ended.Index)
	}

	w := &Waiter{
		Name: c.Name, Holder: c.Holder, RequestID: c.RequestID, Place: e.Index,
		Value: c.Value, TTL: c.TTL, LockDelay: c.LockDelay, QueuedAt: e.At,
	}
	switch {
	case l == nil:
		return t.grant(e, r, w, c.Wait == 0)
	case c.Reclaim && l.Grant != nil && l.Grant.Holder == c.Holder:
		r = t.end(e, r, Reclaimed, "") // the queue waits on: this is not its turn
		return t.grant(e, r, w, c.Wait == 0)
	case c.Wait > 0:
		return t.enqueue(e, r, w)
	case l.Cooldown != nil:
		return r.refuse(e, ErrCooling, c.Holder, 0, l.Cooldown.Since)
	default:
		return r.refuse(e, ErrHeld, c.Holder, 0, l.Grant.Token)
	}
}

func (c Renew) apply(t *Table, e Entry) Result { return t.renew(e, c, nil) }

// renew yields one event, whatever comes of it, and appends it to events.
func (t *Table) renew(e Entry, c Renew, events []Event) Result {
	l := t.Get(c.Name)
	r := Result{Name: c.Name, Lease: l, Events: events}
	if err := l.mayUse(c.Holder, c.Token); err != nil {
		return t.refuseToken(e, r, err, c.Holder, c.Token)
	}
	g := *l.Grant
	g.Renewal, g.RenewedAt, g.Renewals, g.Taken = e.Index, e.At, g.Renewals+1, true
	if c.TTL != 0 {
		g.TTL = c.TTL
	}
	if c.Value != nil {
		g.Value = *c.Value
	}
	r.Lease = &Lease{Name: c.Name, Grant: &g, Waiters: l.Waiters}
	t.put(r.Lease)
	r.Events = append(r.Events, newEvent(e, KindRenewed, c.Name).of(&g))
	return r
}

func (c RenewMany) apply(t *Table, e Entry) Result {
	// The events of all are the events of each, side by side in one slice.
	r := Result{Each: make([]Result, len(c.Renewals)), Events: make([]Event, len(c.Renewals))}
	for i, one := range c.Renewals {
		r.Each[i] = t.renew(e, Renew{Name: one.Name, Holder: c.Holder, Token: one.Token}, r.Events[i:i:i+1])
		r.Each[i].Entry = e
	}
	return r
}

func (c Release) apply(t *Table, e Entry) Result {
	l := t.Get(c.Name)
	r := Result{Name: c.Name, Lease: l}
	if err := l.mayUse(c.Holder, c.Token); err != nil {
		was := t.ended.byToken(c.Token)
		if was != nil && was.Name == c.Name && was.Holder == c.Holder && was.How == Released {
			r.Ended, r.Already = was, true // the first answer was lost
			return r
		}
		return t.refuseToken(e, r, err, c.Holder, c.Token)
	}
	return t.handOn(e, t.end(e, r, Released, ""))
}

func (c Expire) apply(t *Table, e Entry) Result {
	l := t.Get(c.Name)
	r := Result{Name: c.Name, Lease: l}

	// The guard that makes a late expiry harmless: it must speak of this very
	// grant, of its latest renewal, and of a deadline that this term's leader set.
	switch {
	case l.Live(c.Token) == nil:
		return t.refuseToken(e, r, ErrLost, "", c.Token)
	case l.Grant.Renewal != c.Renewal:
		return r.refuse(e, ErrRenewed, "", c.Token, l.Grant.Renewal)
	case c.Term != e.Term:
		return r.refuse(e, ErrOldTerm, "", c.Token, t.leadEntry.Index)
	}
	return t.closeOrHandOn(e, t.end(e, r, Expired, ""), l.Grant)
}

func (c Revoke) apply(t *Table, e Entry) Result {
	l := t.Get(c.Name)
	r := Result{Name: c.Name, Lease: l}
	if l.Live(c.Token) == nil {
		was := t.ended.byToken(c.Token)
		if was != nil && was.Name == c.Name && was.How == Revoked {
			r.Ended, r.Already = was, true // the first answer was lost
			return r
		}
		return t.refuseToken(e, r, ErrLost, "", c.Token)
	}
	return t.closeOrHandOn(e, t.end(e, r, Revoked, c.Reason), l.Grant)
}

// A Reopen needs no guard against another term, as an Expire does: a lock delay
// is promised to be served in full, not to begin anew with a new leader.
func (c Reopen) apply(t *Table, e Entry) Result {
	l := t.Get(c.Name)
	r := Result{Name: c.Name, Lease: l}
	if l.State() != Cooling || l.Cooldown.Token != c.Token {
		return r.refuse(e, ErrNotCooling, "", c.Token, 0)
	}
	ev := newEvent(e, KindReopened, c.Name)
	ev.Token, ev.Other = c.Token, l.Cooldown.Since
	r.Events = append(r.Events, ev)
	return t.handOn(e, r)
}

func (c Abandon) apply(t *Table, e Entry) Result {
	l := t.Get(c.Name)
	r := Result{Name: c.Name, Lease: l}
	w := t.waiters.find(request{c.Name, c.Holder, c.RequestID})
	if l.HeldBy(c.Holder, c.RequestID) && l.Grant.Place == c.Place && !l.Grant.Taken && c.Reason != WaitOver {
		return t.handOn(e, t.end(e, r, Released, string(c.Reason)))
	}
	if w == nil || w.Place != c.Place {
		return t.refuseAbandon(e, r, c, w)
	}
	t.dequeue(w)
	left := *l
	left.Waiters--
	r.Lease, r.Waiter = &left, w
	t.put(r.Lease)
	ev := newEvent(e, KindAbandoned, c.Name).by(w)
	ev.Reason = string(c.Reason)
	r.Events = append(r.Events, ev)
	return r
}

// refuseAbandon says where the request is, if not at that place: at another one,
// for it has queued again, or granted, or over.
func (t *Table) refuseAbandon(e Entry, r Result, c Abandon, elsewhere *Waiter) Result {
	granted := uint64(0)
	if r.Lease.HeldBy(c.Holder, c.RequestID) {
		granted = r.Lease.Grant.Token
	} else if ended := t.ended.byRequest(c.Name, c.Holder, c.RequestID); ended != nil {
		r.Ended, granted = ended, ended.Token
	}
	r = r.refuse(e, ErrNotQueued, c.Holder, 0, granted)
	if elsewhere != nil {
		r.Events[len(r.Events)-1].Place = elsewhere.Place
	}
	return r
}

// enqueue puts a request at the end of the queue.
func (t *Table) enqueue(e Entry, r Result, w *Waiter) Result {
	t.waiters.add(w)
	t.hash.add(w)
	longer := *r.Lease
	longer.Waiters++
	r.Lease, r.Waiter = &longer, w
	t.put(r.Lease)
	ev := newEvent(e, KindQueued, w.Name).by(w)
	if longer.Grant != nil {
		ev.Other = longer.Grant.Token
	}
	r.Events = append(r.Events, ev)
	return r
}

func (t *Table) dequeue(w *Waiter) {
	t.waiters.remove(w)
	t.hash.drop(w)
}

// end takes the grant off the lease in r and remembers how it ended. Until the
// caller has said what becomes of the lease, it is free in r and as before in
// the table.
func (t *Table) end(e Entry, r Result, how How, reason string) Result {
	g := r.Lease.Grant
	r.Ended = &Ended{
		Name: r.Name, Token: g.Token, Holder: g.Holder, RequestID: g.RequestID,
		How: how, Reason: reason, Index: e.Index, At: e.At,
	}
	if oldest := t.ended.add(r.Ended); oldest != nil {
		t.hash.drop(oldest)
	}
	t.hash.add(r.Ended)

	ev := newEvent(e, kindOfEnd[how], r.Name).of(g)
	ev.Reason = reason
	if how == Expired {
		ev.Other = g.Renewal
	}
	r.Events = append(r.Events, ev)
	r.Lease = nil
	return r
}

// closeOrHandOn closes a lease whose grant g was ended by somebody else than its
// holder, if the grant asked for that, and hands it on otherwise.
func (t *Table) closeOrHandOn(e Entry, r Result, g *Grant) Result {
	if g.LockDelay == 0 {
		return t.handOn(e, r)
	}
	r.Lease = &Lease{
		Name:     r.Name,
		Cooldown: &Cooldown{Token: g.Token, Since: e.Index, Delay: g.LockDelay, At: e.At},
		Waiters:  t.Get(r.Name).Waiters,
	}
	t.put(r.Lease)
	ev := newEvent(e, KindCooling, r.Name)
	ev.Token, ev.Delay = g.Token, g.LockDelay
	r.Events = append(r.Events, ev)
	return r
}

// handOn gives a lease that nobody holds any more to the first of its waiters,
// in this same entry, or lets it go. No herd, no polling: one entry ends the one
// grant and makes the next.
func (t *Table) handOn(e Entry, r Result) Result {
	w := t.waiters.first(r.Name)
	if w == nil {
		r.Lease = nil
		t.put(&Lease{Name: r.Name})
		return r
	}
	return t.grant(e, r, w, false)
}

// grant makes the one grant of this entry, to a waiter in the queue or to a
// request that need not wait. That there is at most one grant is what lets the
// entry's index be its token.
func (t *Table) grant(e Entry, r Result, w *Waiter, taken bool) Result {
	g := &Grant{
		Token: e.Index, Term: e.Term, Renewal: e.Index,
		Holder: w.Holder, RequestID: w.RequestID, Value: w.Value, TTL: w.TTL, LockDelay: w.LockDelay,
		Place: w.Place, Taken: taken,
		GrantedAt: e.At, RenewedAt: e.At,
	}
	ev := newEvent(e, KindGranted, r.Name).of(g)
	if r.Ended != nil {
		ev.Other = r.Ended.Token
	}
	l := &Lease{Name: r.Name, Grant: g}
	if before := t.Get(r.Name); before != nil {
		l.Waiters = before.Waiters
	}
	if w.Place != e.Index { // it comes from the queue
		ev.Place = w.Place
		t.dequeue(w)
		l.Waiters--
	}
	r.Lease = l
	t.put(l)
	r.Events = append(r.Events, ev)
	return r
}

// mayUse says whether holder may act with token on the lease.
func (l *Lease) mayUse(holder string, token uint64) error {
	switch {
	case l.Live(token) == nil:
		return ErrLost
	case l.Grant.Holder != holder:
		return ErrNotHolder
	}
	return nil
}

// refuseToken refuses a command that came with an unusable token, with the end
// of that token's grant if it is still known.
func (t *Table) refuseToken(e Entry, r Result, err error, holder string, token uint64) Result {
	other := uint64(0)
	if ended := t.ended.byToken(token); ended != nil && ended.Name == r.Name {
		r.Ended, other = ended, ended.Index
	}
	return r.refuse(e, err, holder, token, other)
}

func (r Result) refuse(e Entry, err error, holder string, token, other uint64) Result {
	ev := newEvent(e, KindRefused, r.Name)
	ev.Holder, ev.Token, ev.Cause, ev.Other = holder, token, err, other
	r.Err = err
	r.Events = append(r.Events, ev)
	return r
}
