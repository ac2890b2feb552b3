package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/httpapi/wire"
)

var acquireA = wire.AcquireRequest{Name: "jobs/a", Holder: "h", TTLMillis: 5000}

func requestIDs(t *testing.T, requests []sent) []string {
	t.Helper()
	var ids []string
	for _, r := range requests {
		var a wire.AcquireRequest
		if err := json.Unmarshal([]byte(r.body), &a); err != nil {
			t.Fatalf("body %q: %v", r.body, err)
		}
		ids = append(ids, a.RequestID)
	}
	return ids
}

// An acquire whose answer was lost is sent again with the same request id, the
// caller's or the client's own.
func TestAPI_Acquire_AnswerLost_RepeatsTheRequestID(t *testing.T) {
	for _, own := range []string{"", "mine-1"} {
		f := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n <= 2 {
				breakOff(w)
				return
			}
			answerGrant(w)
		})
		a := acquireA
		a.RequestID = own
		grant, err := dial(t, f.URL).Acquire(t.Context(), a)
		if err != nil || grant.Token != 7 {
			t.Fatalf("Acquire = %+v, %v; want token 7", grant, err)
		}
		ids := requestIDs(t, f.got())
		if len(ids) != 3 || ids[0] == "" || ids[1] != ids[0] || ids[2] != ids[0] {
			t.Errorf("request ids %q; want the same one three times", ids)
		}
		if own != "" && ids[0] != own {
			t.Errorf("request id %q, want the caller's %q", ids[0], own)
		}
	}
}

// Two calls are two requests.
func TestAPI_Acquire_MakesANewRequestIDForEachCall(t *testing.T) {
	f := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerGrant(w) })
	c := dial(t, f.URL)
	for range 2 {
		if _, err := c.Acquire(t.Context(), acquireA); err != nil {
			t.Fatal(err)
		}
	}
	if ids := requestIDs(t, f.got()); ids[0] == ids[1] {
		t.Errorf("both calls used the request id %q", ids[0])
	}
}

// Renew and release whose answers were lost are repeated too.
func TestAPI_RenewAndRelease_AnswerLost_AreRepeated(t *testing.T) {
	calls := map[string]func(*API) error{
		"renew": func(c *API) error {
			_, err := c.Renew(t.Context(), wire.RenewRequest{Name: "jobs/a", Holder: "h", Token: 7})
			return err
		},
		"release": func(c *API) error {
			_, err := c.Release(t.Context(), wire.ReleaseRequest{Name: "jobs/a", Holder: "h", Token: 7})
			return err
		},
	}
	for name, call := range calls {
		f := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				breakOff(w)
				return
			}
			answerGrant(w)
		})
		if err := call(dial(t, f.URL)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := f.got(); len(got) != 2 || got[0] != got[1] {
			t.Errorf("%s sent %v; want the same request twice", name, got)
		}
	}
}

// That a later try had no effect does not tell what came of an earlier one: the
// outcome stays unknown.
func TestAPI_Acquire_UnknownIsNotForgotten(t *testing.T) {
	f := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			breakOff(w)
			return
		}
		answerProblem(w, http.StatusServiceUnavailable, "no_leader")
	})
	_, err := dial(t, f.URL, dead(t)).Acquire(within(t, 200*time.Millisecond), acquireA)
	if !errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnavailable) {
		t.Fatalf("err = %v; want ErrUnknown alone", err)
	}
	var e *Error
	if !errors.As(err, &e) || e.RequestID != requestIDs(t, f.got())[0] || e.Code != "outcome_unknown" {
		t.Errorf("error %+v; want the request id that was sent", e)
	}
	if len(f.got()) < 2 {
		t.Error("there was no try after the broken one, so nothing is shown")
	}
}

// A definite answer settles what earlier tries left open.
func TestAPI_Acquire_AnswerAfterUnknown_IsTheAnswer(t *testing.T) {
	f := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			answerProblem(w, http.StatusGatewayTimeout, "outcome_unknown")
			return
		}
		answerGrant(w)
	})
	if _, err := dial(t, f.URL).Acquire(t.Context(), acquireA); err != nil {
		t.Errorf("err = %v", err)
	}
}

