package lease

func (c Lead) apply(t *Table, e Entry) Result {
	if t.clusterID == "" {
		t.clusterID = c.ClusterID
	}
	t.leader, t.leadEntry = c, e
	return Result{Events: []Event{event(e, KindLeader, c.Node, nil)}}
}

func (c Acquire) apply(t *Table, e Entry) Result {
	l := t.Get(c.Name)
	r := Result{Name: c.Name, Lease: l}

	if l != nil && l.Grant.Holder == c.Holder && l.Grant.RequestID == c.RequestID {
		r.Replayed = true // the answer was lost, or the client is asking to be sure
		return r
	}
	if ended := t.ended.byRequest(c.Name, c.Holder, c.RequestID); ended != nil {
		r.Ended = ended
		return r.refuse(e, ErrRequestEnded, c.Holder, ended.Token, ended.Index)
	}
	switch {
	case l == nil:
		return t.grant(e, c, r)
	case c.Reclaim && l.Grant.Holder == c.Holder:
		r.Ended = t.end(e, c.Name, l.Grant, Reclaimed)
		r.Events = append(r.Events, event(e, KindReclaimed, c.Name, l.Grant))
		return t.grant(e, c, r)
	default:
		return r.refuse(e, ErrHeld, c.Holder, 0, l.Grant.Token)
	}
}

// grant makes the one grant of this entry. That there is at most one is what
// lets the entry's index be its token.
func (t *Table) grant(e Entry, c Acquire, r Result) Result {
	g := &Grant{
		Token: e.Index, Term: e.Term, Renewal: e.Index,
		Holder: c.Holder, RequestID: c.RequestID, Value: c.Value, TTL: c.TTL,
		GrantedAt: e.At, RenewedAt: e.At,
	}
	r.Lease = &Lease{Name: c.Name, Grant: g}
	t.put(r.Lease)
	granted := event(e, KindGranted, c.Name, g)
	if r.Ended != nil {
		granted.Other = r.Ended.Token
	}
	r.Events = append(r.Events, granted)
	return r
}

func (c Renew) apply(t *Table, e Entry) Result {
	l := t.Get(c.Name)
	r := Result{Name: c.Name, Lease: l}
	if err := t.mayUse(l, c.Holder, c.Token); err != nil {
		return t.refuseToken(e, r, err, c.Holder, c.Token)
	}
	g := *l.Grant
	g.Renewal, g.RenewedAt, g.Renewals = e.Index, e.At, g.Renewals+1
	if c.TTL != 0 {
		g.TTL = c.TTL
	}
	if c.Value != nil {
		g.Value = *c.Value
	}
	r.Lease = &Lease{Name: c.Name, Grant: &g}
	t.put(r.Lease)
	r.Events = append(r.Events, event(e, KindRenewed, c.Name, &g))
	return r
}

func (c Release) apply(t *Table, e Entry) Result {
	l := t.Get(c.Name)
	r := Result{Name: c.Name, Lease: l}
	if err := t.mayUse(l, c.Holder, c.Token); err != nil {
		was := t.ended.byToken(c.Token)
		if was != nil && was.Name == c.Name && was.Holder == c.Holder && was.How == Released {
			r.Ended, r.Already = was, true // the first answer was lost
			return r
		}
		return t.refuseToken(e, r, err, c.Holder, c.Token)
	}
	r.Ended = t.end(e, c.Name, l.Grant, Released)
	r.Events = append(r.Events, event(e, KindReleased, c.Name, l.Grant))
	r.Lease = nil
	t.put(&Lease{Name: c.Name})
	return r
}

func (c Expire) apply(t *Table, e Entry) Result {
	l := t.Get(c.Name)
	r := Result{Name: c.Name, Lease: l}

	// The guard that makes a late expiry harmless: it must speak of this very
	// grant, of its latest renewal, and of a deadline that this term's leader set.
	switch {
	case l == nil || l.Grant.Token != c.Token:
		return t.refuseToken(e, r, ErrLost, "", c.Token)
	case l.Grant.Renewal != c.Renewal:
		return r.refuse(e, ErrRenewed, "", c.Token, l.Grant.Renewal)
	case c.Term != e.Term:
		return r.refuse(e, ErrOldTerm, "", c.Token, t.leadEntry.Index)
	}
	r.Ended = t.end(e, c.Name, l.Grant, Expired)
	expired := event(e, KindExpired, c.Name, l.Grant)
	expired.Other = l.Grant.Renewal
	r.Events = append(r.Events, expired)
	r.Lease = nil
	t.put(&Lease{Name: c.Name})
	return r
}

// mayUse says whether holder may act with token on the lease.
func (t *Table) mayUse(l *Lease, holder string, token uint64) error {
	switch {
	case l == nil || l.Grant.Token != token:
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
	r.Err = err
	r.Events = append(r.Events, Event{
		Index: e.Index, Term: e.Term, At: e.At, Kind: KindRefused,
		Name: r.Name, Holder: holder, Token: token, Cause: err, Other: other,
	})
	return r
}

func event(e Entry, k Kind, name string, g *Grant) Event {
	ev := Event{Index: e.Index, Term: e.Term, At: e.At, Kind: k, Name: name}
	if g != nil {
		ev.Holder, ev.Token = g.Holder, g.Token
	}
	return ev
}
