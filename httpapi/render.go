package httpapi

import (
	"fmt"
	"time"

	"leasehold/cluster"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// This file turns what cluster and lease say into the types of package wire.

func grant(out cluster.Outcome) wire.Grant {
	r, g := out.Result, out.Result.Lease.Grant
	return wire.Grant{
		Name: r.Name, Holder: g.Holder, Token: g.Token,
		TTLMillis: g.TTL.Milliseconds(), RemainingMillis: remaining(out.Remaining, g.TTL),
		Value: g.Value, RequestID: g.RequestID, Replayed: r.Replayed,
		ClusterID: out.ClusterID, Term: r.Entry.Term, Index: r.Entry.Index,
	}
}

// released takes the end of the grant from the record, for a repeated release
// stands at a later entry than the one that ended it.
func released(cmd lease.Release, out cluster.Outcome) wire.Release {
	return wire.Release{Name: cmd.Name, Token: cmd.Token, Index: endedAt(out.Result), Already: out.Result.Already}
}

func endedAt(r lease.Result) uint64 {
	if r.Ended != nil {
		return r.Ended.Index
	}
	return r.Entry.Index
}

// LeaseOf is a lease as a reader sees it, without the position of the read.
func LeaseOf(v cluster.LeaseView) wire.Lease {
	l := wire.Lease{Name: v.Name, State: string(v.Lease.State()), Last: lastOf(v.Last)}
	if v.Lease == nil {
		return l
	}
	l.Waiters = v.Lease.Waiters
	switch v.Lease.State() {
	case lease.Held:
		addGrant(&l, v.Lease.Grant, v.Remaining)
	case lease.Cooling:
		addCooldown(&l, v.Lease.Cooldown, v.Remaining)
	}
	return l
}

func addGrant(l *wire.Lease, g *lease.Grant, left time.Duration) {
	l.Holder, l.Token, l.RequestID, l.Value = g.Holder, g.Token, g.RequestID, g.Value
	l.TTLMillis, l.LockDelayMillis, l.Renewals = g.TTL.Milliseconds(), g.LockDelay.Milliseconds(), g.Renewals
	l.GrantedAt, l.RenewedAt = wallTime(g.GrantedAt), wallTime(g.RenewedAt)
	if left >= 0 {
		l.RemainingMillis = new(remaining(left, g.TTL))
	}
}

func addCooldown(l *wire.Lease, c *lease.Cooldown, left time.Duration) {
	l.LockDelayMillis, l.CoolingSince = c.Delay.Milliseconds(), c.Since
	if left >= 0 {
		l.RemainingMillis = new(min(ceilMillis(left), c.Delay.Milliseconds())) // it is waited for
	}
	if l.Last == nil { // more grants have ended since than are remembered
		l.Last = &wire.Last{
			Token: c.Token, Index: c.Since, At: wallTime(c.At),
			Why: fmt.Sprintf("it expired or was revoked at index %d; more is no longer known", c.Since),
		}
	}
}

// remaining is rounded down, since a client must not think that it has longer
// than it has.
func remaining(d, ttl time.Duration) int64 {
	return min(max(d, 0), ttl).Milliseconds()
}

// ceilMillis rounds up, for what is waited for.
func ceilMillis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if time.Duration(ms)*time.Millisecond < d {
		ms++
	}
	return ms
}

func lastOf(e *lease.Ended) *wire.Last {
	if e == nil {
		return nil
	}
	return &wire.Last{
		Token: e.Token, Holder: e.Holder, How: string(e.How), Reason: e.Reason,
		Index: e.Index, At: wallTime(e.At), Why: whyEnded(e),
	}
}

// whyEnded says in one sentence how a grant ended.
func whyEnded(e *lease.Ended) string {
	switch e.How {
	case lease.Released:
		if e.Reason != "" {
			return fmt.Sprintf("nobody was there to take it, %s; it was given back at index %d", e.Reason, e.Index)
		}
		return fmt.Sprintf("%s released it at index %d", e.Holder, e.Index)
	case lease.Expired:
		return fmt.Sprintf("%s did not renew it within its TTL; it expired at index %d", e.Holder, e.Index)
	case lease.Reclaimed:
		return fmt.Sprintf("%s asked anew and got a newer token at index %d", e.Holder, e.Index)
	}
	if e.How == lease.Revoked {
		return fmt.Sprintf("an operator revoked it at index %d: %s", e.Index, e.Reason)
	}
	return fmt.Sprintf("it ended (%s) at index %d", e.How, e.Index)
}

// staleRead labels a read that may be old, and is nil for one that is not.
func staleRead(r cluster.Read) *wire.StaleRead {
	if r.Consistency != cluster.Stale {
		return nil
	}
	return &wire.StaleRead{
		Stale: true, AppliedIndex: r.Index,
		Leader: nodeOf(r.Leader), LastContactMillis: age(r.LastContact),
	}
}

