package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// newCluster starts three nodes that serve the API, and a client of all of them.
func newCluster(t *testing.T) (*clustertest.Cluster, *client.API) {
	t.Helper()
	c := clustertest.New(t, 3, clustertest.Options{Serve: func(n *cluster.Node) http.Handler {
		cfg := httpapi.DefaultConfig()
		cfg.Backend = n
		s, err := httpapi.New(cfg)
		if err != nil {
			t.Error(err)
		}
		return s
	}})
	network := c.Net.Host("client:1")
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return network.Dial(ctx, address) },
	}
	cl, err := client.NewAPI(client.Config{
		Servers:    []string{clustertest.AddressOf("n1"), clustertest.AddressOf("n2"), clustertest.AddressOf("n3")},
		HTTPClient: &http.Client{Transport: transport},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	c.Leader()
	return c, cl
}

// Clients that wait are granted in the order of the queue, each once, although
// the leader dies, or freezes, in the middle.
func TestAPI_Acquire_Wait_LeaderDies(t *testing.T) {
	for _, how := range []string{"crash", "isolate"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, cl := newCluster(t)
				first, err := cl.Acquire(t.Context(), wire.AcquireRequest{Name: "l", Holder: "first", TTLMillis: 60_000})
				if err != nil {
					t.Fatal(err)
				}
				const waiters = 30
				var mu sync.Mutex
				var order []int
				var all sync.WaitGroup
				for i := range waiters {
					all.Go(func() {
						holder := fmt.Sprint("w", i)
						g, err := cl.Acquire(t.Context(), wire.AcquireRequest{Name: "l", Holder: holder, TTLMillis: 60_000, WaitMillis: 120_000})
						if err != nil {
							t.Errorf("%s: %v", holder, err)
							return
						}
						mu.Lock()
						order = append(order, i)
						half := len(order) == waiters/2
						mu.Unlock()
						if half {
							leader := c.Leader().ID()
							if how == "crash" {
								c.Crash(leader)
							} else {
								c.Isolate(leader)
								c.Net.Cut("client:1", clustertest.AddressOf(leader))
								c.Net.Cut(clustertest.AddressOf(leader), "client:1")
							}
						}
						if _, err := cl.Release(t.Context(), wire.ReleaseRequest{Name: "l", Holder: holder, Token: g.Token}); err != nil {
							t.Errorf("%s releases: %v", holder, err)
						}
					})
					time.Sleep(10 * time.Millisecond)
				}
				if _, err := cl.Release(t.Context(), wire.ReleaseRequest{Name: "l", Holder: "first", Token: first.Token}); err != nil {
					t.Fatal(err)
				}
				all.Wait()
				if len(order) != waiters || !slices.IsSorted(order) {
					t.Errorf("granted in the order %v", order)
				}
			})
		})
	}
}

// A wait that is over is an error of its own, and the place is given up.
func TestAPI_Acquire_Wait_Timeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cl := newCluster(t)
		if _, err := cl.Acquire(t.Context(), wire.AcquireRequest{Name: "l", Holder: "a", TTLMillis: 60_000, LockDelayMillis: 5000}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, err := cl.Acquire(t.Context(), wire.AcquireRequest{Name: "l", Holder: "b", TTLMillis: 60_000, WaitMillis: 30_000})
		if took := time.Since(begun); !errors.Is(err, client.ErrWaitTimeout) || took < 30*time.Second || took > 31*time.Second {
			t.Errorf("got %v after %v", err, took)
		}
		if l, err := cl.Lease(t.Context(), "l", client.Linearizable); err != nil || l.Waiters != 0 || l.Holder != "a" {
			t.Errorf("then the lease is %+v, %v", l, err)
		}
		time.Sleep(31 * time.Second)
		if _, err := cl.Acquire(t.Context(), wire.AcquireRequest{Name: "l", Holder: "b", TTLMillis: 60_000}); !errors.Is(err, lease.ErrCooling) {
			t.Errorf("after the expiry: got %v, want that it is cooling", err)
		}
	})
}

