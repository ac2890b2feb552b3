package client

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/httpapi/wire"
)

// follows answers a search as a follower does, and everything else with a redirect
// to the leader.
func follows(leader string) endpoint {
	return func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/v1/status" {
			return reply(wire.Status{Role: "follower", Term: 1, Leader: &wire.Node{Address: leader}})
		}
		resp, err := reply(wire.Problem{Status: 307, Code: "not_leader"})
		resp.Header = http.Header{"Location": {"http://" + leader + r.URL.Path + "?via=x"}}
		return resp, err
	}
}

// A paused first server costs a call a moment and not a try. A write to a register,
// which must not be sent twice, is not sent there at all.
func TestAPI_FirstServerPaused_CostsAMoment(t *testing.T) {
	calls := map[string]func(context.Context, *API) error{
		"acquire": func(ctx context.Context, api *API) error {
			a := acquireA
			a.Name = rand.Text()
			_, err := api.Acquire(ctx, a)
			return err
		},
		"acquire with a wait": func(ctx context.Context, api *API) error {
			a := acquireA
			a.Name, a.WaitMillis = rand.Text(), 60_000
			_, err := api.Acquire(ctx, a)
			return err
		},
		"read": func(ctx context.Context, api *API) error { _, err := api.Lease(ctx, "x", ""); return err },
		"stale read": func(ctx context.Context, api *API) error {
			_, err := api.Lease(ctx, "x", Stale)
			return err
		},
		"write": func(ctx context.Context, api *API) error {
			_, err := api.PutRegister(ctx, "x", wire.WriteRequest{})
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, paused := newGrants(), new(atomic.Int64)
				api := network{"a:1": func(r *http.Request) (*http.Response, error) {
					if r.URL.Path != "/v1/status" {
						paused.Add(1)
					}
					return hang(r)
				}, "b:2": follows("c:3"), "c:3": g.RoundTrip}.client(t, Config{Servers: []string{"a:1", "b:2", "c:3"}})
				begun := time.Now()
				if err := call(t.Context(), api); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > 250*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				if wrote := name == "write" && paused.Load() > 0; wrote || name != "write" && paused.Load() != 1 {
					t.Errorf("the paused server got %d requests", paused.Load())
				}
				begun = time.Now()
				if err := call(t.Context(), api); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); name != "stale read" && took > 0 {
					t.Errorf("the second one took %v", took)
				}
			})
		})
	}
}

// A leader that is paused is left for the next one as soon as there is one.
func TestAPI_LeaderPaused_WaitsForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		var elected, paused atomic.Bool
		next := func(r *http.Request) (*http.Response, error) {
			if elected.Load() {
				return g.RoundTrip(r)
			}
			return follows("a:1")(r)
		}
		api := network{"a:1": func(r *http.Request) (*http.Response, error) {
			if paused.Load() {
				return hang(r)
			}
			return g.RoundTrip(r)
		}, "b:2": next}.client(t, Config{Servers: []string{"a:1", "b:2"}})
		if _, err := api.Lease(t.Context(), "x", ""); err != nil {
			t.Fatal(err)
		}
		paused.Store(true)
		begun := time.Now()
		time.AfterFunc(900*time.Millisecond, func() { elected.Store(true) })
		if _, err := api.Acquire(t.Context(), acquireA); err != nil {
			t.Fatal(err)
		}
		// The search that sees it may begin a while later, and wait for the paused one.
		if took := time.Since(begun); took < 900*time.Millisecond || took > 1600*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if api.Leader() != "http://b:2" {
			t.Errorf("leader %s", api.Leader())
		}
	})
}

// A server that is slow and lives is left in peace.
func TestAPI_ServerBusy_IsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, asked := newGrants(), new(atomic.Int64)
		api := network{"a:1": func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/v1/acquire" {
				asked.Add(1)
				time.Sleep(1900 * time.Millisecond)
			}
			return g.RoundTrip(r)
		}, "b:2": follows("a:1")}.client(t, Config{Servers: []string{"a:1", "b:2"}})
		if _, err := api.Acquire(t.Context(), acquireA); err != nil || asked.Load() != 1 {
			t.Errorf("%v after %d requests", err, asked.Load())
		}
	})
}

// A leader that was replaced and does not know it is not preferred to its successor,
// although it answers sooner.
func TestAPI_Find_PrefersTheLatestTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead := func(term uint64, after time.Duration) endpoint {
			return func(*http.Request) (*http.Response, error) {
				time.Sleep(after)
				return reply(wire.Status{Role: "leader", Term: term})
			}
		}
		// c is not known to the client, and is named by b.
		api := network{"a:1": lead(3, 0), "b:2": follows("c:3"), "c:3": lead(4, 20*time.Millisecond), "d:4": hang}.client(t,
			Config{Servers: []string{"a:1", "b:2", "d:4"}})
		f := api.find(t.Context())
		if f.leader != "http://c:3" || len(f.lives) != 3 {
			t.Errorf("found %+v", f)
		}
	})
}

// A write whose outcome is unknown is not hedged.
func TestAPI_PutRegister_Silence_IsNotSentTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		slow := func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/v1/status" {
				return reply(wire.Status{Role: "leader", Term: 1})
			}
			sent.Add(1)
			return hang(r)
		}
		api := network{"a:1": slow, "b:2": slow}.client(t, Config{Servers: []string{"a:1", "b:2"}})
		if _, err := api.PutRegister(t.Context(), "x", wire.WriteRequest{}); !errors.Is(err, ErrUnknown) || sent.Load() != 1 {
			t.Errorf("%v after %d requests", err, sent.Load())
		}
	})
}
