package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"leasehold/lease"
)

// Acquire asks for a lease on behalf of a client. With c.Wait it may take that
// long, and as long as a request takes; ctx then ends when the client is gone.
// Errors: see errors.go.
func (n *Node) Acquire(ctx context.Context, c lease.Acquire) (Outcome, error) {
	if err := cmp.Or(c.Check(), n.checkTTL(c.TTL)); err != nil {
		return Outcome{}, err
	}
	soon, cancel := inTime(ctx)
	defer cancel()
	l, err := n.serve(soon)
	if err != nil {
		return Outcome{}, err
	}
	if err := n.checkRoom(c); err != nil {
		return Outcome{}, err
	}
	if c.Wait > 0 {
		return l.acquireWaiting(ctx, c)
	}
	// A dead holder must not win against a live client only because its expiry
	// has not been proposed yet.
	l.keeper.proposeIfDue(c.Name)
	out, err := l.write(soon, c, nil)
	if err == nil && out.Result.Waiter != nil { // it once was a request that waits
		return l.acquireWaiting(ctx, c)
	}
	return out, err
}

// acquireWaiting puts an acquire into the queue if it cannot be granted at once,
// and answers when it has been settled.
func (l *leadership) acquireWaiting(ctx context.Context, c lease.Acquire) (Outcome, error) {
	until := time.Now().Add(c.Wait)
	for {
		out, err := l.waitOnce(ctx, c)
		if !errors.Is(err, errAbandoned) {
			return out, err
		}
		// An Abandon from before this connection came has taken its place away. It
		// has waited for nothing so far as its client can tell, so it queues again.
		c.Wait = max(time.Until(until), 0).Truncate(time.Millisecond)
	}
}

var errAbandoned = errors.New("the place was given up before this connection came")

func (l *leadership) waitOnce(ctx context.Context, c lease.Acquire) (Outcome, error) {
	soon, cancel := inTime(ctx)
	defer cancel()
	w, err := l.keeper.attach(soon, c)
	if err != nil {
		return Outcome{}, cmp.Or(ctx.Err(), l.node.elsewhere())
	}
	l.keeper.proposeIfDue(c.Name)
	out, err := l.write(soon, c, func() { l.keeper.known(w) })
	switch {
	case err != nil:
		l.keeper.leave(w, ctx.Err() != nil)
		return Outcome{}, err
	case out.Result.Waiter == nil:
		return l.granted(w, out), nil
	case c.Wait == 0 && !l.keeper.alone(w):
		l.keeper.leave(w, false)
		refused := l.refusal(l.standing(out))
		refused.Note = "the same request waits in the queue on another connection, and may be granted there"
		return Outcome{}, refused
	}

	var stopped error
	select {
	case <-w.settled:
	case <-ctx.Done():
		stopped = ctx.Err()
	case <-l.ctx.Done():
		stopped = &Queued{l.node.successor(ctx)}
	case <-l.node.leaving.Done():
		stopped = &Queued{l.node.successor(ctx)}
	}
	select {
	case <-w.settled: // whatever else has happened
	default:
		l.keeper.leave(w, ctx.Err() != nil)
		return Outcome{}, stopped
	}

	out = l.outcome(w.result)
	if w.verdict == nil {
		return l.granted(w, out), nil
	}
	l.keeper.leave(w, false)
	if errors.Is(w.verdict, ErrWaitTimeout) {
		out.Result.Err = ErrWaitTimeout
		return Outcome{}, l.refusal(out)
	}
	return Outcome{}, w.verdict
}

// granted hands a grant to a connection, which says whether it reached its client.
func (l *leadership) granted(w attached, out Outcome) Outcome {
	out.Answered = func(written bool) {
		if written {
			l.keeper.take(w)
		} else {
			l.keeper.leave(w, true)
		}
	}
	return out
}

// standing is the outcome of an acquire that does not wait, while the same
// request waits on another connection.
func (l *leadership) standing(out Outcome) Outcome {
	out.Result.Err = lease.ErrHeld
	if out.Result.Lease.State() == lease.Cooling {
		out.Result.Err = lease.ErrCooling
	}
	return out
}

// successor says who leads after this node, for which it waits a moment: those
// who wait in queues should be sent there and not away.
func (n *Node) successor(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, successorTimeout)
	defer cancel()
	tick := time.NewTicker(successorTimeout / 20)
	defer tick.Stop()
	for {
		err := n.elsewhere()
		if n.leaving.Err() != nil && n.leading.Load() != nil {
			err = n.transferring()
		}
		if _, known := errors.AsType[*NotLeader](err); known {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

const successorTimeout = 500 * time.Millisecond

// checkRoom keeps the table within bounds. Acquires on their way are not
// counted, so a bound may be passed by as many as there are.
func (n *Node) checkRoom(c lease.Acquire) error {
	var full, crowded bool
	n.machine.View(func(t *lease.Table) {
		l := t.Get(c.Name)
		full = l == nil && t.Len() >= n.cfg.MaxLeases
		crowded = l != nil && c.Wait > 0 && l.Waiters >= n.cfg.MaxWaiters &&
			!l.HeldBy(c.Holder, c.RequestID) && t.Waiting(c.Name, c.Holder, c.RequestID) == nil
	})
	switch {
	case full:
		return &LimitError{"too_many_leases", fmt.Sprintf("%d leases are in use and this server allows no more", n.cfg.MaxLeases)}
	case crowded:
		return &LimitError{"too_many_waiters", fmt.Sprintf("%d requests wait for %s and this server allows no more", n.cfg.MaxWaiters, c.Name)}
	}
	return nil
}