// A caller that stops waiting leaves the queue.
func TestAPI_Acquire_Wait_Cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cl := newCluster(t)
		if _, err := cl.Acquire(t.Context(), wire.AcquireRequest{Name: "l", Holder: "a", TTLMillis: 60_000}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := cl.Acquire(ctx, wire.AcquireRequest{Name: "l", Holder: "b", TTLMillis: 60_000, WaitMillis: 30_000}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(20 * time.Millisecond)
		if l, err := cl.Lease(t.Context(), "l", client.Linearizable); err != nil || l.Waiters != 0 {
			t.Errorf("then the lease is %+v, %v", l, err)
		}
	})
}

// Each try asks to wait for what is left of the wait, and one that is out of
// bounds goes to the server as it is.
func TestAPI_Acquire_Wait_Left(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []int64
		network := clustertest.Prepare(t, 1, clustertest.Options{}).Net.Host("n1:8000")
		l, err := network.Listen("n1:8000")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/livez" {
				return // the client looks whether this server lives
			}
			var a wire.AcquireRequest
			body, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(body, &a); err != nil {
				t.Error(err)
			}
			waits = append(waits, a.WaitMillis)
			if len(waits) < 3 {
				time.Sleep(2 * time.Second)
				w.WriteHeader(503)
				fmt.Fprint(w, `{"status":503,"code":"no_leader"}`)
				return
			}
			fmt.Fprint(w, `{"name":"l","token":7}`)
		})}
		go server.Serve(l)
		defer server.Close()
		transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return network.Dial(ctx, address) }}
		defer transport.CloseIdleConnections()
		cl, err := client.NewAPI(client.Config{Servers: []string{"n1:8000"}, HTTPClient: &http.Client{Transport: transport}})
		if err != nil {
			t.Fatal(err)
		}
		ask := wire.AcquireRequest{Name: "l", Holder: "a", TTLMillis: 1000, WaitMillis: 3000}
		if g, err := cl.Acquire(t.Context(), ask); err != nil || g.Token != 7 {
			t.Fatalf("got %+v, %v", g, err)
		}
		if len(waits) != 3 || waits[0] != 3000 || waits[1] > 1000 || waits[1] < 900 || waits[2] != 0 {
			t.Errorf("the server was asked to wait %v ms", waits)
		}
		ask.WaitMillis = 600_001
		if _, err := cl.Acquire(t.Context(), ask); err != nil || waits[3] != 600_001 {
			t.Errorf("out of bounds: %v ms, %v", waits[3], err)
		}
	})
}

// A server that falls silent while a request waits there is given up for another.
func TestAPI_Acquire_Wait_SilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, cl := newCluster(t)
		a, err := cl.Acquire(t.Context(), wire.AcquireRequest{Name: "l", Holder: "a", TTLMillis: 600_000})
		if err != nil {
			t.Fatal(err)
		}
		leader := c.Leader().ID()
		begun := time.Now()
		var b sync.WaitGroup
		b.Go(func() {
			g, err := cl.Acquire(t.Context(), wire.AcquireRequest{Name: "l", Holder: "b", TTLMillis: 60_000, WaitMillis: 600_000})
			if err != nil || g.Holder != "b" {
				t.Errorf("b got %+v, %v", g, err)
			}
		})
		time.Sleep(time.Second)
		c.Isolate(leader) // it can say so to nobody
		c.Net.Cut(clustertest.AddressOf(leader), "client:1")
		n := c.Leader(slices.DeleteFunc([]string{"n1", "n2", "n3"}, func(id string) bool { return id == leader })...)
		time.Sleep(time.Second)
		if _, err := n.Release(t.Context(), lease.Release{Name: "l", Holder: "a", Token: a.Token}); err != nil {
			t.Fatal(err)
		}
		b.Wait()
		if took := time.Since(begun); took > 12*time.Second {
			t.Errorf("granted after %v", took)
		}
	})
}
