package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leasehold/client"
	"leasehold/httpapi/wire"
	"leasehold/torture/history"
)

// probe asks once a second for a lease of a fresh name, which nobody else wants: only
// the cluster can stand in the way. It lets the grants run out.
func probe(ctx context.Context, p *Player) {
	for n := 0; sleep(ctx, p.between(500*time.Millisecond, 1500*time.Millisecond)); n++ {
		ask := wire.AcquireRequest{
			Name: fmt.Sprintf("probe/%d", n), Holder: p.id, TTLMillis: p.cfg.MinTTL.Milliseconds(), RequestID: p.requestID(),
		}
		op := history.Operation{
			Client: p.id, Kind: history.Acquire, Probe: true, Call: p.cfg.Log.Now(),
			Name: ask.Name, Holder: ask.Holder, RequestID: ask.RequestID, TTL: p.cfg.MinTTL,
		}
		g, err := p.api.Acquire(noting(ctx, unrecorded), ask)
		if op.Return = p.cfg.Log.Now(); ctx.Err() != nil && err != nil {
			op.Outcome = history.Unknown // we hung up ourselves
		} else {
			told(&op, g, err)
		}
		p.cfg.Log.Add(op)
	}
}

// told notes what a whole acquire came to.
func told(op *history.Operation, g wire.Grant, err error) {
	var refusal *client.Error
	switch errors.As(err, &refusal); {
	case err == nil:
		op.Outcome = history.OK
		op.Answer = history.Answer{
			Term: g.Term, Index: g.Index, Token: g.Token, Holder: g.Holder, Replayed: g.Replayed,
			TTL: millis(g.TTLMillis), RemainingMillis: &g.RemainingMillis, Value: &g.Value,
		}
	case errors.Is(err, client.ErrUnavailable):
		op.Outcome, op.Code = history.Nothing, refusal.Code
	case errors.Is(err, client.ErrUnknown) || refusal == nil || refusal.Status == 0:
		op.Outcome = history.Unknown
	default:
		op.Outcome, op.Code = history.Refused, refusal.Code
	}
}
