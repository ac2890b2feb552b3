package client

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// Client calls the servers of one cluster. It may be used by any number of
// goroutines at once.
type Client struct {
	servers *servers
	http    *http.Client

	timeout, tryTimeout time.Duration
	// owned: the HTTP client is this client's own, and so are its connections.
	owned bool
	// reports: its transport reports each connection that a request gets.
	reports bool

	mu     sync.Mutex // guards what follows
	pulses map[string]*pulse
}

// New gives a client. It makes no connection yet.
func New(config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	list, err := newServers(config.Servers)
	if err != nil {
		return nil, err
	}
	c := &Client{servers: list, timeout: config.Timeout, tryTimeout: config.TryTimeout, pulses: make(map[string]*pulse)}
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	if c.tryTimeout == 0 {
		c.tryTimeout = DefaultTryTimeout
	}
	hc := config.HTTPClient
	if hc == nil {
		hc, c.owned = newHTTPClient(), true
	}
	// A copy, because the client follows redirects itself: it bounds their number,
	// and it must know which server has answered.
	own := *hc
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &own
	_, c.reports = own.Transport.(*http.Transport)
	c.reports = c.reports || own.Transport == nil
	return c, nil
}

// Close closes the idle connections of a client that was not given an HTTP
// client. Calls under way go on.
func (c *Client) Close() error {
	if c.owned {
		c.http.CloseIdleConnections()
	}
	return nil
}

// Leader gives the URL of the server that the client takes for the leader, empty
// if it knows none. Calls that only a leader answers teach it.
func (c *Client) Leader() string { return c.servers.hint() }

// call makes a request to whichever server can serve it, and decodes the answer.
func call[T any](ctx context.Context, c *Client, r request) (T, error) {
	var into T
	body, err := c.do(ctx, r)
	if err != nil {
		return into, err
	}
	return into, decode(body, &into, c.Leader())
}

// ask makes a request to one server, once. Its answer is wanted, not the
// cluster's, so no other server will do.
func ask[T any](ctx context.Context, c *Client, server string, r request) (T, error) {
	var into T
	base, err := parseServer(server)
	if err != nil {
		return into, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.tryTimeout)
	defer cancel()
	a, _, e := c.exchange(ctx, base, base+r.path, r)
	if e == nil {
		_, e = a.judge(base, r)
	}
	if e != nil {
		return into, e
	}
	return into, decode(a.body, &into, base)
}

// askAny is [ask] for a named server, or [call] if none is named.
func askAny[T any](ctx context.Context, c *Client, server string, r request) (T, error) {
	if server == "" {
		return call[T](ctx, c, r)
	}
	return ask[T](ctx, c, server, r)
}

func decode(body []byte, into any, server string) error {
	if err := json.Unmarshal(body, into); err != nil {
		return unexpected(server, http.StatusOK, excerpt(body))
	}
	return nil
}
