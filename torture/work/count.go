package work

import (
	"context"
	"strconv"
	"time"

	"leasehold/client"
	"leasehold/httpapi/wire"
	"leasehold/torture/history"
)

// The registers of the counters.
const (
	fencedCounter   = "counter/fenced"
	unfencedCounter = "counter/unfenced"
	// notes takes any token that is no lower than the highest it has seen, as a
	// resource outside of the cluster does, which cannot know whether a lease is live.
	notes = "notes"
)

// count adds one to what it reads from a register, under a lease, now and then after
// a pause between reading and writing. One register compares tokens, and may lose
// nothing of what it has acknowledged; the other does not.
func count(ctx context.Context, p *Player) error {
	const name = "counter"
	for sleep(ctx, p.between(50*time.Millisecond, 500*time.Millisecond)) {
		ttl := p.between(p.cfg.MinTTL, 2*p.cfg.MinTTL)
		g, err := p.api.Acquire(ctx, wire.AcquireRequest{
			Name: name, Holder: p.id, TTLMillis: ttl.Milliseconds(), RequestID: p.requestID(), WaitMillis: 2000,
		})
		if err != nil {
			continue
		}
		from := p.cfg.Log.Now()
		for range 1 + p.rand.IntN(3) {
			p.addOne(ctx, fencedCounter, wire.WriteRequest{Token: g.Token, Lease: name}, ttl)
			p.addOne(ctx, unfencedCounter, wire.WriteRequest{}, ttl)
			_, _ = p.api.PutRegister(ctx, notes, wire.WriteRequest{Value: p.id, Token: g.Token})
		}
		p.believes(name, g.Token, from)
		if !p.chance(6) {
			_, _ = p.api.Release(ctx, wire.ReleaseRequest{Name: name, Holder: p.id, Token: g.Token})
		}
	}
	return nil
}

func (p *Player) addOne(ctx context.Context, register string, write wire.WriteRequest, ttl time.Duration) {
	r, err := p.api.Register(ctx, register, client.Linearizable)
	if err != nil {
		return
	}
	if p.chance(16) {
		p.pause(ctx, ttl)
	}
	n, _ := strconv.Atoi(r.Value) // it begins without a value
	write.Value = strconv.Itoa(n + 1)
	ctx = noting(ctx, func(op *history.Operation) { op.Counter = true })
	_, _ = p.api.PutRegister(ctx, register, write)
}