func requestOf(v cluster.RequestView) wire.Request {
	r := wire.Request{Name: v.Name, Holder: v.Holder}
	switch {
	case v.Grant != nil:
		r.State, r.Token, r.Index = "granted", v.Grant.Token, v.Grant.Token
	case v.Waiter != nil:
		r.State, r.Index = "queued", v.Waiter.Place
	case v.Ended != nil:
		r.State, r.Token, r.Index = "ended", v.Ended.Token, v.Ended.Index
		r.How, r.Reason = string(v.Ended.How), v.Ended.Reason
	}
	return r
}

func statusOf(st cluster.Status) wire.Status {
	w := wire.Status{
		ID: st.ID, Address: st.Address, Role: string(st.Role), Term: st.Term,
		Leader: nodeOf(st.Leader), ClusterID: st.ClusterID,
		LastIndex: st.LastIndex, CommitIndex: st.CommitIndex,
		AppliedIndex: st.AppliedIndex, SnapshotIndex: st.SnapshotIndex,
		StateHash:         fmt.Sprintf("%016x", st.StateHash),
		LastContactMillis: age(st.LastContact),
		Peers:             make([]wire.PeerStatus, 0, len(st.Peers)),
		Leases:            st.Leases,
		Waiters:           st.Waiters,
		Registers:         st.Registers,
		Version:           st.Version,
		UptimeMillis:      st.Uptime.Milliseconds(),
		Waiting:           st.Waiting,
	}
	for _, p := range st.Peers {
		w.Peers = append(w.Peers, wire.PeerStatus{
			Node:      wire.Node{ID: p.ID, Address: p.Address},
			Reachable: p.Reachable, LastHeardMillis: age(p.LastHeard),
		})
	}
	return w
}

func nodeOf(p cluster.Peer) *wire.Node {
	if p == (cluster.Peer{}) {
		return nil
	}
	return &wire.Node{ID: p.ID, Address: p.Address}
}

func membersOf(members []cluster.Member) []wire.Member {
	list := make([]wire.Member, 0, len(members))
	for _, m := range members {
		list = append(list, wire.Member{Node: wire.Node{ID: m.ID, Address: m.Address}, Suffrage: m.Suffrage})
	}
	return list
}

// LogOf is the body of GET /v1/log.
func LogOf(page cluster.LogPage) wire.Log {
	body := wire.Log{First: page.First, Last: page.Last, Entries: make([]wire.LogEntry, 0, len(page.Entries))}
	for _, e := range page.Entries {
		body.Entries = append(body.Entries, logEntryOf(e))
	}
	return body
}

func logEntryOf(e cluster.LogEntry) wire.LogEntry {
	w := wire.LogEntry{Index: e.Index, Term: e.Term, At: wallTime(e.At), Kind: e.Kind}
	if e.Members != nil {
		w.Members = membersOf(e.Members)
	}
	switch c := e.Command.(type) {
	case lease.Lead:
		w.Kind, w.ClusterID = "lead", c.ClusterID
		w.Node = &wire.Node{ID: c.Node, Address: c.Address}
	case lease.Acquire:
		w.Kind, w.Name, w.Holder, w.RequestID, w.Reclaim = "acquire", c.Name, c.Holder, c.RequestID, c.Reclaim
		w.TTLMillis, w.WaitMillis, w.LockDelayMillis = c.TTL.Milliseconds(), c.Wait.Milliseconds(), c.LockDelay.Milliseconds()
		if c.Value != "" {
			w.Value = &c.Value
		}
	case lease.Renew:
		w.Kind, w.Name, w.Holder, w.Token = "renew", c.Name, c.Holder, c.Token
		w.TTLMillis, w.Value = c.TTL.Milliseconds(), c.Value
	case lease.RenewMany:
		w.Kind, w.Holder = "renew-many", c.Holder
		for _, one := range c.Renewals {
			w.Renewals = append(w.Renewals, wire.Renewal{Name: one.Name, Token: one.Token})
		}
	case lease.Release:
		w.Kind, w.Name, w.Holder, w.Token = "release", c.Name, c.Holder, c.Token
	case lease.Expire:
		w.Kind, w.Name, w.Token, w.Renewal, w.OfTerm = "expire", c.Name, c.Token, c.Renewal, c.Term
	case lease.Reopen:
		w.Kind, w.Name, w.Token = "reopen", c.Name, c.Token
	case lease.Abandon:
		w.Kind, w.Name, w.Holder, w.RequestID = "abandon", c.Name, c.Holder, c.RequestID
		w.Place, w.Reason = c.Place, string(c.Reason)
	case lease.Revoke:
		w.Kind, w.Name, w.Token, w.Reason = "revoke", c.Name, c.Token, c.Reason
	case lease.Write:
		w.Kind, w.Register, w.Token, w.Lease, w.Value = "write", c.Register, c.Token, c.Lease, &c.Value
	}
	return w
}

// wallTime shows milliseconds since 1970. Raft's own entries may have none.
func wallTime(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// age in milliseconds, nil for the negative one that means "never".
func age(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	return new(d.Milliseconds())
}
