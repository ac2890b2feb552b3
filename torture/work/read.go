package work

import (
	"context"
	"time"

	"leasehold/client"
)

// read reads leases: from the cluster as they are, and from one node at a time as it
// has them, for as long as the connection to that node lasts.
func read(ctx context.Context, p *Player) error {
	for ctx.Err() == nil {
		node := p.cfg.Servers[p.rand.IntN(len(p.cfg.Servers))]
		of, err := client.NewAPI(p.config([]string{node}))
		if err != nil {
			return err
		}
		for range 40 {
			if !sleep(ctx, p.between(50*time.Millisecond, 250*time.Millisecond)) {
				return nil
			}
			name := p.name()
			_, _ = of.Lease(ctx, name, client.Stale)
			if p.chance(2) {
				_, _ = p.api.Lease(ctx, name, client.Linearizable)
			}
		}
	}
	return nil
}
