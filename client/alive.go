package client

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// A server that waits on behalf of a client says nothing for as long as the wait
// lasts, and neither does one that is paused or cut off. So while requests wait at
// a server, the client asks it now and then whether it lives. What it takes to
// notice that it does not, aliveEvery and aliveTimeout together, is less than the
// time for which the next leader keeps a place.
const (
	aliveEvery   = 2 * time.Second
	aliveTimeout = 2 * time.Second
)

var errSilent = errors.New("the server does not answer any more")

// pulse is the watch on one server, shared by the requests that wait there.
type pulse struct {
	waiting int // requests; guarded by the client's mutex
	ctx     context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{}
}

// whileAlive gives a context that ends when the server no longer answers. The
// caller calls stop when its request has been answered.
func (api *API) whileAlive(ctx context.Context, server string) (_ context.Context, stop func()) {
	api.mu.Lock()
	p := api.pulses[server]
	if p == nil || p.ctx.Err() != nil { // the last request that waited there took it to be dead
		p = &pulse{done: make(chan struct{})}
		p.ctx, p.cancel = context.WithCancelCause(context.Background())
		api.pulses[server] = p
		go api.feel(p, server)
	}
	p.waiting++
	api.mu.Unlock()

	ctx, cancel := context.WithCancelCause(ctx)
	detach := context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })
	return ctx, func() {
		detach()
		cancel(nil)
		api.mu.Lock()
		p.waiting--
		last := p.waiting == 0
		if last && api.pulses[server] == p {
			delete(api.pulses, server)
		}
		api.mu.Unlock()
		if last {
			p.cancel(nil)
			<-p.done
		}
	}
}

// feel asks the server until it is silent or nobody waits there any more.
func (api *API) feel(p *pulse, server string) {
	defer close(p.done)
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		if !api.lives(p.ctx, server) {
			p.cancel(errSilent)
			return
		}
	}
}

// lives asks a server for any sign of life.
func (api *API) lives(ctx context.Context, server string) bool {
	ctx, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/livez", nil)
	if err != nil {
		return false
	}
	resp, err := api.http.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return true
}
