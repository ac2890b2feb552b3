package cluster

import (
	"context"

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
	known := l.renewing(c.Holder, lease.Renewal{Name: c.Name, Token: c.Token})
	return l.write(ctx, c, known)
}

// Renewed is what one renewal of many came to: Err is nil or a *Refusal.
type Renewed struct {
	Outcome
	Err error
}

// RenewMany keeps many grants of one holder alive, by one entry. The error is that
// of all of them; each may be refused by itself.
func (n *Node) RenewMany(ctx context.Context, c lease.RenewMany) (lease.Entry, []Renewed, error) {
	ctx, cancel := inTime(ctx)
	defer cancel()
	l, err := n.serve(ctx)
	if err != nil {
		return lease.Entry{}, nil, err
	}
	known := l.renewing(c.Holder, c.Renewals...)
	out, err := l.write(ctx, c, known)
	if err != nil {
		return lease.Entry{}, nil, err
	}
	each := make([]Renewed, len(out.Result.Each))
	remaining := l.keeper.remainingEach(out.Result.Each)
	for i, r := range out.Result.Each {
		each[i].Outcome = Outcome{Result: r, ClusterID: out.ClusterID, Remaining: remaining[i]}
		if r.Err != nil {
			each[i].Err = l.refusal(each[i].Outcome)
		}
	}
	return out.Result.Entry, each, nil
}

// renewing makes the expiry of grants wait for renewals that have been received,
// until known is called. Only their holder can make it wait: others could keep a
// lease alive by asking in vain.
func (l *leadership) renewing(holder string, renewals ...lease.Renewal) (known func()) {
	own := make([]lease.Renewal, 0, len(renewals))
	l.node.machine.View(func(t *lease.Table) {
		for _, one := range renewals {
			if g := t.Get(one.Name).Live(one.Token); g != nil && g.Holder == holder {
				own = append(own, one)
			}
		}
	})
	return l.keeper.renewing(own...)
}
