package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// result of one run of the command line.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a command line against the server, in this process.
func run(t *testing.T, server string, args ...string) result {
	t.Helper()
	return runWith(t.Context(), server, args...)
}

func runWith(ctx context.Context, server string, args ...string) result {
	var stdout, stderr bytes.Buffer
	env := func(name string) string {
		if name == serversVariable {
			return server
		}
		return ""
	}
	code := Run(ctx, append([]string{"leasehold"}, args...), &stdout, &stderr, env)
	return result{code, stdout.String(), stderr.String()}
}

func (r result) expect(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	if !strings.Contains(r.stdout, stdout) {
		t.Errorf("stdout lacks %q", stdout)
	}
	if !strings.Contains(r.stderr, stderr) {
		t.Errorf("stderr lacks %q", stderr)
	}
	if t.Failed() {
		t.Logf("stdout:\n%sstderr:\n%s", r.stdout, r.stderr)
	}
}

// handle starts a server that answers as a test says.
func handle(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

func answer(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// dead gives the address of a server that is not there.
func dead(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		// The system may give the same port again at once, and a test takes several.
		if _, given := deadAddresses.LoadOrStore(l.Addr().String(), true); !given {
			return l.Addr().String()
		}
	}
}

var deadAddresses sync.Map

// fakeNode is a server of one node: the real state machine without Raft or time.
type fakeNode struct {
	mu    sync.Mutex // guards table and index
	table lease.Table
	index uint64
}

func newFakeNode() *fakeNode { return &fakeNode{} }

func (n *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch r.URL.Path {
	case "/v1/acquire":
		var a wire.AcquireRequest
		json.NewDecoder(r.Body).Decode(&a)
		n.answer(w, lease.Acquire{
			Name: a.Name, Holder: a.Holder, RequestID: a.RequestID, Value: a.Value, Reclaim: a.Reclaim,
			TTL: time.Duration(a.TTLMillis) * time.Millisecond,
		})
	case "/v1/renew":
		var a wire.RenewRequest
		json.NewDecoder(r.Body).Decode(&a)
		n.answer(w, lease.Renew{
			Name: a.Name, Holder: a.Holder, Token: a.Token, Value: a.Value,
			TTL: time.Duration(a.TTLMillis) * time.Millisecond,
		})
	case "/v1/release":
		var a wire.ReleaseRequest
		json.NewDecoder(r.Body).Decode(&a)
		n.answer(w, lease.Release{Name: a.Name, Holder: a.Holder, Token: a.Token})
	case "/v1/revoke":
		n.revoke(w, r)
	default:
		if strings.HasPrefix(r.URL.Path, "/v1/registers/") {
			if r.Method == http.MethodPut {
				n.putRegister(w, r)
			} else {
				n.getRegister(w, r)
			}
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/v1/leases/")
		answer(w, http.StatusOK, leaseView(name, n.table.Get(name)))
	}
}

func (n *fakeNode) answer(w http.ResponseWriter, c lease.Command) {
	n.index++
	res := n.table.Apply(lease.Entry{Index: n.index, Term: 1}, c)
	switch res.Err {
	case nil:
	case lease.ErrHeld:
		answer(w, 409, wire.Problem{Code: "held", Detail: "token is live", RetryAfterMillis: new(int64(1500))})
		return
	case lease.ErrNotHolder:
		answer(w, 409, wire.Problem{Code: "not_holder", Detail: "another holds it"})
		return
	case lease.ErrRequestEnded:
		answer(w, 410, wire.Problem{Code: "request_ended", Detail: "that grant is over"})
		return
	default:
		answer(w, 410, wire.Problem{Code: "lease_lost", Detail: "no such grant"})
		return
	}
	if _, ok := c.(lease.Release); ok {
		answer(w, 200, wire.Release{Name: res.Name, Token: res.Ended.Token, Index: res.Ended.Index, Already: res.Already})
		return
	}
	g := res.Lease.Grant
	answer(w, 200, wire.Grant{
		Name: res.Name, Holder: g.Holder, Token: g.Token, TTLMillis: g.TTL.Milliseconds(), RemainingMillis: g.TTL.Milliseconds(),
		Value: g.Value, RequestID: g.RequestID, Replayed: res.Replayed, ClusterID: "c1", Term: 1, Index: n.index,
	})
}

func leaseView(name string, l *lease.Lease) wire.Lease {
	if l == nil {
		return wire.Lease{Name: name, State: "free", Last: &wire.Last{Token: 3, Holder: "w0", How: "expired", Index: 9, Why: "no renewal of token 3"}}
	}
	g := l.Grant
	return wire.Lease{
		Name: name, State: "held", Holder: g.Holder, Token: g.Token, TTLMillis: g.TTL.Milliseconds(),
		RemainingMillis: new(int64(7200)), Value: g.Value, Renewals: g.Renewals,
		GrantedAt: time.Now().Add(-90 * time.Second).Format(time.RFC3339),
		RenewedAt: time.Now().Add(-10 * time.Second).Format(time.RFC3339),
	}
}

func (n *fakeNode) held() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.table.Len()
}
