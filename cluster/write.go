package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leasehold/lease"
)

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
		if g := t.Get(c.Name).Live(c.Token); g != nil && g.Holder == c.Holder {
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
	out := l.outcome(r)
	if r.Err != nil {
		return Outcome{}, l.refusal(out)
	}
	return out, nil
}

func (l *leadership) outcome(r lease.Result) Outcome {
	out := Outcome{Result: r, ClusterID: l.node.clusterID()}
	if r.Lease != nil {
		out.Remaining = l.keeper.remaining(r.Lease)
	}
	return out
}

func (l *leadership) refusal(out Outcome) *Refusal {
	refused := &Refusal{Outcome: out}
	if err := out.Result.Err; errors.Is(err, lease.ErrHeld) || errors.Is(err, lease.ErrCooling) || errors.Is(err, ErrWaitTimeout) {
		// Once the deadline has passed, the next acquire proposes the end of the
		// grant before itself; proposalRetry is for a renewal that is still in flight.
		refused.RetryAfter = max(out.Remaining, proposalRetry)
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
