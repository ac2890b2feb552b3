package client

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"leasehold/httpapi/wire"
)

// The pause after a round in which no server could serve grows from firstPause
// to maxPause: short enough to find a new leader soon after its election. What a
// server says in Retry-After is the usual length of an election, and to wait for
// all of it each time would double the gap that a failover makes.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// do repeats the request, in rounds over the servers, until the cluster has
// answered it or time is up.
func (api *API) do(ctx context.Context, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, api.timeout+r.wait)
	defer cancel()
	r.until = time.Now().Add(r.wait)
	var t tries
	for round := 0; ; round++ {
		for _, server := range api.servers.order() {
			if ctx.Err() != nil {
				break
			}
			o := api.hedged(ctx, server, r, &t)
			if o.verdict == answered && o.err == nil {
				return o.body, nil
			}
			if o.err.RequestID == "" {
				o.err.RequestID = r.requestID
			}
			if o.verdict == answered {
				return nil, o.err
			}
			if o.verdict == unknown && r.once {
				return nil, t.gaveUp(ctx, r)
			}
		}
		if !sleep(ctx, pause(round)) {
			return nil, t.gaveUp(ctx, r)
		}
	}
}

// tries remembers what the tries of one call told so far.
type tries struct {
	// unsure is the last try whose outcome is unknown. It is never forgotten: that
	// a later try had no effect does not tell what came of this one.
	unsure *Error
	// refused is the last answer of a server that cannot serve. It says more than
	// a server that is not there.
	refused *Error
	// silent is the last word on each server that gave no answer.
	silent map[string]*Error
}

func (t *tries) add(v verdict, err *Error) {
	switch {
	case v == unknown:
		t.unsure = err
	case err.Status != 0:
		t.refused = err
	case t.silent[err.Server] == nil || !errors.Is(err, context.DeadlineExceeded):
		// That time ran out says less than what had been wrong before.
		if t.silent == nil {
			t.silent = make(map[string]*Error)
		}
		t.silent[err.Server] = err
	}
}

// pause before the next round: at least half of what the round's number asks
// for, the rest by chance, so that clients do not come back all at once.
func pause(round int) time.Duration {
	d := min(firstPause<<min(round, 10), maxPause)
	return d/2 + rand.N(d/2) + 1
}

// gaveUp is the error of a call that ended without an answer of the cluster.
func (t *tries) gaveUp(ctx context.Context, r request) error {
	e := &Error{Problem: wire.Problem{RequestID: r.requestID}}
	switch {
	case t.unsure != nil:
		e = t.unsure
	case !errors.Is(ctx.Err(), context.DeadlineExceeded):
		// The caller stopped waiting while nothing had happened yet.
		e.Code, e.Detail = codeCancelled, context.Cause(ctx).Error()
	case t.refused != nil:
		e = t.refused
	default:
		e.Code, e.Detail = codeUnreachable, t.silence()
	}
	e.Cause = errors.Join(e.Cause, context.Cause(ctx))
	return e
}

// silence says for every server why it gave no answer.
func (t *tries) silence() string {
	if len(t.silent) == 0 {
		return "time was up before a server was asked"
	}
	var why []string
	for _, server := range slices.Sorted(maps.Keys(t.silent)) {
		why = append(why, t.silent[server].Detail)
	}
	return strings.Join(why, "; ")
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
