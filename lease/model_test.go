package lease_test

import (
	"cmp"
	"slices"

	"leasehold/lease"
)

// model is a second opinion on the table: plain maps and slices, every question
// answered by looking at everything, written from the contract alone.
type model struct {
	held      map[string]lease.Grant
	cooling   map[string]lease.Cooldown
	queues    map[string][]lease.Waiter // first in the queue first
	registers map[string]lease.Register // with every write that there ever was
	ended     []lease.Ended             // all that ever ended, oldest first
	cluster   string
}

func newModel() *model {
	return &model{
		held: map[string]lease.Grant{}, cooling: map[string]lease.Cooldown{},
		queues: map[string][]lease.Waiter{}, registers: map[string]lease.Register{},
	}
}

// verdict is what the model expects an entry to come to.
type verdict struct {
	err               error
	replayed, already bool
	ended             uint64 // token of the ended grant in the result, 0 if none
	place             uint64 // of the waiter in the result, 0 if none
	events            string // their kinds, in order
}

func refusal(err error) verdict { return verdict{err: err, events: "refused"} }

// findEnded looks among the last 1,024 ended grants.
func (m *model) findEnded(match func(lease.Ended) bool) (lease.Ended, bool) {
	for i := len(m.ended) - 1; i >= 0 && i >= len(m.ended)-1024; i-- {
		if match(m.ended[i]) {
			return m.ended[i], true
		}
	}
	return lease.Ended{}, false
}

// waiting returns where in the queue of the lease the request stands, or -1.
func (m *model) waiting(name, holder, id string) int {
	return slices.IndexFunc(m.queues[name], func(w lease.Waiter) bool { return w.Holder == holder && w.RequestID == id })
}

func (m *model) end(e lease.Entry, name string, how lease.How, reason string) verdict {
	g := m.held[name]
	m.ended = append(m.ended, lease.Ended{
		Name: name, Token: g.Token, Holder: g.Holder, RequestID: g.RequestID,
		How: how, Reason: reason, Index: e.Index, At: e.At,
	})
	delete(m.held, name)
	return verdict{ended: g.Token, events: string(how)}
}

// breakOff ends a grant that its holder did not give up.
func (m *model) breakOff(e lease.Entry, name string, how lease.How, reason string) verdict {
	g := m.held[name]
	v := m.end(e, name, how, reason)
	if g.LockDelay == 0 {
		return m.next(e, name, v)
	}
	m.cooling[name] = lease.Cooldown{Token: g.Token, Since: e.Index, Delay: g.LockDelay, At: e.At}
	v.events += " cooling"
	return v
}

// next lets the first waiter have the lease.
func (m *model) next(e lease.Entry, name string, v verdict) verdict {
	if queue := m.queues[name]; len(queue) > 0 {
		m.queues[name] = queue[1:]
		return m.grant(e, queue[0], v, false)
	}
	return v
}

func (m *model) grant(e lease.Entry, w lease.Waiter, v verdict, taken bool) verdict {
	m.held[w.Name] = lease.Grant{
		Token: e.Index, Term: e.Term, Renewal: e.Index, Holder: w.Holder, RequestID: w.RequestID,
		Value: w.Value, TTL: w.TTL, LockDelay: w.LockDelay, GrantedAt: e.At, RenewedAt: e.At,
		Place: w.Place, Taken: taken,
	}
	if v.events != "" {
		v.events += " "
	}
	v.events += "granted"
	return v
}

func (m *model) apply(e lease.Entry, command lease.Command) verdict {
	switch c := command.(type) {
	case lease.Lead:
		m.cluster = cmp.Or(m.cluster, c.ClusterID)
		return verdict{events: "leader"}
	case lease.Acquire:
		return m.acquire(e, c)
	case lease.Renew:
		if v := m.check(c.Name, c.Holder, c.Token); v.err != nil {
			return v
		}
		g := m.held[c.Name]
		g.Renewal, g.RenewedAt, g.Renewals, g.TTL = e.Index, e.At, g.Renewals+1, cmp.Or(c.TTL, g.TTL)
		if c.Value != nil {
			g.Value = *c.Value
		}
		g.Taken = true
		m.held[c.Name] = g
		return verdict{events: "renewed"}
	case lease.Release:
		v := m.check(c.Name, c.Holder, c.Token)
		if v.err == nil {
			return m.next(e, c.Name, m.end(e, c.Name, lease.Released, ""))
		}
		return m.orAlready(v, c.Token, func(was lease.Ended) bool {
			return was.Name == c.Name && was.Holder == c.Holder && was.How == lease.Released
		})
	case lease.Expire:
		g := m.held[c.Name]
		if v := m.check(c.Name, g.Holder, c.Token); v.err != nil {
			return v
		}
		if g.Renewal != c.Renewal {
			return refusal(lease.ErrRenewed)
		}
		if e.Term != c.Term {
			return refusal(lease.ErrOldTerm)
		}
		return m.breakOff(e, c.Name, lease.Expired, "")
	case lease.Revoke:
		v := m.check(c.Name, m.held[c.Name].Holder, c.Token)
		if v.err == nil {
			return m.breakOff(e, c.Name, lease.Revoked, c.Reason)
		}
		return m.orAlready(v, c.Token, func(was lease.Ended) bool { return was.Name == c.Name && was.How == lease.Revoked })
	case lease.Reopen:
		if cooldown, is := m.cooling[c.Name]; !is || cooldown.Token != c.Token {
			return refusal(lease.ErrNotCooling)
		}
		delete(m.cooling, c.Name)
		return m.next(e, c.Name, verdict{events: "reopened"})
	case lease.Abandon:
		if g, held := m.held[c.Name]; held && g.Holder == c.Holder && g.RequestID == c.RequestID &&
			g.Place == c.Place && !g.Taken && c.Reason != lease.WaitOver {
			return m.next(e, c.Name, m.end(e, c.Name, lease.Released, string(c.Reason)))
		}
		at := m.waiting(c.Name, c.Holder, c.RequestID)
		if at < 0 || m.queues[c.Name][at].Place != c.Place {
			v := refusal(lease.ErrNotQueued)
			if g, held := m.held[c.Name]; !held || g.Holder != c.Holder || g.RequestID != c.RequestID {
				was, _ := m.findEnded(func(was lease.Ended) bool {
					return was.Name == c.Name && was.Holder == c.Holder && was.RequestID == c.RequestID
				})
				v.ended = was.Token
			}
			return v
		}
		m.queues[c.Name] = slices.Delete(slices.Clone(m.queues[c.Name]), at, at+1)
		return verdict{events: "abandoned", place: c.Place}
	case lease.Write:
		return m.write(e, c)
	}
	panic("unknown command")
}

