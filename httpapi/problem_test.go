package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"leasehold/cluster"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// refusal is what a node makes of a command that an entry refused.
func refusal(ended *lease.Ended, l *lease.Lease, ev lease.Event) *cluster.Refusal {
	ev.Kind = lease.KindRefused
	out := newFake().outcome
	out.Result.Err, out.Result.Lease, out.Result.Ended, out.Result.Events = ev.Cause, l, ended, []lease.Event{ev}
	return &cluster.Refusal{Outcome: out, Last: fakeEnded}
}

func withRetry(e *cluster.Refusal, after time.Duration) *cluster.Refusal {
	e.RetryAfter = after
	return e
}

// errorTable has every error that a backend can return.
var errorTable = []struct {
	err    error
	status int
	want   wire.Problem // Code and what else it must have, besides Detail and Lease
	says   []string
	retry  string // the Retry-After header
	index  string // X-Leasehold-Index: the entry's own is 20, else what is applied
	lease  lease.State
}{
	{
		err:    withRetry(refusal(nil, fakeLease, lease.Event{Cause: lease.ErrHeld, Other: 12}), 1500*time.Millisecond+1),
		status: 409, want: wire.Problem{Code: "held", RetryAfterMillis: new(int64(1501))},
		says: []string{"token 12 is live"}, retry: "2", index: "20", lease: lease.Held,
	},
	{
		err:    refusal(nil, fakeLease, lease.Event{Cause: lease.ErrNotHolder, Token: 12, Holder: "x"}),
		status: 409, want: wire.Problem{Code: "not_holder"},
		says: []string{"x does not hold it"}, index: "20", lease: lease.Held,
	},
	{
		err:    refusal(fakeEnded, fakeLease, lease.Event{Cause: lease.ErrLost, Token: 9, Other: 11}),
		status: 410, want: wire.Problem{Code: "lease_lost", How: "expired", Index: 11, Token: 9},
		says: []string{"ended at index 11", "did not renew"}, index: "20", lease: lease.Held,
	},
	{
		err:    refusal(nil, nil, lease.Event{Cause: lease.ErrLost, Token: 9}),
		status: 410, want: wire.Problem{Code: "lease_lost"},
		says: []string{"no such grant"}, index: "20", lease: lease.Free,
	},
	{
		err:    refusal(fakeEnded, nil, lease.Event{Cause: lease.ErrRequestEnded, Other: 11}),
		status: 410, want: wire.Problem{Code: "request_ended", How: "expired", Index: 11, Token: 9},
		says: []string{"ended at index 11", "new request_id"}, index: "20", lease: lease.Free,
	},
	{
		err:    &lease.FieldError{Field: "ttl_ms", Detail: "is too short"},
		status: 400, want: wire.Problem{Code: "invalid_argument", Field: "ttl_ms"}, says: []string{"ttl_ms is too short"}, index: "40",
	},
	{
		err:    &cluster.NotLeader{Leader: cluster.Peer{ID: "n2", Address: "h2:2"}},
		status: 307, want: wire.Problem{Code: "not_leader", Leader: &wire.Node{ID: "n2", Address: "h2:2"}},
		says: []string{"n2", "h2:2", "curl", "-L"}, index: "40",
	},
	{
		err:    &cluster.NotLeader{Leader: cluster.Peer{ID: "n2"}},
		status: 503, want: wire.Problem{Code: "no_leader", RetryAfterMillis: new(int64(1000))}, retry: "1", index: "40",
	},
	{
		err:    &cluster.LimitError{Code: "too_many_leases", Detail: "there are 10 leases already"},
		status: 429, want: wire.Problem{Code: "too_many_leases", RetryAfterMillis: new(int64(1000))},
		says: []string{"10 leases"}, retry: "1", index: "40",
	},
	{
		err:    &cluster.Unavailable{Reason: cluster.NoLeader, Detail: "an election is under way"},
		status: 503, want: wire.Problem{Code: "no_leader", RetryAfterMillis: new(int64(1000))},
		says: []string{"election", "nothing happened"}, retry: "1", index: "40",
	},
	{
		err:    &cluster.Unavailable{Reason: cluster.NoQuorum, Detail: "only n1 is reached"},
		status: 503, want: wire.Problem{Code: "no_quorum", RetryAfterMillis: new(int64(1000))}, retry: "1", index: "40",
	},
	{
		err:    &cluster.Unavailable{Reason: cluster.Transferring, Detail: "leadership goes to n2"},
		status: 503, want: wire.Problem{Code: "transferring", RetryAfterMillis: new(int64(1000))}, retry: "1", index: "40",
	},
	{
		err:    &cluster.Unknown{Cause: errors.New("leadership lost while committing log")},
		status: 504, want: wire.Problem{Code: "outcome_unknown"}, says: []string{"leadership lost", "same request_id"}, index: "40",
	},
	{ // an unknown outcome is never taken for its cause
		err:    &cluster.Unknown{Cause: fmt.Errorf("gave up: %w", context.Canceled)},
		status: 504, want: wire.Problem{Code: "outcome_unknown"}, index: "40",
	},
	{
		err:    &cluster.Unknown{Cause: &cluster.Unavailable{Reason: cluster.NoLeader}},
		status: 504, want: wire.Problem{Code: "outcome_unknown"}, index: "40",
	},
	// No client causes these: a node that returns them has a bug.
	{err: lease.ErrRenewed, status: 500, want: wire.Problem{Code: "internal"}, index: "40"},
	{err: errors.New("the disk is full"), status: 500, want: wire.Problem{Code: "internal"}, says: []string{"disk"}, index: "40"},
	{err: context.DeadlineExceeded, status: 500, want: wire.Problem{Code: "internal"}, index: "40"},
}

