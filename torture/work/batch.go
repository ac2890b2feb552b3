package work

import (
	"context"
	"fmt"
	"time"

	"leasehold/httpapi/wire"
)

// batch holds several leases of its own and renews all of them by one request, among
// them some that it has given back or that have run out.
func batch(ctx context.Context, p *Player) error {
	for sleep(ctx, p.between(0, 500*time.Millisecond)) {
		ttl := p.between(p.cfg.MaxTTL/2, p.cfg.MaxTTL)
		many := wire.RenewManyRequest{Holder: p.id}
		for i := range 2 + p.rand.IntN(5) {
			ask := wire.AcquireRequest{Name: fmt.Sprintf("batch/%d", i), Holder: p.id, TTLMillis: ttl.Milliseconds(), RequestID: p.requestID()}
			if g, err := p.insist(ctx, ask); err == nil {
				many.Renewals = append(many.Renewals, wire.Renewal{Name: g.Name, Token: g.Token})
			}
		}
		if len(many.Renewals) > 0 {
			p.renewTogether(ctx, many, ttl)
		}
	}
	return nil
}

func (p *Player) renewTogether(ctx context.Context, many wire.RenewManyRequest, ttl time.Duration) {
	for range 1 + p.rand.IntN(6) {
		if !sleep(ctx, ttl/3) {
			return
		}
		switch p.rand.IntN(12) {
		case 0:
			p.pause(ctx, ttl)
		case 1, 2:
			one := many.Renewals[p.rand.IntN(len(many.Renewals))]
			_, _ = p.api.Release(ctx, wire.ReleaseRequest{Name: one.Name, Holder: p.id, Token: one.Token})
		}
		_, _ = p.api.RenewMany(ctx, many)
	}
	for _, one := range many.Renewals {
		if !p.chance(3) {
			_, _ = p.api.Release(ctx, wire.ReleaseRequest{Name: one.Name, Holder: p.id, Token: one.Token})
		}
	}
}
