package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"leasehold/client"
)

// app is one copy of the service. At any time it is active, or it knows which copy
// is, or neither.
type app struct {
	copySettings
	url     string // of this copy, which is the value of its lease
	journal *journal
	proxy   *http.Transport
	events  *json.Encoder

	mu     sync.Mutex // guards what follows, and events
	term   *term      // nil unless this copy is active
	leader string     // URL of the active copy as far as we know, empty: none
}

// event is what a copy tells, one a line.
type event struct {
	Copy    string `json:"copy"`
	Kind    kind   `json:"kind"`
	Address string `json:"address,omitempty"`
	Token   uint64 `json:"token,omitempty"`
	Why     string `json:"why,omitempty"`
}

type kind string

const (
	listens kind = "listens" // takes requests
	leads   kind = "leads"   // is active
	failed  kind = "failed"  // could not read the journal, or not write it
	lost    kind = "lost"    // has lost the lease, or cannot campaign
	refused kind = "refused" // a write, by the fence
)

// serve is the life of a copy: it campaigns, observes and serves until ctx ends.
func (s copySettings) serve(ctx context.Context, out io.Writer) error {
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		return err
	}
	defer l.Close()
	s.address = l.Addr().String()
	if s.name == "" {
		s.name = s.address
	}
	j, err := s.openJournal(ctx)
	if err != nil {
		return err
	}
	defer j.close()
	c, err := client.New(client.Config{Servers: s.serverList()})
	if err != nil {
		return err
	}
	defer c.Close()
	a := newApp(s, j, json.NewEncoder(out))
	server := &http.Server{Handler: a.routes(), ReadHeaderTimeout: 5 * time.Second}
	var others sync.WaitGroup
	others.Go(func() { _ = server.Serve(l) }) // it ends with the shutdown
	others.Go(func() { a.observe(ctx, c) })
	a.tell(event{Kind: listens, Address: s.address})
	err = c.Elect(ctx, s.lease, client.ElectOptions{
		AcquireOptions: client.AcquireOptions{TTL: s.ttl, Value: a.url},
		OnError:        func(err error) { a.tell(event{Kind: lost, Why: err.Error()}) },
	}, a.lead)
	if ctx.Err() != nil { // it was asked to stop
		err = nil
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err = errors.Join(err, server.Shutdown(late))
	others.Wait()
	return err
}

func newApp(s copySettings, j *journal, events *json.Encoder) *app {
	return &app{
		copySettings: s, url: "http://" + s.address, journal: j, events: events,
		// A paused copy takes connections and never answers.
		proxy: &http.Transport{DialContext: (&net.Dialer{Timeout: passOnTimeout}).DialContext, ResponseHeaderTimeout: passOnTimeout, MaxIdleConnsPerHost: 64},
	}
}

// lead is one term. It returns, and so gives the lease back, when no request of the
// term is under way any more.
func (a *app) lead(ctx context.Context, l *client.Lease) error {
	t, err := newTerm(ctx, grant{l.Token(), l.ClusterID()}, a.name, a.journal)
	if err != nil {
		a.tell(event{Kind: failed, Token: l.Token(), Why: err.Error()})
		return nil // campaign again
	}
	a.setTerm(t)
	a.tell(event{Kind: leads, Token: l.Token(), Address: a.address})
	select {
	case <-ctx.Done():
	case <-t.failed:
		a.tell(event{Kind: failed, Token: l.Token(), Why: "a write failed"})
	}
	a.setTerm(nil)
	t.close()
	return nil
}

// observe keeps up with who is active. While the cluster cannot be seen the last that
// was known stays: at worst it says that it is not active.
func (a *app) observe(ctx context.Context, c *client.Client) {
	for holding, err := range c.Observe(ctx, a.lease) {
		if err != nil {
			continue
		}
		a.mu.Lock()
		a.leader = holding.Value
		a.mu.Unlock()
	}
}

func (a *app) setTerm(t *term) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.term = t
}

// now gives the term, if this copy is active, and the URL of the active copy.
func (a *app) now() (*term, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.term, a.leader
}

func (a *app) tell(e event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.Copy = a.name
	_ = a.events.Encode(e) // if nobody reads any more, we are about to end
}
