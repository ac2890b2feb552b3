package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"leasehold/client"
	"leasehold/fence"
	"leasehold/fence/sqlfence"
)

// resource is what the lease protects in the database.
const resource = "batch-sync"

// leaseholdWay: a lease that is renewed while the worker works, its token in every
// transaction, and a key for the API, which cannot compare tokens.
type leaseholdWay struct {
	lease   string
	ttl     time.Duration
	job     *job
	members []*member // by the id of the worker

	transport *http.Transport
}

// member is what a worker needs here.
type member struct {
	client *client.Client
	busy   sync.Mutex // while a tick is worked on
}

// newLeaseholdWay gives each worker a client, and makes sure that the cluster answers.
func newLeaseholdWay(ctx context.Context, servers []string, lease string, ttl time.Duration, job *job) (*leaseholdWay, error) {
	l := &leaseholdWay{lease: lease, ttl: ttl, job: job}
	// One transport for all saves connections; each worker is stopped in front of it.
	l.transport = &http.Transport{MaxIdleConnsPerHost: 100}
	for _, w := range job.workers {
		c, err := client.New(client.Config{
			Servers: servers, Holder: w.name,
			HTTPClient: &http.Client{Transport: stoppable{w, l.transport}},
		})
		if err != nil {
			return nil, err
		}
		l.members = append(l.members, &member{client: c})
	}
	if _, err := l.members[0].client.API().Lease(ctx, lease, client.Linearizable); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// tick tries to get the lease and, with it, pushes what is pending.
func (l *leaseholdWay) tick(ctx context.Context, w *worker) error {
	me := l.members[w.id]
	if !me.busy.TryLock() {
		return nil // the tick before is still worked on
	}
	defer me.busy.Unlock()
	lease, err := me.client.Acquire(ctx, l.lease, client.AcquireOptions{TTL: l.ttl})
	switch {
	case errors.Is(err, client.ErrHeld):
		return nil
	case errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrUnknown):
		return nil // there is another tick
	case errors.Is(err, client.ErrLost), errors.Is(err, client.ErrRequestEnded):
		return nil // the answer came so late that the lease was over
	case err != nil:
		return err
	}
	l.job.enter(w)
	defer l.job.leave()
	err = l.sync(ctx, w, lease)
	if errors.Is(err, errCrashed) {
		l.job.counts.crashed.Add(1)
		lease.Drop() // a dead process releases nothing
		return nil
	}
	if released := lease.Release(); errors.Is(released, client.ErrLost) {
		l.job.counts.lost.Add(1)
	}
	if errors.Is(err, client.ErrLost) || errors.Is(err, fence.ErrStale) {
		return nil // the successor goes on
	}
	return err
}

// sync pushes all pending batches and marks each as pushed.
//
// Push first, mark second: whoever stops in between leaves a batch that is still
// pending, so it is pushed again and not forgotten. That it is not booked again is
// up to the key, which is the same whoever pushes.
func (l *leaseholdWay) sync(ctx context.Context, w *worker, lease *client.Lease) error {
	batches, err := l.takeOver(ctx, lease)
	if err != nil {
		return l.refused(w, lease, err)
	}
	for _, batch := range batches {
		if err := lease.Err(); err != nil {
			return err
		}
		p := w.nextStep()
		if err := w.pauseAt(beforePush, p, batch); err != nil {
			return err
		}
		booking, err := l.job.push(lease.Context(), w, p, push{
			Batch: batch, Key: fmt.Sprintf("batch-%d", batch), Token: fmt.Sprint(lease.Token()),
		})
		if err != nil {
			return err
		}
		if err := w.pauseAt(beforeMark, p, batch); err != nil {
			return err
		}
		if err := l.mark(ctx, w, lease, batch, booking); err != nil {
			return l.refused(w, lease, err)
		}
		if err := w.pauseAt(afterMark, p, batch); err != nil {
			return err
		}
	}
	return nil
}

// takeOver reads the pending batches in a transaction that brings the token to the
// database first. From then on no earlier holder can mark anything, so the list is
// right and stays so.
func (l *leaseholdWay) takeOver(ctx context.Context, lease *client.Lease) (batches []int64, err error) {
	err = l.fenced(ctx, lease, func(tx *sql.Tx) error {
		batches, err = pending(ctx, tx)
		return err
	})
	return batches, err
}

func (l *leaseholdWay) mark(ctx context.Context, w *worker, lease *client.Lease, batch, booking int64) error {
	return l.fenced(ctx, lease, func(tx *sql.Tx) error {
		return mark(ctx, tx, batch, booking, w.name)
	})
}

// fenced runs a transaction that the database refuses if a later holder has been
// there. It does not run under the context of the lease: what a holder thinks of its
// lease is old when the transaction arrives, and the database knows.
func (l *leaseholdWay) fenced(ctx context.Context, lease *client.Lease, do func(*sql.Tx) error) error {
	marks := sqlfence.Fence{Dialect: l.job.store.dialect, ClusterID: lease.ClusterID()}
	return sqlfence.InTx(ctx, l.job.store.DB, nil, func(tx *sql.Tx) error {
		if err := marks.Check(ctx, tx, resource, lease.Token()); err != nil {
			return err
		}
		return do(tx)
	})
}

// refused counts the writes that the database has refused.
func (l *leaseholdWay) refused(w *worker, lease *client.Lease, err error) error {
	if errors.Is(err, fence.ErrStale) {
		l.job.counts.staleRefused.Add(1)
		w.log("%s is refused by the database: %v", w.name, err)
	}
	return err
}

func (l *leaseholdWay) close() error {
	var errs []error
	for _, m := range l.members {
		errs = append(errs, m.client.Close())
	}
	l.transport.CloseIdleConnections()
	return errors.Join(errs...)
}
