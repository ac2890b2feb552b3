package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// Acquire asks for a lease. Without a request id it makes one, so that a try
// whose answer was lost can be repeated without a second grant; the grant, or
// the error, names it. Errors besides the common ones: [lease.ErrHeld],
// [lease.ErrCooling], [lease.ErrRequestEnded] and, with WaitMillis,
// [ErrWaitTimeout].
//
// With WaitMillis the call may take that much longer than others do. It keeps its
// place in the queue across a change of leader.
//
// A grant with Replayed set was made by an earlier try or call, and its TTL runs
// from then. The TTL of one that was waited for runs from some time before the
// answer: renew it once before trusting a deadline of your own.
func (api *API) Acquire(ctx context.Context, a wire.AcquireRequest) (wire.Grant, error) {
	until := time.Now().Add(time.Duration(min(a.WaitMillis, lease.MaxWait.Milliseconds())) * time.Millisecond)
	named := a.RequestID != ""
	for {
		if !named {
			a.RequestID = rand.Text()
		}
		g, err := api.acquire(ctx, a)
		left := time.Until(until)
		if named || left <= 0 || !errors.Is(err, lease.ErrRequestEnded) {
			return g, err
		}
		// It was granted while no server could tell us so, and taken back. We have
		// never had that grant, so we still wait, as a request of another name.
		a.WaitMillis = max(left.Milliseconds(), 1)
	}
}

func (api *API) acquire(ctx context.Context, a wire.AcquireRequest) (wire.Grant, error) {
	r, err := post("/v1/acquire", a, a.Name, a.Holder, a.RequestID, a.Value)
	if err != nil {
		return wire.Grant{}, err
	}
	r.requestID = a.RequestID
	if a.WaitMillis > 0 && a.WaitMillis <= lease.MaxWait.Milliseconds() { // else the server refuses it
		r.wait = time.Duration(a.WaitMillis) * time.Millisecond
		r.waiting = func(left time.Duration) []byte {
			a.WaitMillis = (left + time.Millisecond - 1).Milliseconds()
			body, _ := json.Marshal(a) // it could be marshalled before
			return body
		}
	}
	return call[wire.Grant](ctx, api, r)
}
