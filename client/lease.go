package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"leasehold/httpapi/wire"
)

const (
	// releaseTimeout bounds a release. After it the lease ends by its TTL.
	releaseTimeout = 5 * time.Second
	// lostTimeout is the same for a lease that was lost by silence: the server will end
	// it soon, if it has not.
	lostTimeout = time.Second
)

// Lease is a grant that this process has, renewed by its [Client] until it is
// released or lost. It may be used by any number of goroutines at once.
//
// A process can be paused at any point, also between a look at State and the next
// statement, for longer than the TTL. So what the lease protects must compare
// tokens; nothing else is safe. What a Lease does is to notice first of all, when
// the process goes on, that the deadline has passed: Err, State, Write, SetValue and
// Err of the Context look at the monotonic clock when they are called. Their
// answer may be old by the next statement.
type Lease struct {
	client    *Client
	name      string
	token     uint64
	clusterID string
	ttl       time.Duration
	ctx       context.Context
	cancel    context.CancelCauseFunc

	mu        sync.Mutex // guards what follows
	value     string
	confirmed time.Time // when the latest request that was confirmed was sent
	failed    error     // of the latest try to renew, nil if it was confirmed
	over      error     // why the lease is over, nil as long as it is not

	releasing sync.Once
	released  error // what Release gives

	plan plan // guarded by the renewer's mutex
}

func newLease(c *Client, values context.Context, g wire.Grant, ttl time.Duration, sent time.Time) *Lease {
	l := &Lease{
		client: c, name: g.Name, token: g.Token, clusterID: g.ClusterID, ttl: ttl,
		value: g.Value, confirmed: sent, plan: plan{place: -1},
	}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(values))
	return l
}

// Name of the lease.
func (l *Lease) Name() string { return l.name }

// Holder is what the client that has the lease calls itself.
func (l *Lease) Holder() string { return l.client.holder }

// Token is the fencing token of the grant. Give it to whatever the lease
// protects. It does not change; tokens of later grants are higher.
func (l *Lease) Token() uint64 { return l.token }

// ClusterID names the cluster within which tokens can be compared.
func (l *Lease) ClusterID() string { return l.clusterID }

// TTL is how long the grant lasts without renewal.
func (l *Lease) TTL() time.Duration { return l.ttl }

// Value is what is published with the lease, as far as this process has set it.
func (l *Lease) Value() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value
}

// Deadline is when the lease is lost unless a renewal is confirmed before. Each
// confirmed renewal moves it. It is before the time at which the server could grant
// the lease to another because it has expired.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return deadline(l.confirmed, l.ttl)
}

