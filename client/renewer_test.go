package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// While one endpoint works the lease is never lost, whatever the others do, and
// it is never held without the server having it.
func TestClient_Renew_OneEndpointWorks(t *testing.T) {
	for name, bad := range map[string]func(*grants) endpoint{"hangs": hangs, "drops answers": deaf, "resets": resets, "fails": fails} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGrants()
				c := holding(t, map[string]endpoint{"a:1": bad(g), "b:2": bad(g), "c:3": g.RoundTrip}, "a:1", "b:2", "c:3")
				for _, ttl := range []time.Duration{time.Second, 10 * time.Second} {
					l, err := c.Acquire(t.Context(), "x", AcquireOptions{TTL: ttl})
					if err != nil {
						t.Fatal(err)
					}
					for range 400 {
						time.Sleep(ttl / 20)
						if err := l.Err(); err != nil {
							t.Fatalf("TTL %v: %v", ttl, err)
						}
						if time.Now().After(g.until("x")) {
							t.Fatalf("TTL %v: the server has let it run out", ttl)
						}
					}
					if err := l.Release(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// One renewal that takes half the TTL, on its way there or back, loses nothing.
func TestClient_Renew_DelayedByHalfTheTTL(t *testing.T) {
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGrants()
			const ttl = 3 * time.Second
			var n atomic.Int64
			slow := func(r *http.Request) (*http.Response, error) {
				if r.URL.Path != "/v1/renew" {
					return g.RoundTrip(r)
				}
				if n.Add(1)%5 != 2 {
					return g.RoundTrip(r)
				}
				if back {
					resp, err := g.RoundTrip(r)
					time.Sleep(ttl / 2)
					return resp, err
				}
				time.Sleep(ttl / 2)
				return g.RoundTrip(r)
			}
			c := holding(t, map[string]endpoint{"a:1": slow}, "a:1")
			l, err := c.Acquire(t.Context(), "x", AcquireOptions{TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if l.Err() != nil || n.Load() < 20 { // it may be uncertain just now
				t.Errorf("after a minute and %d renewals: %v", n.Load(), l.Err())
			}
			if err := l.Release(); err != nil {
				t.Error(err)
			}
			time.Sleep(ttl) // the last slow one ends
		})
	}
}

// With all endpoints dead, each in its way, the lease goes from held to uncertain to
// lost, and that before the server could grant it again. Nothing runs afterwards.
func TestClient_Renew_AllEndpointsDead(t *testing.T) {
	bads := []func(*grants) endpoint{hangs, resets, fails, func(*grants) endpoint { return refuse }}
	for round := range 200 {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(3, uint64(round)))
			g := newGrants()
			var mu sync.Mutex
			dead := make(map[string]endpoint)
			serve := func(name string) endpoint {
				return func(r *http.Request) (*http.Response, error) {
					mu.Lock()
					bad := dead[name]
					mu.Unlock()
					if bad != nil {
						return bad(r)
					}
					return g.RoundTrip(r)
				}
			}
			c := holding(t, map[string]endpoint{"a:1": serve("a"), "b:2": serve("b"), "c:3": serve("c")}, "a:1", "b:2", "c:3")
			ttl := time.Duration(100+random.IntN(10_000)) * time.Millisecond
			l, err := c.Acquire(t.Context(), "x", AcquireOptions{TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(random.Int64N(int64(5 * ttl))))
			mu.Lock()
			for _, name := range []string{"a", "b", "c"} {
				dead[name] = bads[random.IntN(len(bads))](g)
			}
			mu.Unlock()
			seen := map[State]bool{}
			for l.State() != Lost {
				seen[l.State()] = true
				select {
				case <-l.Done():
				case <-time.After(ttl / 50):
				}
			}
			<-l.Done()
			until := time.Until(g.until("x"))
			if until <= 0 || until > ttl*3/4 {
				t.Errorf("TTL %v: lost %v before the server could grant it again", ttl, until)
			}
			var lost *LostError
			if !errors.Is(l.Err(), ErrLost) || !errors.As(context.Cause(l.Context()), &lost) || lost.Name != "x" {
				t.Errorf("error %v", l.Err())
			}
			if !seen[Held] || !seen[Uncertain] {
				t.Errorf("it was only %v", seen)
			}
		})
	}
}

