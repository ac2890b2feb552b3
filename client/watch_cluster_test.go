package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/client"
	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/httpapi"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// happened is what a test compares of an event.
type happened struct {
	Index, Token uint64
	Kind, Why    string
	More         bool
}

// logged gives the events of a log: those that an empty table yields when the log
// is applied to it.
func logged(t *testing.T, n *cluster.Node, upto uint64) (all []happened) {
	t.Helper()
	page, err := n.Log(1, 1<<30)
	if err != nil || page.First != 1 {
		t.Fatalf("the log begins at %d, %v", page.First, err)
	}
	table := new(lease.Table)
	for _, e := range page.Entries {
		if e.Command == nil || e.Index > upto {
			continue
		}
		events := table.Apply(lease.Entry{Index: e.Index, Term: e.Term, At: e.At}, e.Command).Events
		for i, ev := range events {
			all = append(all, happened{ev.Index, ev.Token, string(ev.Kind), ev.Why(), i < len(events)-1})
		}
	}
	return all
}

// A watch that begins before anything happens, and during which every node is
// killed and comes back, sees what the log says: every event, in order, once.
func TestAPI_Watch_RollingKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{Serve: func(n *cluster.Node) http.Handler {
			cfg := httpapi.DefaultConfig()
			cfg.Backend = n
			s, err := httpapi.New(cfg)
			if err != nil {
				t.Error(err)
			}
			return s
		}})
		c.Leader()
		network := c.Net.Host("client:1")
		transport := &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return network.Dial(ctx, address) },
		}
		defer transport.CloseIdleConnections()
		cl, err := client.NewAPI(client.Config{
			Servers:    []string{clustertest.AddressOf("n1"), clustertest.AddressOf("n2"), clustertest.AddressOf("n3")},
			HTTPClient: &http.Client{Transport: transport},
		})
		if err != nil {
			t.Fatal(err)
		}

		var moves int
		var seen []wire.Event
		enough, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			options := client.WatchOptions{Since: new(uint64(0)), Moved: func(string, error) { moves++ }}
			for ev, err := range cl.Watch(enough, options) {
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("the watch ended: %v", err)
					}
					return
				}
				seen = append(seen, ev)
			}
		})
		writing, stopWriting := context.WithCancel(t.Context())
		for i := range 4 {
			running.Go(func() { write(writing, cl, i) })
		}
		for _, id := range []string{"n1", "n2", "n3"} {
			time.Sleep(2 * time.Second)
			c.Crash(id)
			time.Sleep(2 * time.Second)
			c.Start(id)
			c.Leader()
		}
		time.Sleep(2 * time.Second)
		stopWriting()
		time.Sleep(time.Second) // what is under way ends
		leader := c.Leader()
		upto := leader.Applied().Index
		time.Sleep(time.Second) // and reaches the watch
		stop()
		running.Wait()

		want := logged(t, leader, upto)
		var got []happened
		for _, ev := range seen {
			if ev.Index <= upto {
				got = append(got, happened{ev.Index, ev.Token, ev.Kind, ev.Why, ev.More})
			}
		}
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("event %d of %d differs from the log's %d: %+v, want %+v", i, len(got), len(want),
					got[min(i, len(got)):min(i+1, len(got))], want[min(i, len(want)):min(i+1, len(want))])
			}
		}
		kinds := make(map[string]int)
		for _, ev := range got {
			kinds[ev.Kind]++
		}
		// Else the test has shown nothing.
		if moves == 0 || kinds["leader"] < 2 || kinds["granted"] < 50 || !slices.ContainsFunc(got, func(h happened) bool { return h.More }) {
			t.Errorf("inconclusive: %d moves, %v", moves, kinds)
		}
	})
}

// write acquires, waits for, releases and forgets a few leases until ctx ends.
func write(ctx context.Context, c *client.API, n int) {
	for i := 0; ctx.Err() == nil; i++ {
		g, err := c.Acquire(ctx, wire.AcquireRequest{
			Name: fmt.Sprintf("jobs/%d", i%2), Holder: fmt.Sprintf("h%d", n), TTLMillis: 500, WaitMillis: 1000,
		})
		if err == nil && i%4 != 0 {
			_, _ = c.Release(ctx, wire.ReleaseRequest{Name: g.Name, Holder: g.Holder, Token: g.Token})
		}
	}
}
