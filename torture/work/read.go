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
		for range 60 {
			if !sleep(ctx, p.between(20*time.Millisecond, 120*time.Millisecond)) {
				return nil
			}
			switch name := p.name(); p.rand.IntN(4) {
			case 0:
				_, _ = p.api.Lease(ctx, name, client.Linearizable)
			case 1, 2: // this node goes on being asked when others have turned to its successor
				_, _ = of.Lease(ctx, name, client.Linearizable)
			default:
				_, _ = of.Lease(ctx, name, client.Stale)
			}
		}
	}
	return nil
}
