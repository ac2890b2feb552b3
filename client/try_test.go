package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// A follower's redirect is followed with method and body, and the leader is
// asked first from then on.
func TestAPI_Acquire_FollowsARedirectAndRemembersTheLeader(t *testing.T) {
	leader := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerGrant(w) })
	follower := serve(t, sendTo(leader))
	c := dial(t, follower.URL)
	for range 2 {
		if _, err := c.Acquire(t.Context(), acquireA); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(follower.got()); n != 1 {
		t.Errorf("the follower was asked %d times, want once", n)
	}
	got := leader.got()
	if len(got) != 2 || got[0].method != "POST" || got[0].uri != "/v1/acquire?via=n2" || got[1].uri != "/v1/acquire" {
		t.Fatalf("the leader got %v", got)
	}
	if got[0].body != follower.got()[0].body {
		t.Errorf("body %q at the leader, %q at the follower", got[0].body, follower.got()[0].body)
	}
}

// Two followers that point at each other are not chased: a round asks each of
// them once, and nothing happened.
func TestAPI_Acquire_FollowsOneRedirectAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hops := 0
		to := func(host string) func(*http.Request) (*http.Response, error) {
			return func(r *http.Request) (*http.Response, error) {
				hops++
				resp, err := respond(http.StatusTemporaryRedirect, `{"code":"not_leader"}`)(r)
				resp.Header = http.Header{"Location": {"http://" + host + "/v1/acquire?via=n1"}}
				return resp, err
			}
		}
		// The timeout is shorter than the first pause can be, so there is one round.
		c := network{"a:1": to("b:2"), "b:2": to("a:1")}.client(t, Config{Servers: []string{"a:1"}, Timeout: firstPause / 2})
		_, err := c.Acquire(t.Context(), acquireA)
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown) {
			t.Errorf("err = %v; want ErrUnavailable", err)
		}
		if hops != 2 {
			t.Errorf("%d requests, want one and its redirect", hops)
		}
	})
}

// A leader that went away is not asked first again, and another is found.
func TestAPI_Acquire_LeaderGone_FindsTheNext(t *testing.T) {
	old := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerGrant(w) })
	var leader *fake
	var mu sync.Mutex
	leading := old
	leader = serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerGrant(w) })
	follower := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sendTo(leading)(n, w, r)
	})
	c := dial(t, follower.URL)
	if _, err := c.Acquire(t.Context(), acquireA); err != nil {
		t.Fatal(err)
	}
	old.Close()
	mu.Lock()
	leading = leader
	mu.Unlock()
	if _, err := c.Acquire(t.Context(), acquireA); err != nil {
		t.Fatal(err)
	}
	if c.Leader() != leader.URL {
		t.Errorf("leader %q, want %q", c.Leader(), leader.URL)
	}
}

// A try whose time is up before it got a connection has sent nothing. (It was
// once called unknown, when time ran out between two tries.)
func TestAPI_Exchange_TimeUpBeforeTheConnection_HadNoEffect(t *testing.T) {
	f := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerGrant(w) })
	c := dial(t, f.URL)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, v, err := c.exchange(ctx, f.URL, f.URL+"/v1/acquire", request{method: "POST", body: []byte("{}")})
	if v != nothing || !errors.Is(err, ErrUnavailable) {
		t.Errorf("verdict %v, %v; want nothing, unavailable", v, err)
	}
}

// Every code of the API gives its sentinel, with the problem as the server wrote
// it; a definite refusal is not asked for again.
func TestAPI_Errors_MapCodesToSentinels(t *testing.T) {
	for _, tt := range []struct {
		status int
		code   string
		want   error // nil: none of the sentinels
	}{
		{409, "held", lease.ErrHeld},
		{409, "not_holder", lease.ErrNotHolder},
		{410, "lease_lost", lease.ErrLost},
		{410, "request_ended", lease.ErrRequestEnded},
		{400, "invalid_argument", nil},
		{429, "too_many_leases", nil},
		{500, "internal", nil},
		{403, "forbidden", nil},
	} {
		f := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, tt.status, wire.Problem{
				Status: tt.status, Code: tt.code, Detail: "why", Index: 12, Lease: &wire.Lease{Token: 9},
			})
		})
		_, err := dial(t, f.URL).Acquire(t.Context(), acquireA)
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("%s: err = %v", tt.code, err)
		}
		if e.Status != tt.status || e.Code != tt.code || e.Index != 12 || e.Lease.Token != 9 || e.RequestID == "" {
			t.Errorf("%s: %+v", tt.code, e)
		}
		if err.Error() != tt.code+": why" {
			t.Errorf("message %q", err)
		}
		for _, sentinel := range []error{
			lease.ErrHeld, lease.ErrNotHolder, lease.ErrLost, lease.ErrRequestEnded, ErrUnavailable, ErrUnknown,
		} {
			if got := errors.Is(err, sentinel); got != (sentinel == tt.want) {
				t.Errorf("%s: errors.Is(%v) = %v", tt.code, sentinel, got)
			}
		}
		if n := len(f.got()); n != 1 {
			t.Errorf("%s: asked %d times, want once", tt.code, n)
		}
	}
}

