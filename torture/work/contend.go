package work

import (
	"context"
	"errors"
	"time"

	"leasehold/client"
	"leasehold/httpapi/wire"
)

// contend fights for leases with the calls themselves: it asks without waiting,
// repeats what it does not know the outcome of, and what it does, renews by hand,
// falls asleep, and comes back with tokens that are dead.
func contend(ctx context.Context, p *Player) error {
	for sleep(ctx, p.between(0, 150*time.Millisecond)) {
		ask := wire.AcquireRequest{Name: p.name(), Holder: p.id, TTLMillis: p.ttl().Milliseconds(), RequestID: p.requestID()}
		if p.chance(8) {
			ask.LockDelayMillis = p.between(50*time.Millisecond, 500*time.Millisecond).Milliseconds()
		}
		from, sent := p.cfg.Log.Now(), time.Now()
		g, err := p.insist(ctx, ask)
		if errors.Is(err, client.ErrHeld) && p.chance(4) { // the refusal tells when it will be free
			var refusal *client.Error
			if errors.As(err, &refusal) && refusal.RetryAfter() > 0 && sleep(ctx, refusal.RetryAfter()) {
				ask.RequestID = p.requestID()
				from, sent = p.cfg.Log.Now(), time.Now()
				g, err = p.insist(ctx, ask)
			}
		}
		if err != nil {
			continue
		}
		if err := p.askAround(ctx, g.Name); err != nil {
			return err
		}
		if p.chance(4) {
			_, _ = p.api.Acquire(ctx, ask) // the same grant again, or its end
		}
		p.renewByHand(ctx, g, from, sent)
		if p.chance(4) {
			_, _ = p.api.Acquire(ctx, ask) // this request has ended
		}
	}
	return nil
}

// insist asks again, under the same request id, as long as the outcome is unknown.
func (p *Player) insist(ctx context.Context, ask wire.AcquireRequest) (wire.Grant, error) {
	for {
		g, err := p.api.Acquire(ctx, ask)
		if !errors.Is(err, client.ErrUnknown) || !sleep(ctx, 100*time.Millisecond) {
			return g, err
		}
	}
}

// askAround asks one node of the cluster, whichever, for a lease that has just been
// granted. It may be one that was replaced and does not know it yet.
func (p *Player) askAround(ctx context.Context, name string) error {
	node := p.cfg.Servers[p.rand.IntN(len(p.cfg.Servers))]
	of, err := client.NewAPI(p.config([]string{node}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, _ = of.Lease(ctx, name, client.Linearizable)
	return nil
}

// renewByHand keeps a grant for a while and lets go of it in one way or another. It
// counts its TTL from before its latest renewal was sent, as a client must.
func (p *Player) renewByHand(ctx context.Context, g wire.Grant, from time.Duration, sent time.Time) {
	ttl := millis(g.TTLMillis)
	renew := wire.RenewRequest{Name: g.Name, Holder: p.id, Token: g.Token}
	held := func() bool { return time.Since(sent) < ttl-ttl/50 }
	for range p.rand.IntN(5) {
		if !sleep(ctx, ttl/3) || !held() {
			break
		}
		if p.chance(8) {
			p.pause(ctx, ttl)
			p.writeBlindly(ctx, g.Name, g.Token) // as if nothing had happened
		}
		at := time.Now()
		if _, err := p.api.Renew(ctx, renew); errors.Is(err, client.ErrLost) || errors.Is(err, client.ErrNotHolder) {
			sent = time.Time{}
		} else if err == nil {
			sent = at
		}
	}
	p.believes(g.Name, g.Token, from)
	release := wire.ReleaseRequest{Name: g.Name, Holder: p.id, Token: g.Token}
	switch p.rand.IntN(4) {
	case 0: // lets it run out, and comes back
		if sleep(ctx, ttl+ttl/2) {
			_, _ = p.api.Renew(ctx, renew)
			_, _ = p.api.Release(ctx, release)
			p.writeBlindly(ctx, g.Name, g.Token)
		}
	case 1: // as a retry after an answer that was lost
		_, _ = p.api.Release(ctx, release)
		_, _ = p.api.Release(ctx, release)
		_, _ = p.api.Renew(ctx, renew)
	case 2: // an operator breaks it
		_, _ = p.api.Revoke(ctx, wire.RevokeRequest{Name: g.Name, Token: g.Token, Reason: "for the test"})
	default:
		_, _ = p.api.Release(ctx, release)
	}
}
