package client

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// API calls the servers of one cluster, and hides which of them leads: one method
// makes one call. It may be used by any number of goroutines at once.
type API struct {
	servers *servers
	http    *http.Client

	timeout, tryTimeout time.Duration
	// owned: the HTTP client is this one's own, and so are its connections.
	owned bool
	// reports: its transport reports each connection that a request gets.
	reports bool

	mu     sync.Mutex // guards what follows
	pulses map[string]*pulse
	search *search // that is under way, nil if none is
}

// NewAPI makes no connection yet. It takes no notice of config.Holder.
func NewAPI(config Config) (*API, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	list, err := newServers(config.Servers)
	if err != nil {
		return nil, err
	}
	api := &API{servers: list, timeout: config.Timeout, tryTimeout: config.TryTimeout, pulses: make(map[string]*pulse)}
	if api.timeout == 0 {
		api.timeout = DefaultTimeout
	}
	if api.tryTimeout == 0 {
		api.tryTimeout = DefaultTryTimeout
	}
	hc := config.HTTPClient
	if hc == nil {
		hc, api.owned = newHTTPClient(), true
	}
	// A copy, because redirects are followed here: their number is bounded, and it
	// must be known which server has answered.
	own := *hc
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	api.http = &own
	_, api.reports = own.Transport.(*http.Transport)
	api.reports = api.reports || own.Transport == nil
	return api, nil
}

// Close closes idle connections, unless they are those of an HTTP client that was
// given. Calls under way go on.
func (api *API) Close() error {
	if api.owned {
		api.http.CloseIdleConnections()
	}
	return nil
}

// Leader gives the URL of the server that is taken for the leader, empty if none
// is known. Calls that only a leader answers teach it.
func (api *API) Leader() string { return api.servers.hint() }

// call makes a request to whichever server can serve it, and decodes the answer.
func call[T any](ctx context.Context, api *API, r request) (T, error) {
	var into T
	body, err := api.do(ctx, r)
	if err != nil {
		return into, err
	}
	return into, decode(body, &into, api.Leader())
}

// ask makes a request to one server, once. Its answer is wanted, not the
// cluster's, so no other server will do.
func ask[T any](ctx context.Context, api *API, server string, r request) (T, error) {
	var into T
	base, err := parseServer(server)
	if err != nil {
		return into, err
	}
	ctx, cancel := context.WithTimeout(ctx, api.tryTimeout)
	defer cancel()
	a, _, e := api.exchange(ctx, base, base+r.path, r)
	if e == nil {
		_, e = a.judge(base, r)
	}
	if e != nil {
		return into, e
	}
	return into, decode(a.body, &into, base)
}

// askAny is [ask] for a named server, or [call] if none is named.
func askAny[T any](ctx context.Context, api *API, server string, r request) (T, error) {
	if server == "" {
		return call[T](ctx, api, r)
	}
	return ask[T](ctx, api, server, r)
}

func decode(body []byte, into any, server string) error {
	if err := json.Unmarshal(body, into); err != nil {
		return unexpected(server, http.StatusOK, excerpt(body))
	}
	return nil
}