// Every error of a backend has its status, its code and its words, on every
// call; an acquire's names the request id in any case.
func TestServer_Errors(t *testing.T) {
	for _, tc := range errorTable {
		t.Run(fmt.Sprintf("%T %v", tc.err, tc.err), func(t *testing.T) {
			b := newFake()
			b.err = tc.err
			s := newServer(t, b)
			w := do(t, s, "POST", "/v1/renew", `{"name":"jobs/a","holder":"h","token":12}`)
			p := problemIn(t, w)
			for _, part := range tc.says {
				if !strings.Contains(p.Detail, part) {
					t.Errorf("the detail %q does not say %q", p.Detail, part)
				}
			}
			if got := w.Header().Get("Retry-After"); got != tc.retry {
				t.Errorf("Retry-After is %q, want %q", got, tc.retry)
			}
			if got := w.Header().Get("X-Leasehold-Index"); got != tc.index {
				t.Errorf("X-Leasehold-Index is %q, want %q", got, tc.index)
			}
			if (p.Lease == nil) != (tc.lease == "") || p.Lease != nil &&
				(p.Lease.Name != "jobs/a" || p.Lease.State != string(tc.lease) || p.Lease.Index != 20 || p.Lease.Last == nil) {
				t.Errorf("the lease is %+v, want state %q", p.Lease, tc.lease)
			}
			want := tc.want
			want.Type, want.Title, want.Status = "about:blank", http.StatusText(tc.status), tc.status
			want.Detail, want.Lease = p.Detail, p.Lease
			if !reflect.DeepEqual(p, want) {
				t.Errorf("got %+v, want %+v", p, want)
			}
			for _, target := range []string{"/v1/acquire?request_id=r7", "/v1/acquire"} {
				p := problemIn(t, do(t, s, "POST", target, acquireBody))
				sent := b.calls[len(b.calls)-1].(lease.Acquire).RequestID
				if p.Code != want.Code || p.RequestID != sent {
					t.Errorf("%s: got %s with request id %q, want %s with %q", target, p.Code, p.RequestID, want.Code, sent)
				}
			}
			for _, target := range []string{"/v1/leases/a", "/v1/leases", "/v1/requests/r", "/v1/log"} {
				if p := problemIn(t, do(t, s, "GET", target, "")); p.Code != want.Code {
					t.Errorf("%s: got %s, want %s", target, p.Code, want.Code)
				}
			}
		})
	}
}

