package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leasehold/lease"
)

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
