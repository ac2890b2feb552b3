package client

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"leasehold/httpapi/wire"
)

// fake is a server that records what it was sent and answers as a test says.
type fake struct {
	*httptest.Server

	tellsStatus bool // the test's handler answers for it

	mu       sync.Mutex // guards requests
	requests []sent
}

type sent struct{ method, uri, body string }

// serve starts a fake. The handler also gets the number of the request, from 1.
func serve(t *testing.T, handle func(n int, w http.ResponseWriter, r *http.Request)) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/v1/status" && !f.tellsStatus {
			answerJSON(w, http.StatusOK, wire.Status{}) // to a search: it lives, and knows no leader
			return
		}
		f.mu.Lock()
		f.requests = append(f.requests, sent{r.Method, r.RequestURI, string(body)})
		n := len(f.requests)
		f.mu.Unlock()
		handle(n, w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) got() []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]sent(nil), f.requests...)
}

// dead gives the address of a server that is not there.
func dead(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	kind := "application/json"
	if status >= 300 {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

func answerProblem(w http.ResponseWriter, status int, code string) {
	answerJSON(w, status, wire.Problem{Status: status, Code: code, Detail: "because of the test"})
}

func answerGrant(w http.ResponseWriter) {
	answerJSON(w, http.StatusOK, wire.Grant{Name: "jobs/a", Holder: "h", Token: 7})
}

// sendTo answers as a follower does.
func sendTo(leader *fake) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", leader.URL+r.RequestURI+"?via=n2")
		answerProblem(w, http.StatusTemporaryRedirect, "not_leader")
	}
}

// breakOff closes the connection of a request that has arrived.
func breakOff(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

func dial(t *testing.T, servers ...string) *API {
	t.Helper()
	c, err := NewAPI(Config{Servers: servers, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// network is an HTTP transport without sockets, by host, for tests in which time
// is that of a testing/synctest bubble.
type network map[string]func(*http.Request) (*http.Response, error)

func (n network) RoundTrip(r *http.Request) (*http.Response, error) { return n[r.URL.Host](r) }

func (n network) client(t *testing.T, config Config) *API {
	t.Helper()
	config.HTTPClient = &http.Client{Transport: n}
	c, err := NewAPI(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func refuse(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// hang takes the request and never answers, as a paused process does.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func respond(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}
