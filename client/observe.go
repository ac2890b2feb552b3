package client

import (
	"context"
	"errors"
	"iter"

	"leasehold/httpapi/wire"
)

// Holding is who has a lease, from Index of the log on. Nobody has it if Token is 0.
type Holding struct {
	Name      string
	Holder    string
	Token     uint64
	Value     string
	ClusterID string
	Index     uint64
}

// Vacant says that nobody has the lease.
func (h Holding) Vacant() bool { return h.Token == 0 }

// same: a reader would see no difference.
func (h Holding) same(other Holding) bool {
	return h.Token == other.Token && h.Holder == other.Holder && h.Value == other.Value && h.ClusterID == other.ClusterID
}

// Observe gives who has a lease and with which value, first as it is and then
// whenever it changes, vacancies included, until ctx ends or the loop over it does.
// A grant that was over before its value could be read is passed over.
//
// What it gives was true at the index, and may not be any more. To know the holder
// is no right to act for it.
//
// An error says that the cluster cannot be seen just now, and is not the end: unless
// the loop ends, Observe goes on. Only after a request that no server will ever take,
// and when ctx ends, it is the last pair.
func (c *Client) Observe(ctx context.Context, name string) iter.Seq2[Holding, error] {
	return func(yield func(Holding, error) bool) {
		ctx, cancel := c.open(ctx)
		defer cancel()
		o := &observer{client: c, name: name, yield: yield}
		for round := 0; ; round++ {
			before := o.given
			err := o.follow(ctx)
			switch {
			case o.ended:
				return
			case ctx.Err() != nil:
				yield(Holding{}, cancelled(ctx))
				return
			case errors.Is(err, ErrCompacted): // it has fallen behind, and reads afresh
			case !yield(Holding{}, err) || !worthRepeating(err):
				return
			}
			if o.given > before {
				round = 0
			}
			sleep(ctx, pause(round))
		}
	}
}

// observer is one run of an Observe.
type observer struct {
	client *Client
	name   string
	yield  func(Holding, error) bool

	last  Holding
	given int  // holdings
	ended bool // by the loop over it
}

// follow reads the lease and then watches it, until there is an error.
func (o *observer) follow(ctx context.Context) error {
	now, err := o.read(ctx)
	if err != nil {
		return err
	}
	if o.give(now); o.ended {
		return nil
	}
	var entry change
	for ev, err := range o.client.Watch(ctx, WatchOptions{Prefix: o.name, Since: &now.Index}) {
		if err != nil {
			return err
		}
		if ev.Name == o.name {
			entry.note(ev)
		}
		if ev.More {
			continue
		}
		if err := o.take(ctx, entry, ev.Index); err != nil || o.ended {
			return err
		}
		entry = change{}
	}
	return nil
}

// change is what one entry of the log has done to a lease.
type change struct {
	ended bool   // a grant, and made none
	token uint64 // of the grant that it made or renewed; 0: neither
}

func (c *change) note(ev wire.Event) {
	switch ev.Kind {
	case "granted", "renewed": // a renewal may have changed the value
		*c = change{token: ev.Token}
	case "released", "expired", "revoked", "reclaimed":
		*c = change{ended: true}
	}
}

// take gives what an entry has changed. Events do not have the value, so it is
// read; if the lease has moved on by then there will be an event that says so.
func (o *observer) take(ctx context.Context, entry change, index uint64) error {
	switch {
	case entry.ended:
		o.give(Holding{Name: o.name, ClusterID: o.last.ClusterID, Index: index})
	case entry.token != 0:
		now, err := o.read(ctx)
		if err != nil {
			return err
		}
		if now.Token == entry.token {
			o.give(now)
		}
	}
	return nil
}

func (o *observer) read(ctx context.Context) (Holding, error) {
	l, err := o.client.api.Lease(ctx, o.name, Linearizable)
	if err != nil {
		return Holding{}, err
	}
	return Holding{Name: o.name, Holder: l.Holder, Token: l.Token, Value: l.Value, ClusterID: l.ClusterID, Index: l.Index}, nil
}

// give gives what differs from what was given last.
func (o *observer) give(h Holding) {
	if o.given > 0 && h.same(o.last) {
		return
	}
	o.last = h
	o.given++
	o.ended = !o.yield(h, nil)
}