// Each row of the table is reached by some error, and only the last one by an
// error that nobody knows.
func TestTable_EachRowIsUsed(t *testing.T) {
	errs := []error{
		fmt.Errorf("%w: x", errForbidden), fmt.Errorf("%w: x", errNotFound), &methodError{}, fmt.Errorf("%w: x", errBodyTimeout),
		fmt.Errorf("%w: x", errBodyTooLarge), fmt.Errorf("%w: x", errNoHop), fmt.Errorf("%w: x", errNotReady), errPanic,
		&writeError{&cluster.Unknown{Cause: errors.New("x")}}, lease.ErrStaleToken, lease.ErrNotLive,
		&revokeError{lease.ErrLost}, &cluster.LimitError{Code: cluster.TooManyRegisters},
		&compactedError{},
		lease.ErrCooling, cluster.ErrWaitTimeout,
		&cluster.Queued{Err: &cluster.Unavailable{}},
	}
	for _, tc := range errorTable {
		errs = append(errs, tc.err)
	}
	for i, r := range table {
		used := false
		for _, err := range errs {
			first := 0
			for !table[first].matches(err) {
				first++
			}
			used = used || first == i
		}
		if !used {
			t.Errorf("no error reaches the row of %d %s", r.status, r.code)
		}
	}
}

