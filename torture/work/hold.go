package work

import (
	"context"
	"time"

	"leasehold/client"
	"leasehold/httpapi/wire"
)

// hold holds leases by means of client.Client, which renews them. Sometimes it is
// paused between its look at the lease and what it does on the strength of it.
func hold(ctx context.Context, p *Player) error {
	c, err := client.New(p.config(p.cfg.Servers))
	if err != nil {
		return err
	}
	defer c.Close()
	for sleep(ctx, p.between(0, 300*time.Millisecond)) {
		o := client.AcquireOptions{TTL: p.ttl(), Reclaim: p.chance(8)}
		if p.chance(2) {
			o.Wait = p.between(100*time.Millisecond, 2*time.Second)
		}
		if l, err := c.Acquire(ctx, p.name(), o); err == nil {
			p.keep(ctx, l)
		}
	}
	return nil
}

// keep works under a lease for a while.
func (p *Player) keep(ctx context.Context, l *client.Lease) {
	from := p.cfg.Log.Now()
	for range 1 + p.rand.IntN(8) {
		if !sleep(ctx, l.TTL()/3) || l.Err() != nil {
			break
		}
		// Here it has just made sure that it holds the lease.
		if p.chance(16) {
			p.pause(ctx, l.TTL())
			p.writeBlindly(ctx, l.Name(), l.Token())
		}
	}
	p.believes(l.Name(), l.Token(), from)
	if p.chance(3) {
		l.Drop() // as if it had died
	} else {
		_ = l.Release() // the history has what came of it
	}
}

// writeBlindly writes to the register beside a lease, without another look at the
// lease: the register has to be the judge. It compares tokens alone.
func (p *Player) writeBlindly(ctx context.Context, name string, token uint64) {
	_, _ = p.api.PutRegister(ctx, "beside/"+name, wire.WriteRequest{Value: p.id, Token: token})
}
