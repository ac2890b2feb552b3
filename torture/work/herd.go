package work

import (
	"context"
	"sync"
	"time"

	"leasehold/httpapi/wire"
)

// herdSize is how many want one lease at the same time.
const herdSize = 100

// herd asks for one lease a hundred times at once, some time in each half minute or
// so. Some of the hundred wait, and all give it back as soon as they have it.
func herd(ctx context.Context, p *Player) error {
	for sleep(ctx, p.between(5*time.Second, time.Minute)) {
		var all sync.WaitGroup
		for i := range herdSize {
			ask := wire.AcquireRequest{
				Name: "herd", Holder: p.id, TTLMillis: p.cfg.MaxTTL.Milliseconds(), RequestID: p.requestID(),
			}
			if i%4 == 0 {
				ask.WaitMillis = 3000
			}
			all.Go(func() {
				if g, err := p.api.Acquire(ctx, ask); err == nil {
					_, _ = p.api.Release(ctx, wire.ReleaseRequest{Name: g.Name, Holder: p.id, Token: g.Token})
				}
			})
		}
		all.Wait()
	}
	return nil
}