// A redirect keeps the whole request URI and adds where it came from.
func TestServer_Redirect(t *testing.T) {
	b := newFake()
	b.err = &cluster.NotLeader{Leader: cluster.Peer{ID: "n2", Address: "h2:2"}}
	s := newServer(t, b)
	s.node = []string{"n 1&+"}
	for target, want := range map[string]string{
		"/v1/leases/a":  "http://h2:2/v1/leases/a?via=",
		"/v1/leases/a?": "http://h2:2/v1/leases/a?via=",
		"/v1/leases/a%2Fb?consistency=linearizable": "http://h2:2/v1/leases/a%2Fb?consistency=linearizable&via=",
		"/v1/leases?limit=5&prefix=a%2B%2F":         "http://h2:2/v1/leases?limit=5&prefix=a%2B%2F&via=",
		"http://h1:1/v1/leases/a":                   "http://h2:2/v1/leases/a?via=",
	} {
		w := do(t, s, "GET", target, "")
		if got := w.Header().Get("Location"); w.Code != 307 || got != want+"n%201%26%2B" {
			t.Errorf("%s: got %d to %q, want %q", target, w.Code, got, want)
		}
		to, err := url.Parse(w.Header().Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		// The leader understands it, and if it is none, does not send it on.
		w = do(t, s, "GET", to.RequestURI(), "")
		if p := problemIn(t, w); p.Code != "no_leader" || w.Code != 503 || w.Header().Get("Retry-After") != "1" || w.Header().Get("Location") != "" {
			t.Errorf("%s: the second hop got %+v", target, p)
		}
	}
	w := do(t, s, "POST", "/v1/acquire?request_id=r1", acquireBody)
	if got := w.Header().Get("Location"); w.Code != 307 || got != "http://h2:2/v1/acquire?request_id=r1&via=n%201%26%2B" {
		t.Errorf("acquire: got %d to %q", w.Code, got)
	}
}

// curl -L and Go's client both repeat a POST with its body at the new address.
func TestServer_RedirectIsFollowed(t *testing.T) {
	leader, follower := newFake(), newFake()
	to := httptest.NewServer(newServer(t, leader).http.Handler)
	defer to.Close()
	follower.err = &cluster.NotLeader{Leader: cluster.Peer{ID: "n2", Address: to.Listener.Addr().String()}}
	from := httptest.NewServer(newServer(t, follower).http.Handler)
	defer from.Close()

	resp, err := http.Post(from.URL+"/v1/renew", "", strings.NewReader(`{"name":"a","holder":"h","token":1}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || len(leader.calls) != 1 || !reflect.DeepEqual(leader.calls, follower.calls) {
		t.Errorf("got %d; the leader was asked %v, the follower %v", resp.StatusCode, leader.calls, follower.calls)
	}
}

// A node that is not ready says why.
func TestServer_NotReady(t *testing.T) {
	b := newFake()
	b.err = errors.New("no leader is known")
	s := newServer(t, b)
	w := do(t, s, "GET", "/readyz", "")
	if p := problemIn(t, w); w.Code != 503 || p.Code != "not_ready" || !strings.Contains(p.Detail, "no leader is known") {
		t.Errorf("got %+v", p)
	}
	if w := do(t, s, "GET", "/livez", ""); w.Code != 200 {
		t.Errorf("/livez: got %d", w.Code)
	}
}

// A page of another origin cannot change a lease; reading is harmless, and
// programs and the node's own page may do both.
func TestServer_CrossOrigin(t *testing.T) {
	for _, tc := range []struct {
		method, header, value string
		want                  int
	}{
		{"POST", "Sec-Fetch-Site", "cross-site", 403},
		{"POST", "Sec-Fetch-Site", "same-site", 403},
		{"POST", "Origin", "http://evil.example", 403},
		{"POST", "Origin", "null", 403},
		{"POST", "Sec-Fetch-Site", "same-origin", 200},
		{"POST", "Origin", "http://h1:1", 200},
		{"POST", "X-Nothing", "", 200},
		{"GET", "Sec-Fetch-Site", "cross-site", 405},
	} {
		b := newFake()
		r := httptest.NewRequest(tc.method, "http://h1:1/v1/acquire", strings.NewReader(acquireBody))
		r.Header.Set(tc.header, tc.value)
		w := recorded(newServer(t, b), r)
		if w.Code != tc.want || (len(b.calls) == 1) != (tc.want == 200) {
			t.Errorf("%s %s: %s: got %d and %d calls, want %d", tc.method, tc.header, tc.value, w.Code, len(b.calls), tc.want)
		}
		if tc.want == 403 {
			if p := problemIn(t, w); p.Code != "forbidden" {
				t.Errorf("code is %s", p.Code)
			}
		}
	}
}

// A panic costs one request its answer, and no more.
func TestServer_Panic(t *testing.T) {
	b := newFake()
	b.before = func(context.Context) { panic("boom") }
	s := newServer(t, b)
	p := problemIn(t, do(t, s, "POST", "/v1/acquire", acquireBody))
	if p.Status != 500 || p.Code != "internal" || strings.Contains(p.Detail, "boom") {
		t.Errorf("got %+v", p)
	}
	b.before = nil
	if w := do(t, s, "POST", "/v1/acquire", acquireBody); w.Code != 200 {
		t.Errorf("afterwards: got %d", w.Code)
	}
}

// HEAD is GET without the body.
func TestServer_Head(t *testing.T) {
	srv := httptest.NewServer(newServer(t, newFake()).http.Handler)
	defer srv.Close()
	for _, path := range []string{"/v1/leases/jobs/a", "/v1/status", "/", "/nope"} {
		get, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		get.Body.Close()
		head, err := http.Head(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		head.Body.Close()
		get.Header.Del("Date")
		head.Header.Del("Date")
		if head.StatusCode != get.StatusCode || !reflect.DeepEqual(head.Header, get.Header) {
			t.Errorf("%s: HEAD got %d %v, GET %d %v", path, head.StatusCode, head.Header, get.StatusCode, get.Header)
		}
	}
}
