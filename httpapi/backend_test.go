package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"leasehold/cluster"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// fakeBackend answers every call in the same way and remembers that it came.
type fakeBackend struct {
	mu    sync.Mutex // guards calls
	calls []any      // the commands and queries, in order

	err     error // of every call that can fail
	outcome cluster.Outcome
	renewed []cluster.Renewed // of RenewMany; nil: each is outcome
	view    cluster.LeaseView
	page    cluster.LeasePage
	views   []cluster.RequestView
	reg     *lease.Register
	read    cluster.Read
	log     cluster.LogPage
	members cluster.Members
	before  func(ctx context.Context) // runs within a write
}

var _ Backend = (*fakeBackend)(nil)

// The state that the fake backend speaks of: h holds jobs/a by token 12, which
// was granted in term 3 and renewed at index 15; the node has applied 40.
var (
	fakeGrant = &lease.Grant{
		Token: 12, Term: 3, Renewal: 15, Renewals: 1, Holder: "h", RequestID: "r1", Value: "v",
		TTL: 10 * time.Second, GrantedAt: 1_700_000_000_123, RenewedAt: 1_700_000_001_000,
	}
	fakeLease = &lease.Lease{Name: "jobs/a", Grant: fakeGrant}
	fakeEnded = &lease.Ended{Name: "jobs/a", Token: 9, Holder: "g", RequestID: "r0", How: lease.Expired, Index: 11}
)

func newFake() *fakeBackend {
	return &fakeBackend{
		outcome: cluster.Outcome{
			Result:    lease.Result{Entry: lease.Entry{Index: 20, Term: 3}, Name: "jobs/a", Lease: fakeLease},
			Remaining: 4500*time.Millisecond + 700*time.Microsecond,
			ClusterID: "c1",
		},
		view: cluster.LeaseView{Name: "jobs/a", Lease: fakeLease, Last: fakeEnded, Remaining: 1500 * time.Microsecond},
		read: cluster.Read{Consistency: cluster.Linearizable, Index: 30, Term: 3, ClusterID: "c1", Leader: cluster.Peer{ID: "n1", Address: "h1:1"}},
	}
}

func (b *fakeBackend) called(c any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, c)
}

func (b *fakeBackend) write(ctx context.Context, c any) (cluster.Outcome, error) {
	b.called(c)
	if b.before != nil {
		b.before(ctx)
	}
	return b.outcome, b.err
}

func (b *fakeBackend) ID() string { return "n1" }

func (b *fakeBackend) Acquire(ctx context.Context, c lease.Acquire) (cluster.Outcome, error) {
	return b.write(ctx, c)
}

func (b *fakeBackend) Renew(ctx context.Context, c lease.Renew) (cluster.Outcome, error) {
	return b.write(ctx, c)
}

func (b *fakeBackend) RenewMany(ctx context.Context, c lease.RenewMany) (lease.Entry, []cluster.Renewed, error) {
	out, err := b.write(ctx, c)
	each := b.renewed
	if each == nil {
		for range c.Renewals {
			each = append(each, cluster.Renewed{Outcome: out})
		}
	}
	return out.Result.Entry, each, err
}

func (b *fakeBackend) Release(ctx context.Context, c lease.Release) (cluster.Outcome, error) {
	return b.write(ctx, c)
}

func (b *fakeBackend) Revoke(ctx context.Context, c lease.Revoke) (cluster.Outcome, error) {
	return b.write(ctx, c)
}

func (b *fakeBackend) Write(ctx context.Context, c lease.Write) (cluster.Outcome, error) {
	return b.write(ctx, c)
}

func (b *fakeBackend) Register(_ context.Context, name string, c cluster.Consistency) (*lease.Register, cluster.Read, error) {
	b.called([]any{"register", name, c})
	b.read.Consistency = c
	return b.reg, b.read, b.err
}

func (b *fakeBackend) Lease(_ context.Context, name string, c cluster.Consistency) (cluster.LeaseView, cluster.Read, error) {
	b.called([]any{"lease", name, c})
	b.read.Consistency = c
	return b.view, b.read, b.err
}

func (b *fakeBackend) Leases(_ context.Context, q cluster.LeaseQuery, c cluster.Consistency) (cluster.LeasePage, cluster.Read, error) {
	b.called([]any{"leases", q, c})
	b.read.Consistency = c
	return b.page, b.read, b.err
}

func (b *fakeBackend) Requests(_ context.Context, id string, c cluster.Consistency) ([]cluster.RequestView, cluster.Read, error) {
	b.called([]any{"requests", id, c})
	b.read.Consistency = c
	return b.views, b.read, b.err
}

func (b *fakeBackend) Log(from uint64, limit int) (cluster.LogPage, error) {
	b.called([]any{"log", from, limit})
	return b.log, b.err
}

func (b *fakeBackend) Applied() lease.Entry {
	return lease.Entry{Index: b.Status().AppliedIndex, Term: b.Status().Term}
}

func (b *fakeBackend) Status() cluster.Status {
	return cluster.Status{
		ID: "n1", Address: "h1:1", Role: cluster.Follower, Term: 4, AppliedIndex: 40,
		StateHash: 0xabc, LastContact: -1, Version: "v0",
		Peers: []cluster.PeerStatus{{Peer: cluster.Peer{ID: "n2", Address: "h2:2"}, LastHeard: -1}},
	}
}

func (b *fakeBackend) Members() cluster.Members { return b.members }
func (b *fakeBackend) Ready() error             { return b.err }

// newServer makes a server with the default bounds whose log goes to the test and
// whose answers are held against the description of the API.
func newServer(t testing.TB, b Backend) *Server {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Backend = b
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: testLog{t}, Level: hclog.Debug})
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, bench := t.(*testing.B); !bench {
		s.http.Handler = witness{t, s}
	}
	return s
}

type testLog struct{ testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.Logf("%s", p)
	return len(p), nil
}

// do sends one request straight to the handler. The target goes through the
// parser of net/http, for a hostile one may be no URL that a client would make.
func do(t testing.TB, s *Server, method, target, body string) *httptest.ResponseRecorder {
	t.Helper()
	head := method + " " + target + " HTTP/1.1\r\nHost: h1:1\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + body)))
	if err != nil {
		t.Fatalf("net/http refuses %q itself: %v", target, err)
	}
	return recorded(s, r)
}

func recorded(s *Server, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	return w
}

// problemIn decodes a problem, with the checks that apply to every one.
func problemIn(t testing.TB, w *httptest.ResponseRecorder) wire.Problem {
	t.Helper()
	var p wire.Problem
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		t.Fatalf("the body is no problem: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Error("something follows the problem")
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type is %q", got)
	}
	if p.Status != w.Code || p.Title != http.StatusText(w.Code) || p.Type != "about:blank" || p.Detail == "" {
		t.Errorf("status is %d, problem is %+v", w.Code, p)
	}
	checkPlace(t, w.Header())
	return p
}

// checkPlace ensures that an answer names the node and a place in the log.
func checkPlace(t testing.TB, h http.Header) {
	t.Helper()
	for _, name := range []string{"X-Leasehold-Node", "X-Leasehold-Term", "X-Leasehold-Index"} {
		if h.Get(name) == "" {
			t.Errorf("%s is missing", name)
		}
	}
}
