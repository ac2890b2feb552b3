package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"leasehold/lease"
)

// Lease reads one lease.
func (n *Node) Lease(ctx context.Context, name string, c Consistency) (LeaseView, Read, error) {
	var view LeaseView
	read, err := n.read(ctx, c, func(t *lease.Table, l *leadership) {
		view = viewOf(t, l, name, t.Get(name))
	})
	return view, read, err
}

// Leases reads a page of the leases that are held.
func (n *Node) Leases(ctx context.Context, q LeaseQuery, c Consistency) (LeasePage, Read, error) {
	var page LeasePage
	if q.Limit < 1 || q.Limit > MaxPage {
		return page, Read{}, &lease.FieldError{Field: "limit", Detail: fmt.Sprintf("is %d, it must be from 1 to %d", q.Limit, MaxPage)}
	}
	read, err := n.read(ctx, c, func(t *lease.Table, l *leadership) {
		for held := range t.Ascend(max(q.Prefix, q.After)) {
			if held.Name == q.After {
				continue
			}
			if !strings.HasPrefix(held.Name, q.Prefix) {
				break
			}
			if len(page.Leases) == q.Limit {
				page.Next = page.Leases[q.Limit-1].Name
				break
			}
			page.Leases = append(page.Leases, viewOf(t, l, held.Name, held))
		}
	})
	return page, read, err
}

// Requests reads what is known of a request id: the live grants it made, the
// queues it waits in, and those of the latest ended grants that it made. It looks
// through every lease, but not while it keeps the state machine waiting.
func (n *Node) Requests(ctx context.Context, id string, c Consistency) ([]RequestView, Read, error) {
	read, err := n.read(ctx, c, func(*lease.Table, *leadership) {})
	if err != nil {
		return nil, read, err
	}
	state := n.machine.Freeze() // no older than what was confirmed
	read.Index, read.Term = state.Applied.Index, state.Applied.Term
	var known []RequestView
	for held := range state.All() {
		if g := held.Grant; g != nil && g.RequestID == id {
			known = append(known, RequestView{Name: held.Name, Holder: g.Holder, Grant: g})
		}
	}
	for w := range state.AllWaiters() {
		if w.RequestID == id {
			known = append(known, RequestView{Name: w.Name, Holder: w.Holder, Waiter: w})
		}
	}
	for e := range state.Ended() {
		if e.RequestID == id {
			known = append(known, RequestView{Name: e.Name, Holder: e.Holder, Ended: e})
		}
	}
	return known, read, nil
}

// read calls f with the table once it may be read with that consistency, and
// says what was read. The leadership is nil on a node that does not lead.
func (n *Node) read(ctx context.Context, c Consistency, f func(*lease.Table, *leadership)) (Read, error) {
	read := Read{Consistency: c}
	var l *leadership
	if c == Linearizable {
		ctx, cancel := inTime(ctx)
		defer cancel()
		var err error
		if l, err = n.serve(ctx); err != nil {
			return read, err
		}
		if err := l.confirm(ctx); err != nil {
			return read, err
		}
	} else if leading := n.leading.Load(); leading.isServing() {
		l = leading
	}
	n.machine.View(func(t *lease.Table) {
		read.Index, read.Term = t.Applied().Index, t.Applied().Term
		read.ClusterID = t.ClusterID()
		f(t, l)
	})
	read.Leader, read.LastContact = n.knownLeader(), n.lastContact()
	return read, nil
}

// confirm returns nil if everything that was answered before it was called, by
// this leader or any other, is in this node's state.
func (l *leadership) confirm(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)() // no longer than the leadership
	err := l.node.peers.confirm(ctx, l.term)
	if l.ctx.Err() != nil {
		return l.node.elsewhere()
	}
	return err
}

func (l *leadership) isServing() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.serving:
		return l.ctx.Err() == nil
	default:
		return false
	}
}

func viewOf(t *lease.Table, l *leadership, name string, held *lease.Lease) LeaseView {
	v := LeaseView{Name: name, Lease: held, Last: t.LastEnded(name), Remaining: -1}
	if held != nil && l != nil {
		v.Remaining = l.keeper.remaining(held)
	}
	return v
}

// lastContact is how long ago this node heard from a leader: 0 if it leads, -1
// if it never has.
func (n *Node) lastContact() time.Duration {
	if !n.started() {
		return -1
	}
	if n.leading.Load() != nil {
		return 0
	}
	last := n.raft.LastContact()
	if last.IsZero() {
		return -1
	}
	return max(time.Since(last), 0)
}
