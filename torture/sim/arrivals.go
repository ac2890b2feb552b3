package sim

import (
	"context"
	"errors"

	"leasehold/cluster"
	"leasehold/lease"
	"leasehold/torture/history"
)

// backend is a node as the API has it. It notes of each renewal that reaches a leader
// how long its grant had left.
type backend struct {
	*cluster.Node
	to *watcher
}

func (b *backend) Renew(ctx context.Context, c lease.Renew) (cluster.Outcome, error) {
	arrival, seen := b.arrives(ctx, lease.Renewal{Name: c.Name, Token: c.Token})
	o, err := b.Node.Renew(ctx, c)
	if seen {
		arrival.Index = entryOf(o, err)
		b.to.log.Add(arrival)
	}
	return o, err
}

func (b *backend) RenewMany(ctx context.Context, c lease.RenewMany) (lease.Entry, []cluster.Renewed, error) {
	var all []history.Arrival
	for _, one := range c.Renewals {
		if arrival, seen := b.arrives(ctx, one); seen {
			all = append(all, arrival)
		}
	}
	entry, each, err := b.Node.RenewMany(ctx, c)
	for _, arrival := range all {
		arrival.Index = entry.Index
		b.to.log.Add(arrival)
	}
	return entry, each, err
}

// arrives looks at the grant that a renewal is for. It is not seen if this node does
// not lead, or the grant is not live.
func (b *backend) arrives(ctx context.Context, r lease.Renewal) (history.Arrival, bool) {
	view, read, err := b.Lease(ctx, r.Name, cluster.Stale)
	_, term := b.Leader()
	if err != nil || view.Remaining <= 0 || view.Lease.Live(r.Token) == nil || read.Leader.ID != b.ID() {
		return history.Arrival{}, false
	}
	return history.Arrival{At: b.to.log.Now(), Node: b.ID(), Term: term, Name: r.Name, Token: r.Token, Left: view.Remaining}, true
}

// entryOf is the entry that an outcome or a refusal comes from, 0 if there is none.
func entryOf(o cluster.Outcome, err error) uint64 {
	if refusal, ok := errors.AsType[*cluster.Refusal](err); ok {
		return refusal.Result.Entry.Index
	}
	if err != nil {
		return 0
	}
	return o.Result.Entry.Index
}
