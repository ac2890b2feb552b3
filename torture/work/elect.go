package work

import (
	"context"

	"leasehold/client"
)

// elect campaigns for one lease, leads for a while, and begins again.
func elect(ctx context.Context, p *Player) error {
	c, err := client.New(p.config(p.cfg.Servers))
	if err != nil {
		return err
	}
	defer c.Close()
	o := client.ElectOptions{AcquireOptions: client.AcquireOptions{TTL: p.ttl(), Value: p.id}}
	_ = c.Elect(ctx, "elect", o, func(leading context.Context, l *client.Lease) error {
		from := p.cfg.Log.Now()
		defer func() { p.believes(l.Name(), l.Token(), from) }()
		if !sleep(leading, p.between(l.TTL()/2, 3*l.TTL())) {
			return nil
		}
		if p.chance(6) {
			p.pause(ctx, l.TTL())
			p.writeBlindly(leading, l.Name(), l.Token())
		}
		return nil
	})
	return nil
}
