package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// Bounds of one renew-many: what the API takes, and a body below its 64 KiB.
const (
	maxBatch      = lease.MaxRenewals
	maxBatchBytes = 60 << 10
)

// singles is how many renewals go out at the same time to servers that do not know
// renew-many.
const singles = 32

// batch is leases that are renewed by one request.
type batch struct {
	renewer *renewer
	leases  []*Lease
	ctx     context.Context
	cancel  context.CancelFunc
	live    int // of its leases, those that are not over; guarded by the renewer's mutex
}

// batchesLocked divides leases into batches. Their names are distinct within one.
func (r *renewer) batchesLocked(due []*Lease) (all []*batch) {
	for len(due) > 0 {
		var later []*Lease
		b, bytes, names := &batch{renewer: r}, 0, make(map[string]bool)
		for i, l := range due {
			// Of the body: {"name":"…","token":18446744073709551615},
			if bytes += len(l.name) + 41; len(b.leases) == maxBatch || bytes > maxBatchBytes {
				later = append(later, due[i:]...)
				break
			}
			if names[l.name] { // a lost grant of the same lease, say
				later = append(later, l)
				continue
			}
			names[l.name] = true
			b.leases = append(b.leases, l)
		}
		ttl := b.leases[0].ttl
		for _, l := range b.leases {
			ttl = min(ttl, l.ttl)
			l.plan.batch = b
		}
		b.live = len(b.leases)
		b.ctx, b.cancel = context.WithTimeout(context.Background(), renewalTimeout(ttl))
		all, due = append(all, b), later
	}
	return all
}

func (b *batch) run() {
	defer b.cancel()
	if len(b.leases) == 1 {
		b.single(b.leases[0])
		return
	}
	sent := time.Now()
	many := wire.RenewManyRequest{Holder: b.renewer.client.holder}
	for _, l := range b.leases {
		many.Renewals = append(many.Renewals, wire.Renewal{Name: l.name, Token: l.token})
	}
	answer, err := b.renewer.client.api.RenewMany(b.ctx, many)
	switch {
	case err != nil && definite(err):
		// This server does not know the call, or something is wrong with one of the
		// renewals, for which the others should not suffer.
		inParallel(singles, b.leases, b.single)
	default:
		for i, l := range b.leases {
			each := err
			if err == nil {
				each = resultOf(answer.Results[i])
			}
			b.renewer.settled(l, b, sent, each)
		}
	}
}

// definite says that the server has refused a whole batch and will again.
func definite(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests
}

func (b *batch) single(l *Lease) {
	sent := time.Now()
	_, err := b.renewer.client.api.Renew(b.ctx, wire.RenewRequest{Name: l.name, Holder: l.Holder(), Token: l.token})
	b.renewer.settled(l, b, sent, err)
}

// resultOf gives the error of one renewal in a batch.
func resultOf(r wire.RenewResult) error {
	if r.Renewed {
		return nil
	}
	return &Error{Problem: wire.Problem{Code: r.Code, Detail: r.Detail, How: r.How, Index: r.Index, Token: r.Token}}
}
