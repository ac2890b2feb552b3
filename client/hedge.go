package client

import (
	"context"
	"slices"
	"time"
)

// A server that is paused, or behind a link that drops everything, takes a request
// and says nothing. To wait for it until a try is over would cost seconds, and it
// is usual: a paused leader is the one that the client knows. So a call that has
// got no answer for a moment looks who leads, by asking all servers at once:
//
//	try at n1 ───────────────────────────────────────── (dropped)
//	      └ hedgeAfter ┐
//	                   search: n1 says nothing, n2 leads
//	                        └ try at n2 ─────▶ answer
//
// As long as the server itself answers such a question it is busy, or waits on
// the caller's behalf, and is left in peace.
const (
	hedgeAfter = 150 * time.Millisecond
	// hedgeAgain is the pause before the next search: an election may be under way.
	hedgeAgain = 100 * time.Millisecond
	// busyAgain is that pause for a server that was seen to live.
	busyAgain = time.Second
)

// outcome of one try, or of some that were made side by side.
type outcome struct {
	body    []byte
	verdict verdict
	err     *Error
}

// hedged makes a try at a server, and others where others can answer sooner. What
// the tries told that are over without an answer of the cluster is added to t.
func (api *API) hedged(ctx context.Context, server string, r request, t *tries) outcome {
	alone := len(api.servers.given) == 1 && api.Leader() == "" // as far as is known
	if r.once && !alone && !api.servers.fresh(busyAgain) {
		// It cannot be sent a second time, so look where it should go before it is.
		if leader := api.find(ctx).leader; leader != "" {
			server = leader
		}
	}
	if r.once || alone {
		o := api.try(ctx, server, r)
		t.take(o)
		return o
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of the tries that are no longer needed
	asked := []string{server}
	outcomes, finds := make(chan outcome, 4), make(chan found, 1)
	start := func(server string) { go func() { outcomes <- api.try(ctx, server, r) }() }
	start(server)
	next := time.NewTimer(patience(ctx))
	defer next.Stop()
	for running := 1; ; {
		select {
		case o := <-outcomes:
			running--
			t.take(o)
			if o.verdict == answered || running == 0 {
				return o
			}
			next.Reset(hedgeAgain)
		case <-next.C:
			go func() { finds <- api.find(ctx) }()
		case f := <-finds:
			other := f.other(server, r)
			switch {
			case slices.Contains(f.lives, server):
				next.Reset(busyAgain)
			case other == "" || slices.Contains(asked, other) || len(asked) == cap(outcomes):
				next.Reset(hedgeAgain)
			default:
				asked = append(asked, other)
				running++
				start(other)
				next.Reset(hedgeAgain)
			}
		}
	}
}

// patience is how long to wait for an answer before looking around, less when
// there is little time.
func patience(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return hedgeAfter
	}
	return min(hedgeAfter, max(time.Until(deadline)/4, time.Millisecond))
}

// other gives a server that can answer the request instead of a silent one.
func (f found) other(silent string, r request) string {
	if r.leaderOnly || len(f.lives) == 0 {
		return f.leader
	}
	for _, server := range f.lives {
		if server != silent {
			return server
		}
	}
	return ""
}

// take notes the outcome of a try. One that is answered needs no note.
func (t *tries) take(o outcome) {
	if o.verdict != answered {
		t.add(o.verdict, o.err)
	}
}