// Servers that are not there, or cannot serve, are passed over.
func TestAPI_Acquire_ServerDownOrWithoutQuorum_AsksTheNext(t *testing.T) {
	cut := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		answerProblem(w, http.StatusServiceUnavailable, "no_quorum")
	})
	leader := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerGrant(w) })
	c := dial(t, dead(t), cut.URL, leader.URL)
	if _, err := c.Acquire(t.Context(), acquireA); err != nil {
		t.Fatal(err)
	}
	if c.Leader() != leader.URL {
		t.Errorf("leader %q, want %q", c.Leader(), leader.URL)
	}
	if _, err := c.Acquire(t.Context(), acquireA); err != nil {
		t.Fatal(err)
	}
	if n := len(cut.got()); n != 1 {
		t.Errorf("the server without quorum was asked %d times; want once, then the leader first", n)
	}
}

// When no server is there the call ends at its timeout, says that nothing
// happened, and why for each server.
func TestAPI_Acquire_AllServersDown_IsUnavailableAtTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := network{"a:1": refuse, "b:2": refuse}.client(t, Config{
			Servers: []string{"a:1", "b:2"}, Timeout: 4 * time.Second,
		})
		start := time.Now()
		_, err := c.Acquire(t.Context(), acquireA)
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown) {
			t.Errorf("err = %v; want ErrUnavailable", err)
		}
		for _, want := range []string{"a:1: connection refused", "b:2: connection refused"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("err = %v; want it to say %q", err, want)
			}
		}
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("took %v, want the timeout of 4s", took)
		}
	})
}

// What a server that cannot serve says is worth more than one that is not there.
func TestAPI_Acquire_Unavailable_SaysWhatTheServersSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := network{"a:1": respond(503, `{"status":503,"code":"no_quorum","detail":"n1 reaches only itself"}`), "b:2": refuse}.client(t,
			Config{Servers: []string{"a:1", "b:2"}})
		_, err := c.Lease(t.Context(), "jobs/a", Linearizable)
		var e *Error
		if !errors.As(err, &e) || e.Code != "no_quorum" || !errors.Is(err, ErrUnavailable) {
			t.Errorf("err = %v; want no_quorum, unavailable", err)
		}
	})
}

// A server that takes requests and never answers costs one try, not the call.
func TestAPI_Acquire_ServerHangs_AsksTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := network{"a:1": hang, "b:2": respond(200, `{"token":7}`)}.client(t, Config{
			Servers: []string{"a:1", "b:2"}, TryTimeout: time.Second,
		})
		start := time.Now()
		if grant, err := c.Acquire(t.Context(), acquireA); err != nil || grant.Token != 7 {
			t.Fatalf("Acquire = %+v, %v", grant, err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v, want the one try of 1s", took)
		}
	})
}

// The pause between rounds grows to a bound.
func TestPause_GrowsToABound(t *testing.T) {
	for _, tt := range []struct {
		round    int
		min, max time.Duration
	}{
		{0, firstPause / 2, firstPause},
		{2, 2 * firstPause, 4 * firstPause},
		{1_000_000, maxPause / 2, maxPause},
	} {
		for range 100 {
			if d := pause(tt.round); d < tt.min || d > tt.max {
				t.Fatalf("round %d: pause %v, want %v to %v", tt.round, d, tt.min, tt.max)
			}
		}
	}
}

// A caller that cancels while the request is under way cannot know its outcome.
func TestAPI_Acquire_CancelledUnderWay_IsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := network{"a:1": hang}.client(t, Config{Servers: []string{"a:1"}})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errStopped)
		defer cancel()
		_, err := c.Acquire(ctx, acquireA)
		if !errors.Is(err, ErrUnknown) || !errors.Is(err, errStopped) {
			t.Errorf("err = %v; want ErrUnknown and the cause of the context", err)
		}
	})
}

var errStopped = errors.New("stopped by the test")

// A caller that cancels before anything was sent is told just that.
func TestAPI_Acquire_CancelledBefore_IsTheCausesError(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	_, err := dial(t, dead(t)).Acquire(ctx, acquireA)
	if !errors.Is(err, errStopped) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnavailable) {
		t.Errorf("err = %v; want only the cause", err)
	}
}

// A read has no effect, so a read whose connection breaks is not unknown.
func TestAPI_Lease_AnswerLost_IsUnavailable(t *testing.T) {
	f := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { breakOff(w) })
	_, err := dial(t, f.URL).Lease(within(t, 150*time.Millisecond), "jobs/a", "")
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown) {
		t.Errorf("err = %v; want ErrUnavailable", err)
	}
}