// What the server says counts at once: a revoked lease is lost with the next
// renewal.
func TestClient_Renew_Revoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		c := holding(t, map[string]endpoint{"a:1": g.RoundTrip}, "a:1")
		l, err := c.Acquire(t.Context(), "x", AcquireOptions{TTL: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		g.revoke("x")
		<-l.Done()
		var lost *LostError
		if !errors.As(l.Err(), &lost) || lost.How != "expired" || lost.Index != 99 || time.Since(begun) > time.Second {
			t.Errorf("after %v: %v", time.Since(begun), l.Err())
		}
		if err := l.Release(); !errors.Is(err, ErrLost) || g.count("/v1/release") != 0 {
			t.Errorf("release: %v", err)
		}
	})
}

// A process that was paused notices the loss before it does anything else, also
// when no timer has fired yet.
func TestLease_Err_LooksAtTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		c := holding(t, map[string]endpoint{"a:1": g.RoundTrip}, "a:1")
		l := newLease(c, t.Context(), granted{}.Grant, time.Second, time.Now()) // nobody renews it and no timer runs
		if l.State() != Held {
			t.Error(l.State())
		}
		time.Sleep(600 * time.Millisecond)
		if l.State() != Uncertain || l.Err() != nil {
			t.Error(l.State())
		}
		time.Sleep(400*time.Millisecond - margin(time.Second))
		if err := l.Context().Err(); err == nil {
			t.Error("its context has not ended")
		}
		if _, err := l.Write(t.Context(), "r", "v"); !errors.Is(err, ErrLost) || g.count("/v1/registers/r") != 0 {
			t.Errorf("write: %v", err)
		}
		if l.State() != Lost {
			t.Error(l.State())
		}
	})
}

// Many leases go out together, spread over time, by few requests; those of a client
// whose servers do not know that call go out one by one.
func TestClient_Renew_Many(t *testing.T) {
	for _, old := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGrants()
			g.old = old
			c := holding(t, map[string]endpoint{"a:1": g.RoundTrip}, "a:1")
			const n, ttl = 500, 10 * time.Second
			var leases []*Lease
			for i := range n {
				// Long names, so that it is the size of the body that bounds a batch.
				l, err := c.Acquire(t.Context(), fmt.Sprintf("jobs/%0200d", i), AcquireOptions{TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
				leases = append(leases, l)
			}
			time.Sleep(time.Minute)
			for _, l := range leases {
				if l.State() != Held {
					t.Fatalf("%s: %v", l.Name(), l.Err())
				}
			}
			g.mu.Lock()
			renewals, batches, singles := g.renewals, len(g.batches), g.calls["/v1/renew"]
			g.mu.Unlock()
			// 6 TTLs have 18 thirds; a renewal may come a fifth of a third early, and
			// another fifth when others go.
			if renewals < 18*n || renewals > 32*n {
				t.Errorf("%d renewals a lease", renewals/n)
			}
			if !old && (renewals/batches < 20 || singles > n) || old && singles != renewals {
				t.Errorf("old %v: %d renewals by %d batches and %d single ones", old, renewals, batches, singles)
			}
			t.Logf("old %v: %d renewals by %d batches and %d single ones", old, renewals, batches, singles)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if len(g.held) != 0 {
				t.Errorf("%d leases are held after Close", len(g.held))
			}
		})
	}
}

// A batch that is stuck delays the other leases not at all.
func TestClient_Renew_StuckBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		var n atomic.Int64
		c := holding(t, map[string]endpoint{"a:1": func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/v1/renew-many" {
				if n.Add(1)%3 == 0 {
					return hang(r)
				}
			}
			return g.RoundTrip(r)
		}}, "a:1")
		var leases []*Lease
		for i := range 1000 {
			ttl := time.Duration(1+i%5) * 3 * time.Second
			l, err := c.Acquire(t.Context(), fmt.Sprint("jobs/", i), AcquireOptions{TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
			time.Sleep(time.Millisecond)
		}
		lost := 0
		for range 100 {
			time.Sleep(time.Second)
			for _, l := range leases {
				if l.State() == Lost {
					lost++
				}
			}
		}
		// Three stuck ones in a row are a loss, and every third is stuck.
		if lost > 0 || n.Load() < 100 {
			t.Errorf("%d were seen lost, %d batches", lost, n.Load())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
