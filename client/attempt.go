package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// DefaultTTL of a grant.
const DefaultTTL = 10 * time.Second

// Forever, as a wait, ends with the context only. It is made of waits of 10
// minutes, the longest that a server takes, and stands at the end of the queue
// again after each.
const Forever time.Duration = -1

// AcquireOptions of a [Client.Acquire]. The zero value asks for a grant of
// [DefaultTTL], at once or not at all.
type AcquireOptions struct {
	// TTL is how long the grant lasts when this process falls silent, in whole
	// milliseconds. Servers take 100 ms to 24 h unless they are told otherwise. 0
	// means [DefaultTTL].
	TTL time.Duration
	// Wait in the queue for that long at most, in whole milliseconds, up to 10
	// minutes, or [Forever]. 0: not at all.
	Wait time.Duration
	// Value to publish with the lease, at most 4 KiB.
	Value string
	// LockDelay keeps the lease closed for that long after the grant has expired or
	// was revoked, at most 60 s.
	LockDelay time.Duration
	// Reclaim takes over from an older grant of the same holder.
	Reclaim bool
}

func (o AcquireOptions) ttl() time.Duration {
	if o.TTL == 0 {
		return DefaultTTL
	}
	return o.TTL
}

// Acquire gets a lease, which is then renewed until it is released or lost. It
// waits as long as the options say, and no longer than ctx.
//
// Errors: [ErrHeld] or [ErrCooling] if the lease is not to be had now,
// [ErrWaitTimeout] if not within the wait, [ErrLost] or [ErrRequestEnded] if the
// answer came so late that the grant was over, [ErrUnavailable], [ErrUnknown],
// [ErrClosed], and others of the server as *[Error]. If ctx ends the error has its
// cause.
//
// Without an error the lease is held. With one nothing is left of the request: a
// try whose outcome is unknown, as when ctx ends, is followed up in the background,
// where the request is asked for again under its id and what it got is given back.
// If no server can be reached for 5 s that is given up; a place in the queue then
// lasts 5 s at most, a grant its TTL. [Client.Close] waits for it.
//
// A lease that was waited for is confirmed by a renewal before it is returned: its
// TTL runs from the grant, and nobody here knows when that was.
func (c *Client) Acquire(ctx context.Context, name string, o AcquireOptions) (*Lease, error) {
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := c.open(ctx)
	defer cancel()
	begun := time.Now()
	for round := 0; ; round++ {
		wait := o.stretch(ctx, begun)
		l, err := c.attempt(ctx, name, o, wait)
		again := errors.Is(err, ErrWaitTimeout) && o.Wait < 0 ||
			// A grant that was over before we had it is none. We still wait.
			(errors.Is(err, ErrLost) || errors.Is(err, ErrRequestEnded)) && o.stretch(ctx, begun) > 0
		if !again || !sleep(ctx, pause(round)) {
			return l, err
		}
	}
}

// validate refuses times that a request cannot carry. A wait that is just below 0, as
// what is left until a time that has passed, must not become one for ever.
func (o AcquireOptions) validate() error {
	for _, f := range []struct {
		name   string
		given  time.Duration
		wanted string
	}{
		{"TTL", o.TTL, "whole milliseconds, or 0 for the default"},
		{"LockDelay", o.LockDelay, "whole milliseconds, or 0 for none"},
		{"Wait", o.Wait, "whole milliseconds, 0 for none, or Forever"},
	} {
		if f.given < 0 && (f.name != "Wait" || f.given != Forever) || f.given > 0 && f.given%time.Millisecond != 0 {
			return &lease.FieldError{Field: f.name, Detail: fmt.Sprintf("is %v, it must be %s", f.given, f.wanted)}
		}
	}
	return nil
}

// stretch is for how long to ask the server to wait now, in whole milliseconds.
func (o AcquireOptions) stretch(ctx context.Context, begun time.Time) time.Duration {
	left := o.Wait
	switch {
	case o.Wait == 0:
		return 0
	case o.Wait < 0:
		left = lease.MaxWait
	case o.Wait <= lease.MaxWait: // else the server refuses it
		left -= time.Since(begun)
	}
	if end, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(end))
	}
	return max(left.Truncate(time.Millisecond), 0)
}

// attempt is one acquire, by one request id.
type attempt struct {
	client  *Client
	request wire.AcquireRequest
}

// attempt asks once. On an error it sees to it that nothing is left.
func (c *Client) attempt(ctx context.Context, name string, o AcquireOptions, wait time.Duration) (*Lease, error) {
	a := &attempt{c, wire.AcquireRequest{
		Name: name, Holder: c.holder, TTLMillis: o.ttl().Milliseconds(), RequestID: rand.Text(), Value: o.Value,
		WaitMillis: wait.Milliseconds(), LockDelayMillis: o.LockDelay.Milliseconds(), Reclaim: o.Reclaim,
	}}
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	begun := time.Now()
	g, err := a.ask(ctx)
	if err != nil {
		return nil, err
	}
	l := newLease(c, ctx, g, o.ttl(), begun)
	// The grant is no older than the request, so counting from begun is always safe.
	// It is of use only if little time has passed.
	if time.Since(begun) > o.ttl()/10 {
		err = a.confirm(ctx, l)
	}
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = cancelled(ctx)
	default:
		err = c.renewer.add(l)
	}
	if err != nil {
		l.end(err)
		c.cleanUp(func(context.Context) { _ = a.release(g) })
		return nil, err
	}
	return l, nil
}

