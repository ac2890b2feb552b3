package client

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// ElectOptions of a [Client.Elect].
type ElectOptions struct {
	AcquireOptions // where a Wait of 0 means Forever

	// OnError, if set, is told why a campaign did not succeed and is made again, and
	// why a term ended early.
	OnError func(error)
}

// shortTerm is how long a term lasts that is worth having. After shorter ones there
// is a pause that grows, lest a lead that does nothing wears out the cluster.
const shortTerm = time.Second

// Elect campaigns for a lease again and again, and calls lead each time that it has
// it. The context of lead ends when the lease is lost or ctx ends, with the reason
// as its cause; lead must then come to its end. The lease goes on being renewed
// while it does, and is released only after lead has returned.
//
// What follows depends on how lead returns: after a loss of the lease, or with nil,
// there is another campaign; any other error ends Elect, as does ctx, with its
// cause, and so does a request that the server will never take.
//
// A Wait in the options bounds each campaign: the error is then [ErrWaitTimeout].
func (c *Client) Elect(ctx context.Context, name string, o ElectOptions, lead func(context.Context, *Lease) error) error {
	if lead == nil {
		return errors.New("there is nothing to lead with: lead is nil")
	}
	if o.Wait == 0 {
		o.Wait = Forever
	}
	for failures := 0; ; {
		begun := time.Now()
		again, err := c.term(ctx, name, o.AcquireOptions, lead)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !again:
			return err
		case err != nil && o.OnError != nil:
			o.OnError(err)
		}
		if failures++; time.Since(begun) >= shortTerm {
			failures = 0
		}
		if !sleep(ctx, pause(failures)) {
			return context.Cause(ctx)
		}
	}
}

// term is one campaign and what it leads to. It says whether to campaign again.
func (c *Client) term(ctx context.Context, name string, o AcquireOptions, lead func(context.Context, *Lease) error) (again bool, err error) {
	l, err := c.Acquire(ctx, name, o)
	if err != nil {
		return worthRepeating(err), err
	}
	defer func() { _ = l.Release() }() // also if lead panics
	err = leadWith(ctx, l, lead)
	if lost := l.Err(); lost != nil {
		return true, lost
	}
	return err == nil, err
}

// leadWith calls lead with a context that ends with the campaign's or with the lease.
func leadWith(ctx context.Context, l *Lease, lead func(context.Context, *Lease) error) error {
	leading, cancel := context.WithCancelCause(l.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	return lead(leading, l)
}

// worthRepeating says of an acquire that failed whether the same one may succeed
// later.
func worthRepeating(err error) bool {
	var e *Error
	if errors.Is(err, ErrWaitTimeout) || errors.Is(err, ErrClosed) || !errors.As(err, &e) && !errors.Is(err, ErrLost) {
		return false
	}
	if e == nil {
		return true
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge:
		return false
	}
	return true
}