func (m *model) acquire(e lease.Entry, c lease.Acquire) verdict {
	g, held := m.held[c.Name]
	if held && g.Holder == c.Holder && g.RequestID == c.RequestID {
		if c.Wait == 0 {
			g.Taken = true
			m.held[c.Name] = g
		}
		return verdict{replayed: true}
	}
	if at := m.waiting(c.Name, c.Holder, c.RequestID); at >= 0 {
		return verdict{replayed: true, place: m.queues[c.Name][at].Place}
	}
	if was, is := m.findEnded(func(was lease.Ended) bool {
		return was.Name == c.Name && was.Holder == c.Holder && was.RequestID == c.RequestID
	}); is {
		v := refusal(lease.ErrRequestEnded)
		v.ended = was.Token
		return v
	}
	w := lease.Waiter{
		Name: c.Name, Holder: c.Holder, RequestID: c.RequestID, Place: e.Index,
		Value: c.Value, TTL: c.TTL, LockDelay: c.LockDelay, QueuedAt: e.At,
	}
	_, cools := m.cooling[c.Name]
	if !held && !cools && len(m.queues[c.Name]) == 0 {
		return m.grant(e, w, verdict{}, c.Wait == 0)
	}
	if held && c.Reclaim && g.Holder == c.Holder {
		return m.grant(e, w, m.end(e, c.Name, lease.Reclaimed, ""), c.Wait == 0)
	}
	if c.Wait > 0 {
		m.queues[c.Name] = append(slices.Clone(m.queues[c.Name]), w)
		return verdict{events: "queued", place: e.Index}
	}
	if cools {
		return refusal(lease.ErrCooling)
	}
	return refusal(lease.ErrHeld)
}

func (m *model) write(e lease.Entry, c lease.Write) verdict {
	reg := m.registers[c.Register]
	reg.Name = c.Register
	v, judged := verdict{events: "written"}, lease.Accepted
	if c.Token > 0 && c.Token < reg.HighestToken {
		v, judged = refusal(lease.ErrStaleToken), lease.StaleToken
	} else if c.Lease != "" && (c.Token == 0 || m.held[c.Lease].Token != c.Token) {
		was, _ := m.findEnded(func(was lease.Ended) bool { return was.Name == c.Lease && was.Token == c.Token })
		v, judged = refusal(lease.ErrNotLive), lease.NotLive
		v.ended = was.Token
	}
	reg.Writes = append(slices.Clone(reg.Writes), lease.RegisterWrite{
		Index: e.Index, At: e.At, Token: c.Token, Lease: c.Lease, Verdict: judged,
	})
	if v.err != nil {
		reg.Refused++
	} else {
		reg.Accepted++
		reg.Value = c.Value
		reg.HighestToken = max(reg.HighestToken, c.Token)
	}
	m.registers[c.Register] = reg
	return v
}

// check says whether the token is the live one of the lease and the holder's.
func (m *model) check(name, holder string, token uint64) verdict {
	g, held := m.held[name]
	if held && g.Token == token && g.Holder == holder {
		return verdict{}
	}
	if held && g.Token == token {
		return refusal(lease.ErrNotHolder)
	}
	was, _ := m.findEnded(func(was lease.Ended) bool { return was.Name == name && was.Token == token })
	v := refusal(lease.ErrLost)
	v.ended = was.Token
	return v
}

// orAlready turns a refusal into a success if the end of the token's grant is
// the one that was asked for.
func (m *model) orAlready(v verdict, token uint64, match func(lease.Ended) bool) verdict {
	was, is := m.findEnded(func(was lease.Ended) bool { return was.Token == token })
	if is && match(was) {
		return verdict{already: true, ended: was.Token}
	}
	return v
}
