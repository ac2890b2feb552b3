package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"leasehold/lease"
)

// Acquire asks for a lease on behalf of a client. Errors: see errors.go.
func (n *Node) Acquire(ctx context.Context, c lease.Acquire) (Outcome, error) {
	if err := cmp.Or(c.Check(), n.checkTTL(c.TTL)); err != nil {
		return Outcome{}, err
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	l, err := n.serve(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if err := n.checkRoom(c.Name); err != nil {
		return Outcome{}, err
	}
	// A dead holder must not win against a live client only because its expiry
	// has not been proposed yet.
	l.keeper.expireIfDue(c.Name)
	return l.write(ctx, c, nil)
}

// Renew keeps a grant alive.
func (n *Node) Renew(ctx context.Context, c lease.Renew) (Outcome, error) {
	if c.TTL != 0 {
		if err := n.checkTTL(c.TTL); err != nil {
			return Outcome{}, err
		}
	}
	if c.Value != nil {
		if err := lease.CheckValue(*c.Value); err != nil {
			return Outcome{}, err
		}
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	l, err := n.serve(ctx)
	if err != nil {
		return Outcome{}, err
	}
	// From here on the expiry of the grant waits for this renewal. Only its
	// holder can make it wait: others could keep a lease alive by asking in vain.
	known := func() {}
	n.machine.View(func(t *lease.Table) {
		held := t.Get(c.Name)
		if held != nil && held.Grant.Token == c.Token && held.Grant.Holder == c.Holder {
			known = l.keeper.renewing(c.Name, c.Token)
		}
	})
	return l.write(ctx, c, known)
}

// Release gives a lease back.
func (n *Node) Release(ctx context.Context, c lease.Release) (Outcome, error) {
	ctx, cancel := inTime(ctx)
	defer cancel()
	l, err := n.serve(ctx)
	if err != nil {
		return Outcome{}, err
	}
	return l.write(ctx, c, nil)
}

// write proposes a client's command and waits for what becomes of it. Known, if
// set, is called when the outcome is known, be it after write has returned.
func (l *leadership) write(ctx context.Context, c lease.Command, known func()) (Outcome, error) {
	p := l.node.propose(c, func(*proposal) {
		if known != nil {
			known()
		}
	})
	r, err := l.node.settle(ctx, p)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Result: r, ClusterID: l.node.clusterID()}
	if r.Lease != nil {
		out.Remaining = l.keeper.remaining(r.Lease)
	}
	if r.Err != nil {
		return Outcome{}, l.refusal(out)
	}
	return out, nil
}

func (l *leadership) refusal(out Outcome) *Refusal {
	refused := &Refusal{Outcome: out}
	if errors.Is(out.Result.Err, lease.ErrHeld) {
		// Once the deadline has passed, the next acquire proposes the expiry
		// before itself; expiryRetry is for a renewal that is still in flight.
		refused.RetryAfter = out.Remaining
		if refused.RetryAfter <= 0 {
			refused.RetryAfter = expiryRetry
		}
	}
	l.node.machine.View(func(t *lease.Table) { refused.Last = t.LastEnded(out.Result.Name) })
	return refused
}

func (n *Node) checkTTL(ttl time.Duration) error {
	if ttl < n.cfg.MinTTL || ttl > n.cfg.MaxTTL {
		return &lease.FieldError{Field: "ttl_ms", Detail: fmt.Sprintf("is %d, it must be an integer from %d to %d",
			ttl.Milliseconds(), n.cfg.MinTTL.Milliseconds(), n.cfg.MaxTTL.Milliseconds())}
	}
	return nil
}

// checkRoom keeps the table within bounds. Acquires on their way are not
// counted, so the bound may be passed by as many as there are.
func (n *Node) checkRoom(name string) error {
	var full bool
	n.machine.View(func(t *lease.Table) { full = t.Len() >= n.cfg.MaxLeases && t.Get(name) == nil })
	if full {
		return &LimitError{"too_many_leases", fmt.Sprintf("%d leases are held and this server allows no more; nothing happened", n.cfg.MaxLeases)}
	}
	return nil
}