// ask gets the grant. A request that waits ends with ctx: its connection is closed,
// and the server gives its place up. One that does not wait is answered soon, so
// it goes on without its caller, and what it gets is given back.
func (a *attempt) ask(ctx context.Context) (wire.Grant, error) {
	c := a.client
	if a.request.WaitMillis > 0 {
		g, err := c.api.acquire(ctx, a.request)
		if unsettled(err) {
			c.cleanUp(a.resolve)
		}
		if err != nil && ctx.Err() != nil {
			err = cancelled(ctx)
		}
		return g, err
	}
	type answer struct {
		grant wire.Grant
		err   error
	}
	answered := make(chan answer)
	c.cleanUp(func(background context.Context) {
		g, err := c.api.acquire(background, a.request)
		select {
		case answered <- answer{g, err}:
			if unsettled(err) {
				a.resolve(background)
			}
			return
		case <-ctx.Done():
		}
		switch {
		case err == nil:
			_ = a.release(g)
		case unsettled(err):
			a.resolve(background)
		}
	})
	select {
	case got := <-answered:
		return got.grant, got.err
	case <-ctx.Done():
		return wire.Grant{}, cancelled(ctx)
	}
}

// unsettled says of an error whether the request may have left something behind: a
// grant, or a place in the queue, which outlives a 503.
func unsettled(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Status == 0 || e.Status >= 300 && e.Status < 400 || e.Status >= 500
}

// confirm renews a grant whose deadline is not known, until it is confirmed or
// lost.
func (a *attempt) confirm(ctx context.Context, l *Lease) error {
	ctx, cancel := context.WithTimeout(ctx, a.client.api.timeout)
	defer cancel()
	for round := 0; ; round++ {
		sent := time.Now()
		err := a.renewOnce(ctx, l)
		if refusal, ok := isLoss(err); ok {
			return told(l.name, l.token, refusal)
		}
		if err == nil && time.Now().Before(deadline(sent, l.ttl)) {
			l.confirmed = sent // nobody else has the lease yet
			return nil
		}
		if !sleep(ctx, pause(round)) {
			if err == nil {
				err = silence(l.name, l.token, time.Since(sent), nil)
			}
			return err
		}
	}
}

func (a *attempt) renewOnce(ctx context.Context, l *Lease) error {
	ctx, cancel := context.WithTimeout(ctx, renewalTimeout(l.ttl))
	defer cancel()
	_, err := a.client.api.Renew(ctx, wire.RenewRequest{Name: l.name, Holder: a.request.Holder, Token: l.token})
	return err
}

// resolveTimeout bounds how long it is tried to clean up after an attempt. A server
// keeps the place of a client that may come back for as long.
const resolveTimeout = 5 * time.Second

// cleanUp does something in the background that [Client.Close] waits for.
func (c *Client) cleanUp(do func(ctx context.Context)) {
	c.background.Go(func() {
		ctx, cancel := context.WithTimeout(c.hurry, c.api.timeout+resolveTimeout)
		defer cancel()
		do(ctx)
	})
}

// resolve learns what has become of the request, and undoes it. What is seen first
// may change: a connection of the request may still be attached at the server, and
// the grant come after the refusal. So it looks twice.
func (a *attempt) resolve(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	for range 2 {
		if a.mayBeThere(ctx) && a.undo(ctx) || !sleep(ctx, resolveAgain) {
			return
		}
	}
}

// mayBeThere says whether the request may have a grant or a place in the queue. One
// that waited has lost its connections, so that it gets neither any more, and it is
// enough to look. One that did not wait may still be on its way.
func (a *attempt) mayBeThere(ctx context.Context) bool {
	if a.request.WaitMillis == 0 {
		return true
	}
	l, err := a.client.api.Lease(ctx, a.request.Name, Linearizable)
	return err != nil || l.Waiters > 0 || l.Holder == a.request.Holder && l.RequestID == a.request.RequestID
}

// undo asks for the request again, without waiting, and gives back what it gets. It
// says whether that was the end of it. If the request had not arrived yet, it has
// ended when it does. Reclaim is left out, for it would end another grant of this
// holder.
func (a *attempt) undo(ctx context.Context) bool {
	again := a.request
	again.WaitMillis, again.Reclaim = 0, false
	g, err := a.client.api.acquire(ctx, again)
	if err == nil {
		_ = a.release(g)
		return true
	}
	return !errors.Is(err, ErrHeld) && !errors.Is(err, ErrCooling) // but it has ended, or no server answers
}

// resolveAgain is longer than it takes a server to notice that a connection was
// closed, and short enough to be done within a second.
const resolveAgain = 300 * time.Millisecond

func (a *attempt) release(g wire.Grant) error {
	return a.client.giveBack(wire.ReleaseRequest{Name: g.Name, Holder: a.request.Holder, Token: g.Token}, releaseTimeout)
}

// cancelled is the error of a call whose context has ended.
func cancelled(ctx context.Context) *Error {
	cause := context.Cause(ctx)
	return &Error{Problem: wire.Problem{Code: codeCancelled, Detail: cause.Error()}, Cause: errors.Join(ctx.Err(), cause)}
}
