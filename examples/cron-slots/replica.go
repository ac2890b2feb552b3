package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"leasehold/client"
	"leasehold/fence"
)

// finishTimeout bounds the writing of a result.
const finishTimeout = 10 * time.Second

// leaseName is the lease of a job, and the resource whose mark fences it.
func leaseName(job string) string { return "cron/" + job }

// replica runs the job whenever it holds the lease.
type replica struct {
	settings
	records *records
	events  *json.Encoder
}

// event is what a replica tells, one a line.
type event struct {
	Replica string `json:"replica"`
	Kind    kind   `json:"kind"`
	Token   uint64 `json:"token"`
	Slot    string `json:"slot,omitempty"`
	Why     string `json:"why,omitempty"`
}

type kind string

const (
	leads   kind = "leads"   // has the lease
	begins  kind = "begins"  // has recorded its attempt and runs the job
	done    kind = "done"    // the result is recorded
	refused kind = "refused" // the fence has refused a write
	lost    kind = "lost"    // has lost the lease, or cannot campaign
	allDone kind = "alldone" // the last slot of the schedule has its result
)

// replicate is the life of a replica: it campaigns until ctx ends.
func (s settings) replicate(ctx context.Context, out io.Writer) error {
	records, err := s.openRecords()
	if err != nil {
		return err
	}
	defer records.close()
	if err := records.create(ctx); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	c, err := client.New(client.Config{Servers: s.serverList(), Holder: client.NewHolder()})
	if err != nil {
		return err
	}
	defer c.Close()
	r := &replica{settings: s, records: records, events: json.NewEncoder(out)}
	err = c.Elect(ctx, leaseName(s.job), client.ElectOptions{
		AcquireOptions: client.AcquireOptions{TTL: s.ttl, Value: s.name},
		OnError:        func(err error) { r.tell(event{Kind: lost, Why: err.Error()}) },
	}, r.lead)
	if ctx.Err() != nil { // it was asked to stop
		return nil
	}
	return err
}

// lead is one period of holding the lease. With nil there is another campaign.
func (r *replica) lead(ctx context.Context, l *client.Lease) error {
	r.tell(event{Kind: leads, Token: l.Token()})
	at, err := r.workThrough(ctx, l)
	switch {
	case errors.Is(err, fence.ErrStale):
		r.tell(event{Kind: refused, Token: l.Token(), Slot: at.String(), Why: err.Error()})
	case err != nil && ctx.Err() == nil: // such as a database that is away for a while
		fmt.Fprintf(os.Stderr, "%s: slot %v: %v\n", r.name, at, err)
	}
	return nil
}

// workThrough does the slots in order, those that were missed first. Where to go on
// is in the records: they know what was finished, the lease does not. It gives the
// slot that it has come to.
func (r *replica) workThrough(ctx context.Context, l *client.Lease) (slot, error) {
	latest, err := r.records.takeOver(ctx, grant{l.Token(), l.ClusterID()})
	if err != nil {
		return slot{}, err
	}
	next, more := r.schedule.after(latest)
	for ; more && next.wait(ctx); next, more = r.schedule.after(next) {
		if err := r.run(ctx, l, next); err != nil {
			return next, err
		}
	}
	if !more {
		r.tell(event{Kind: allDone, Token: l.Token()})
		<-ctx.Done()
	}
	return next, nil
}

// run does one slot. Once it runs, the job goes to its end, also if the lease is lost
// or we are asked to stop: whether its result counts is for the fence to say. If
// nobody else has begun meanwhile, the work was not in vain.
func (r *replica) run(ctx context.Context, l *client.Lease, s slot) error {
	g := grant{l.Token(), l.ClusterID()}
	if err := r.records.begin(ctx, g, s, r.name); err != nil {
		return err
	}
	r.tell(event{Kind: begins, Token: l.Token(), Slot: s.String()})
	value := r.compute(s)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if err := r.records.finish(ctx, g, s, r.name, value); err != nil {
		return err
	}
	r.tell(event{Kind: done, Token: l.Token(), Slot: s.String()})
	return nil
}

// compute is the job. Here it only takes its time.
func (r *replica) compute(s slot) string {
	time.Sleep(r.work)
	return "report of " + s.String()
}

func (r *replica) tell(e event) {
	e.Replica = r.name
	_ = r.events.Encode(e) // if nobody reads any more, we are about to end
}
