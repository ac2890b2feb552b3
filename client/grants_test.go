package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/httpapi/wire"
)

// grants is a cluster without nodes, for tests of what a client does when they
// misbehave: it grants, renews and lets run out by the clock of the bubble.
type grants struct {
	old bool // it does not know renew-many

	mu       sync.Mutex // guards what follows
	held     map[string]*granted
	token    uint64
	renewals int // granted renewals, however they came
	calls    map[string]int
	batches  []int
}

type granted struct {
	wire.Grant
	until time.Time // the server may grant it to another from then on
}

func newGrants() *grants {
	return &grants{held: make(map[string]*granted), calls: make(map[string]int)}
}

// live gives the grant of a lease if it has not run out.
func (g *grants) live(name string) *granted {
	if l := g.held[name]; l != nil && time.Now().Before(l.until) {
		return l
	}
	return nil
}

// until is when the server may grant the lease to another.
func (g *grants) until(name string) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.held[name]; l != nil {
		return l.until
	}
	return time.Time{}
}

// revoke ends a grant.
func (g *grants) revoke(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.held, name)
}

func (g *grants) count(path string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[path]
}

func (g *grants) renew(name, holder string, token uint64) (*granted, wire.Problem) {
	l := g.live(name)
	if l == nil || l.Token != token {
		return nil, wire.Problem{Status: 410, Code: "lease_lost", Detail: "it ended", How: "expired", Index: 99}
	}
	if l.Holder != holder {
		return nil, wire.Problem{Status: 409, Code: "not_holder"}
	}
	g.renewals++
	l.until = time.Now().Add(time.Duration(l.TTLMillis) * time.Millisecond)
	return l, wire.Problem{}
}

// RoundTrip answers as the leader does.
func (g *grants) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[r.URL.Path]++
	switch r.URL.Path {
	case "/v1/acquire":
		var a wire.AcquireRequest
		_ = json.Unmarshal(body, &a)
		if l := g.live(a.Name); l != nil {
			if l.RequestID != a.RequestID || l.Holder != a.Holder {
				return reply(wire.Problem{Status: 409, Code: "held"})
			}
			return reply(l.Grant)
		}
		g.token++
		l := &granted{Grant: wire.Grant{
			Name: a.Name, Holder: a.Holder, RequestID: a.RequestID, TTLMillis: a.TTLMillis, Token: g.token, ClusterID: "c1",
		}, until: time.Now().Add(time.Duration(a.TTLMillis) * time.Millisecond)}
		g.held[a.Name] = l
		return reply(l.Grant)
	case "/v1/renew":
		var a wire.RenewRequest
		_ = json.Unmarshal(body, &a)
		l, problem := g.renew(a.Name, a.Holder, a.Token)
		if l == nil {
			return reply(problem)
		}
		return reply(l.Grant)
	case "/v1/renew-many":
		var a wire.RenewManyRequest
		_ = json.Unmarshal(body, &a)
		if g.old {
			return reply(wire.Problem{Status: 404, Code: "not_found"})
		}
		if len(body) > 64<<10 || len(a.Renewals) > 512 {
			return reply(wire.Problem{Status: 413, Code: "body_too_large"})
		}
		g.batches = append(g.batches, len(a.Renewals))
		var many wire.RenewMany
		for _, one := range a.Renewals {
			l, problem := g.renew(one.Name, a.Holder, one.Token)
			many.Results = append(many.Results, wire.RenewResult{
				Name: one.Name, Token: one.Token, Renewed: l != nil, Code: problem.Code, Detail: problem.Detail, How: problem.How, Index: problem.Index,
			})
		}
		return reply(many)
	case "/v1/release":
		var a wire.ReleaseRequest
		_ = json.Unmarshal(body, &a)
		if l := g.live(a.Name); l == nil || l.Token != a.Token {
			return reply(wire.Problem{Status: 410, Code: "lease_lost", How: "expired"})
		}
		delete(g.held, a.Name)
		return reply(wire.Release{Name: a.Name, Token: a.Token})
	case "/v1/status":
		return reply(wire.Status{Role: "leader", Term: 1})
	}
	name := strings.TrimPrefix(r.URL.Path, "/v1/leases/")
	l := wire.Lease{Name: name, State: "free"}
	if live := g.live(name); live != nil {
		l.State, l.Holder, l.Token, l.RequestID = "held", live.Holder, live.Token, live.RequestID
	}
	return reply(l)
}

func reply(body any) (*http.Response, error) {
	status := http.StatusOK
	if p, ok := body.(wire.Problem); ok {
		status = p.Status
	}
	data, _ := json.Marshal(body)
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(data))}, nil
}

// Endpoints that misbehave, in front of a cluster.
type endpoint = func(*http.Request) (*http.Response, error)

// hangs takes requests and never answers.
func hangs(*grants) endpoint { return hang }

// resets breaks the connection when the request has arrived, and drops it.
func resets(*grants) endpoint {
	return func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset by peer") }
}

// deaf passes requests on and drops the answers.
func deaf(g *grants) endpoint {
	return func(r *http.Request) (*http.Response, error) {
		_, _ = g.RoundTrip(r)
		return hang(r)
	}
}

// fails answers every request with an error of its own.
func fails(*grants) endpoint {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 502, Body: io.NopCloser(strings.NewReader("bad gateway"))}, nil
	}
}

// holding makes a client of some endpoints of a cluster.
func holding(t *testing.T, endpoints map[string]endpoint, servers ...string) *Client {
	t.Helper()
	c, err := New(Config{Servers: servers, Holder: "h", HTTPClient: &http.Client{Transport: network(endpoints)}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
