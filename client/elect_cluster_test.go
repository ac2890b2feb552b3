package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/client"
	"leasehold/httpapi/wire"
)

// Three campaign for one lease while leaders of the cluster die and leases are
// revoked. No two lead at once, except for a moment after a revoke; each has
// returned before the next begins by expiry; the observer sees each term.
func TestClient_Elect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, api := newCluster(t)
		ctx, stop := context.WithCancelCause(t.Context())
		var mu sync.Mutex
		leading := ""
		var terms []uint64
		var all sync.WaitGroup
		lead := func(ctx context.Context, l *client.Lease) error {
			mu.Lock()
			if leading != "" {
				t.Errorf("%s leads while %s does", l.Holder(), leading)
			}
			leading = l.Holder()
			terms = append(terms, l.Token())
			mu.Unlock()
			if err := l.SetValue(ctx, "at "+l.Holder()); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Second): // steps down
			}
			mu.Lock()
			leading = ""
			mu.Unlock()
			return nil
		}
		for i := range 3 {
			cl := holder(t, c, fmt.Sprint("h", i))
			all.Go(func() {
				err := cl.Elect(ctx, "jobs/x", client.ElectOptions{AcquireOptions: client.AcquireOptions{TTL: 5 * time.Second}}, lead)
				if !errors.Is(err, errStopped) {
					t.Errorf("it ended: %v", err)
				}
			})
		}
		watcher := holder(t, c, "watcher")
		var seen []client.Holding
		all.Go(func() {
			for h, err := range watcher.Observe(ctx, "jobs/x") {
				if err != nil {
					if ctx.Err() == nil {
						t.Logf("observe: %v", err)
					}
					continue
				}
				seen = append(seen, h)
			}
		})
		time.Sleep(10 * time.Second)
		leader := c.Leader().ID()
		c.Crash(leader)
		time.Sleep(10 * time.Second)
		c.Start(leader)
		time.Sleep(5 * time.Second)
		now, err := api.Lease(t.Context(), "jobs/x", "")
		if err != nil || now.Token == 0 {
			t.Fatal(now, err)
		}
		stop(errStopped)
		all.Wait()
		time.Sleep(time.Second) // what the others may have got meanwhile is given back
		if now, err = api.Lease(t.Context(), "jobs/x", ""); err != nil || now.State != "free" || now.Waiters != 0 {
			t.Errorf("then the lease is %+v, %v", now, err)
		}
		if len(terms) < 5 || !slices.IsSorted(terms) {
			t.Errorf("terms %v", terms)
		}
		held := make(map[uint64]string)
		for i, h := range seen {
			if i > 0 && (h.Index < seen[i-1].Index) {
				t.Errorf("it was seen at %d after %d", h.Index, seen[i-1].Index)
			}
			if !h.Vacant() {
				held[h.Token] = h.Value
			}
		}
		for _, token := range terms[:len(terms)-1] {
			if held[token] == "" {
				t.Errorf("the term of token %d was not seen with its value: %v", token, held)
			}
		}
	})
}

// An observer sees vacancies, new values and how a lease is freed, each once.
func TestClient_Observe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, api := newCluster(t)
		ctx, stop := context.WithCancel(t.Context())
		cl := holder(t, c, "a")
		var seen []string
		var all sync.WaitGroup
		all.Go(func() {
			for h, err := range holder(t, c, "watcher").Observe(ctx, "x") {
				if err == nil {
					seen = append(seen, h.Holder+" "+h.Value)
				}
			}
		})
		pause := func() { time.Sleep(100 * time.Millisecond) }
		pause()
		l, err := cl.Acquire(t.Context(), "x", client.AcquireOptions{TTL: time.Second, Value: "v1"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // it is renewed, and nothing changes
		if err := l.SetValue(t.Context(), "v2"); err != nil {
			t.Fatal(err)
		}
		pause()
		l.Release()
		pause()
		// One that is never renewed runs out.
		for _, delay := range []int64{0, 500} {
			g, err := api.Acquire(t.Context(), wire.AcquireRequest{Name: "x", Holder: "b", TTLMillis: 300, Value: "v3", LockDelayMillis: delay})
			if err != nil {
				t.Fatal(err)
			}
			if delay > 0 {
				pause()
				if _, err := api.Revoke(t.Context(), wire.RevokeRequest{Name: "x", Token: g.Token, Reason: "test"}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		// Another lease is none of its business.
		if _, err := cl.Acquire(t.Context(), "xy", client.AcquireOptions{}); err != nil {
			t.Fatal(err)
		}
		pause()
		stop()
		all.Wait()
		want := []string{" ", "a v1", "a v2", " ", "b v3", " ", "b v3", " "}
		if !slices.Equal(seen, want) {
			t.Errorf("seen %q, want %q", seen, want)
		}
	})
}

// The error of lead ends the campaign, after the release; so does one that the
// server will never accept. A loss does not.
func TestClient_Elect_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, api := newCluster(t)
		cl := holder(t, c, "a")
		boom := errors.New("boom")
		var told []error
		o := client.ElectOptions{OnError: func(err error) { told = append(told, err) }}
		n := 0
		err := cl.Elect(t.Context(), "x", o, func(ctx context.Context, l *client.Lease) error {
			if n++; n == 1 {
				if _, err := api.Revoke(ctx, wire.RevokeRequest{Name: "x", Token: l.Token(), Reason: "test"}); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), client.ErrLost) {
					t.Error(context.Cause(ctx))
				}
			}
			return boom
		})
		if err != boom || n != 2 || len(told) != 1 || !errors.Is(told[0], client.ErrLost) {
			t.Errorf("%v after %d terms, %v", err, n, told)
		}
		if l, _ := api.Lease(t.Context(), "x", ""); l.State != "free" || l.Last.How != "released" {
			t.Errorf("then the lease is %+v", l)
		}
		var problem *client.Error
		never := func(context.Context, *client.Lease) error {
			t.Error("it leads")
			return nil
		}
		o.TTL = time.Millisecond
		if err := cl.Elect(t.Context(), "x", o, never); !errors.As(err, &problem) || problem.Code != "invalid_argument" {
			t.Error(err)
		}
		cl.Close()
		if err := cl.Elect(t.Context(), "x", client.ElectOptions{}, never); !errors.Is(err, client.ErrClosed) {
			t.Error(err)
		}
	})
}