// Answers that no leasehold server gives are told apart by whether the request
// may have passed through.
func TestAPI_Acquire_AnswerOfAProxy(t *testing.T) {
	for _, tt := range []struct {
		status int
		want   error
	}{
		{502, ErrUnknown}, {504, ErrUnknown}, {503, ErrUnavailable}, {404, nil}, {200, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := network{"a:1": respond(tt.status, "<html>not JSON</html>")}.client(t, Config{Servers: []string{"a:1"}})
			_, err := c.Acquire(t.Context(), acquireA)
			if err == nil {
				t.Errorf("%d: no error", tt.status)
			}
			for _, sentinel := range []error{ErrUnknown, ErrUnavailable} {
				if got := errors.Is(err, sentinel); got != (sentinel == tt.want) {
					t.Errorf("%d: errors.Is(%v, %v) = %v", tt.status, err, sentinel, got)
				}
			}
		})
	}
}

// Each call goes to its path with its query.
func TestAPI_Calls_PathsAndQueries(t *testing.T) {
	f := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/requests/r 1?" {
			answerJSON(w, 200, []wire.Request{{Name: "jobs/a"}})
			return
		}
		answerJSON(w, 200, struct{}{})
	})
	f.tellsStatus = true
	c := dial(t, f.URL)
	ctx := t.Context()
	for _, tt := range []struct {
		want string
		call func() error
	}{
		{"GET /v1/leases/jobs/a", func() error { _, err := c.Lease(ctx, "jobs/a", ""); return err }},
		{"GET /v1/leases/a%3Fb%20c%25?consistency=stale", func() error { _, err := c.Lease(ctx, "a?b c%", Stale); return err }},
		{"GET /v1/leases/x:y@z=+-", func() error { _, err := c.Lease(ctx, "x:y@z=+-", ""); return err }},
		{"GET /v1/leases", func() error { _, err := c.Leases(ctx, LeasesQuery{}); return err }},
		{"GET /v1/leases?after=b%26&consistency=linearizable&limit=5&prefix=a%2F", func() error {
			_, err := c.Leases(ctx, LeasesQuery{Prefix: "a/", After: "b&", Limit: 5, Consistency: Linearizable})
			return err
		}},
		{"GET /v1/requests/r%201%3F", func() error { _, err := c.Requests(ctx, "r 1?"); return err }},
		{"GET /v1/status", func() error { _, err := c.Status(ctx, f.URL); return err }},
		{"GET /v1/cluster", func() error { _, err := c.Cluster(ctx); return err }},
		{"GET /v1/log?from=3&limit=10", func() error { _, err := c.Log(ctx, f.URL, 3, 10); return err }},
		{"GET /v1/log", func() error { _, err := c.Log(ctx, "", 0, 0); return err }},
		{"GET /version", func() error { _, err := c.Version(ctx, ""); return err }},
	} {
		before := len(f.got())
		if err := tt.call(); err != nil {
			t.Errorf("%s: %v", tt.want, err)
		}
		got := f.got()[before:]
		if len(got) != 1 || got[0].method+" "+got[0].uri != tt.want {
			t.Errorf("sent %v, want %s", got, tt.want)
		}
	}
}

// A stale read does not take the node that answers it for the leader.
func TestAPI_Lease_Stale_TeachesNoLeader(t *testing.T) {
	f := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerJSON(w, 200, wire.Lease{}) })
	c := dial(t, f.URL)
	if _, err := c.Lease(t.Context(), "a", Stale); err != nil || c.Leader() != "" {
		t.Errorf("leader %q, err %v; want none", c.Leader(), err)
	}
	if _, err := c.Lease(t.Context(), "a", Linearizable); err != nil || c.Leader() != f.URL {
		t.Errorf("leader %q, err %v; want %s", c.Leader(), err, f.URL)
	}
}

// The status of a node is that node's own: it is asked once, and no other.
func TestAPI_Status_AsksOnlyTheNamedServer(t *testing.T) {
	other := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerJSON(w, 200, wire.Status{ID: "n2"}) })
	other.tellsStatus = true
	c := dial(t, other.URL)
	_, err := c.Status(t.Context(), dead(t))
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("err = %v; want ErrUnavailable", err)
	}
	if n := len(other.got()); n != 0 {
		t.Errorf("another server was asked %d times", n)
	}
	if st, err := c.Status(t.Context(), other.URL); err != nil || st.ID != "n2" {
		t.Errorf("Status = %+v, %v", st, err)
	}
}

// Text that JSON cannot carry is refused rather than changed in silence.
func TestAPI_Acquire_InvalidUTF8_IsRefused(t *testing.T) {
	f := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerGrant(w) })
	a := acquireA
	a.Value = "\xff"
	if _, err := dial(t, f.URL).Acquire(t.Context(), a); err == nil || len(f.got()) != 0 {
		t.Errorf("err = %v after %d requests; want an error and none", err, len(f.got()))
	}
}

// One client serves many goroutines.
func TestAPI_ManyGoroutines(t *testing.T) {
	leader := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerGrant(w) })
	follower := serve(t, sendTo(leader))
	c := dial(t, follower.URL, dead(t))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 5 {
				if _, err := c.Acquire(t.Context(), acquireA); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
