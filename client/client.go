package client

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"leasehold/httpapi/wire"
)

// closeTimeout bounds how long Close waits for what is cleaned up in the background.
const closeTimeout = 2 * time.Second

// Client holds leases, under the name of one holder, and renews them. It may be
// used by any number of goroutines at once, and for any number of leases.
type Client struct {
	api     *API
	holder  string
	renewer *renewer

	// Cleaning up goes on in the background when a call has ended before its request
	// did. It is bounded by resolveTimeout.
	background sync.WaitGroup
	ctx        context.Context // ends what is under way when the client is closed
	cancel     context.CancelCauseFunc
	hurry      context.Context // ends the background too
	abort      context.CancelFunc
}

// New makes a client. It makes no connection yet, and runs nothing until it has a
// lease.
func New(config Config) (*Client, error) {
	api, err := NewAPI(config)
	if err != nil {
		return nil, err
	}
	c := &Client{api: api, holder: config.Holder}
	if c.holder == "" {
		c.holder = NewHolder()
	}
	c.renewer = newRenewer(c)
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.hurry, c.abort = context.WithCancel(context.Background())
	return c, nil
}

// API gives the calls below the client, with the same servers and connections.
func (c *Client) API() *API { return c.api }

// Holder is what the client calls itself.
func (c *Client) Holder() string { return c.holder }

// Close ends every call under way with [ErrClosed], releases the leases that the
// client still holds, and closes idle connections. Call it when nothing that they
// protect goes on. It waits for what is being cleaned up, at most 2 s after the
// releases; each of those is bounded as [Lease.Release] is.
func (c *Client) Close() error {
	c.cancel(ErrClosed)
	var errs []error
	var mu sync.Mutex
	inParallel(closers, c.renewer.close(), func(l *Lease) {
		if err := l.Release(); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	})
	late := time.AfterFunc(closeTimeout, c.abort)
	c.background.Wait()
	late.Stop()
	c.abort()
	return errors.Join(append(errs, c.api.Close())...)
}

// closers is how many releases go out at the same time when a client is closed.
const closers = 32

// inParallel calls do for each item, some at the same time.
func inParallel[T any](limit int, items []T, do func(T)) {
	var all sync.WaitGroup
	next := make(chan T)
	for range min(limit, len(items)) {
		all.Go(func() {
			for item := range next {
				do(item)
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	all.Wait()
}

// open gives a context for a call, which also ends when the client is closed.
func (c *Client) open(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// giveBack releases a grant, whatever context its owner has.
func (c *Client) giveBack(r wire.ReleaseRequest, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err := c.api.Release(ctx, r)
	return err
}

// Watch gives what happens in the cluster; see [API.Watch].
func (c *Client) Watch(ctx context.Context, o WatchOptions) iter.Seq2[wire.Event, error] {
	return c.api.Watch(ctx, o)
}

// List gives the leases whose names start with prefix and that are held or
// cooling, in the order of their names. It reads pages; each shows one moment,
// and they follow each other. An error is the last pair.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[wire.Lease, error] {
	return func(yield func(wire.Lease, error) bool) {
		query := LeasesQuery{Prefix: prefix, Limit: 1000}
		for {
			page, err := c.api.Leases(ctx, query)
			if err != nil {
				yield(wire.Lease{}, err)
				return
			}
			for _, l := range page.Leases {
				if !yield(l, nil) {
					return
				}
			}
			if page.Next <= query.After { // "" at the end
				return
			}
			query.After = page.Next
		}
	}
}