// State of the lease at this moment.
func (l *Lease) State() State {
	switch err := l.Err(); {
	case errors.Is(err, ErrReleased):
		return Released
	case err != nil:
		return Lost
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !time.Now().Before(overdue(l.confirmed, l.ttl)) {
		return Uncertain
	}
	return Held
}

// Err is nil as long as the lease is held, then a *[LostError], or [ErrReleased].
func (l *Lease) Err() error {
	l.mu.Lock()
	late := l.over == nil && !time.Now().Before(deadline(l.confirmed, l.ttl))
	l.mu.Unlock()
	if late {
		l.expire()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// Done is closed when the lease is lost or released.
func (l *Lease) Done() <-chan struct{} { return l.ctx.Done() }

// Context ends when the lease is lost or released, with what Err then says as its
// cause. It ends before the server could grant the lease to another by expiry. It
// has the values of the context that Acquire was called with, but neither its end
// nor its deadline.
func (l *Lease) Context() context.Context { return leaseContext{l.ctx, l} }

// leaseContext looks at the clock when it is asked. Its timer may be late, above
// all after a pause.
type leaseContext struct {
	context.Context
	lease *Lease
}

func (c leaseContext) Err() error {
	_ = c.lease.Err()
	return c.Context.Err()
}

// SetValue publishes another value with the lease, at most 4 KiB, and renews it by
// that. Errors: a *[LostError]; [ErrUnknown] if the value may or may not have been
// set; [ErrUnavailable] if it was not.
func (l *Lease) SetValue(ctx context.Context, value string) error {
	if err := l.Err(); err != nil {
		return err
	}
	sent := time.Now()
	_, err := l.client.api.Renew(ctx, wire.RenewRequest{Name: l.name, Holder: l.Holder(), Token: l.token, Value: &value})
	if err := l.heard(sent, err); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value = value
	return nil
}

// Write writes a value to a register, at most 4 KiB. It is accepted only while the
// token is the live one of the lease and no higher one has been seen. Errors: a
// *[LostError]; [ErrStaleToken]; [ErrUnknown], after which the register must be
// read to learn whether the write took effect, see [API.PutRegister].
func (l *Lease) Write(ctx context.Context, register, value string) (wire.Write, error) {
	if err := l.Err(); err != nil {
		return wire.Write{}, err
	}
	written, err := l.client.api.PutRegister(ctx, register, wire.WriteRequest{Value: value, Token: l.token, Lease: l.name})
	if refused, ok := errors.AsType[*Error](err); ok && errors.Is(err, ErrStaleToken) && refused.How != "" {
		l.end(told(l.name, l.token, refused)) // it was the guard that refused
	}
	return written, err
}

// Release gives the lease back, after everything that it protects has come to its
// end. It first ends the Context and the renewals. It takes no context, since that
// of the caller has often ended by then, and takes at most 5 s. If it fails with
// [ErrUnavailable] or [ErrUnknown] the lease ends by its TTL.
//
// A lease that is lost is given back too if the server may still count it as ours,
// so that others get it sooner; the error is that of the loss. To release again
// does nothing and gives the same.
func (l *Lease) Release() error {
	l.releasing.Do(func() { l.released = l.release() })
	return l.released
}

func (l *Lease) release() error {
	before := l.Err()
	l.end(ErrReleased)
	if lost, ok := errors.AsType[*LostError](before); ok && lost.How != "" {
		return before
	}
	timeout := releaseTimeout
	if before != nil {
		timeout = lostTimeout
	}
	err := l.client.giveBack(wire.ReleaseRequest{Name: l.name, Holder: l.Holder(), Token: l.token}, timeout)
	if refusal, ok := isLoss(err); ok {
		err = told(l.name, l.token, refusal)
	}
	if before != nil {
		return before
	}
	return err
}

// Drop ends the lease in this process, as Release does, and tells no server: it
// ends by its TTL. It is for when something that the lease protects cannot be
// brought to its end. Release does nothing after it.
func (l *Lease) Drop() {
	l.releasing.Do(func() {
		l.end(ErrReleased)
		l.released = l.Err()
	})
}

// heard takes in the answer to a renewal that was sent at sent. It gives the
// error that its caller should see.
func (l *Lease) heard(sent time.Time, err error) error {
	if refusal, ok := isLoss(err); ok {
		l.end(told(l.name, l.token, refusal))
		return l.Err()
	}
	l.mu.Lock()
	l.failed = err
	// A confirmation proves that the grant has not ended up to now, however late it
	// comes. But what was said to be lost stays so.
	if err == nil && l.over == nil && sent.After(l.confirmed) {
		l.confirmed = sent
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.Err()
}

// isLoss: the server says that the grant is over, or was never ours.
func isLoss(err error) (*Error, bool) {
	refusal, ok := errors.AsType[*Error](err)
	return refusal, ok && (errors.Is(err, ErrLost) || errors.Is(err, ErrNotHolder))
}

// expire ends a lease whose deadline has passed.
func (l *Lease) expire() {
	l.mu.Lock()
	ago, failed := time.Since(l.confirmed), l.failed
	l.mu.Unlock()
	l.end(silence(l.name, l.token, ago, failed))
}

// end ends the lease, unless it is over.
func (l *Lease) end(why error) {
	l.mu.Lock()
	first := l.over == nil
	if first {
		l.over = why
	}
	l.mu.Unlock()
	if first {
		l.cancel(why)
		l.client.renewer.drop(l)
	}
}
