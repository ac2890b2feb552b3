package work

import (
	"context"
	"time"

	"leasehold/httpapi/wire"
)

// queue waits for a few leases that are much wanted. Some of those who wait give up:
// their wait is over, or they hang up.
func queue(ctx context.Context, p *Player) error {
	for sleep(ctx, p.between(0, 100*time.Millisecond)) {
		name := p.cfg.name(p.rand.IntN(min(p.cfg.Names, 4)))
		p.waitFor(ctx, name, p.between(200*time.Millisecond, 3*time.Second), p.ttl())
	}
	return nil
}

// waitFor queues for a lease, holds it for a moment, and gives it back or not.
func (p *Player) waitFor(ctx context.Context, name string, wait, ttl time.Duration) {
	ask := wire.AcquireRequest{
		Name: name, Holder: p.id, TTLMillis: ttl.Milliseconds(), RequestID: p.requestID(), WaitMillis: wait.Milliseconds(),
	}
	waiting, hangUp := context.WithCancel(ctx)
	defer hangUp()
	if p.chance(4) {
		defer time.AfterFunc(p.between(10*time.Millisecond, wait), hangUp).Stop()
	}
	g, err := p.api.Acquire(waiting, ask)
	if err != nil {
		return
	}
	// Its TTL may have begun long ago: only a renewal tells.
	from := p.cfg.Log.Now()
	if _, err := p.api.Renew(ctx, wire.RenewRequest{Name: name, Holder: p.id, Token: g.Token}); err != nil {
		return
	}
	sleep(ctx, p.between(0, ttl/2))
	p.believes(name, g.Token, from)
	if !p.chance(4) {
		_, _ = p.api.Release(ctx, wire.ReleaseRequest{Name: name, Holder: p.id, Token: g.Token})
	}
}
