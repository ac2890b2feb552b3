package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// newTestApp gives a copy that serves and knows of no leader, without a cluster.
func newTestApp(t *testing.T, name string) (*app, *httptest.Server) {
	t.Helper()
	j, err := copySettings{data: t.TempDir(), lease: "test"}.openJournal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	a := newApp(copySettings{name: name, address: server.Listener.Addr().String()}, j, json.NewEncoder(io.Discard))
	server.Config.Handler = a.routes()
	server.Start()
	t.Cleanup(func() {
		server.Close()
		if err := j.close(); err != nil {
			t.Error(err)
		}
	})
	return a, server
}

// activate makes a copy the active one, under a token.
func activate(t *testing.T, a *app, token uint64) {
	t.Helper()
	term, err := newTerm(t.Context(), grant{token, "c"}, a.name, a.journal)
	if err != nil {
		t.Fatal(err)
	}
	a.setTerm(term)
}

// post sends a request, and gives the answer.
func post(t *testing.T, server *httptest.Server, query, key string, header ...string) (*http.Response, answer) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/entries"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(keyHeader, key)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var a answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	return response, a
}

// refuses checks that a request is refused, with what is said of its outcome.
func refuses(t *testing.T, server *httptest.Server, status int, happened string, header ...string) {
	t.Helper()
	response, a := post(t, server, "?amount=1", "key", header...)
	if response.StatusCode != status || a.Happened != happened || a.Error == "" || response.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q, %+v; want %d and %q", response.StatusCode, response.Header.Get("Retry-After"), a, status, happened)
	}
}

// TestApp_NobodyActive ensures that a copy that has nobody to pass a request on to
// says so: it knows of none, or its own lease has just begun or ended.
func TestApp_NobodyActive(t *testing.T) {
	a, server := newTestApp(t, "a")
	refuses(t, server, http.StatusServiceUnavailable, "no")
	a.leader = a.url
	refuses(t, server, http.StatusServiceUnavailable, "no")
}

// TestApp_PassesOn ensures that a request reaches the active copy, counts once
// although it comes twice by different ways, and that a key names one request.
func TestApp_PassesOn(t *testing.T) {
	active, direct := newTestApp(t, "a")
	activate(t, active, 7)
	follower, other := newTestApp(t, "b")
	follower.leader = active.url
	_, first := post(t, other, "?amount=3", "key")
	if want := (answer{Entry: Entry{1, "key", 3, 3, 7, "a"}}); first != want {
		t.Errorf("passed on: %+v, want %+v", first, want)
	}
	_, again := post(t, direct, "?amount=3", "key")
	if want := (answer{Entry: first.Entry, Repeated: true}); again != want {
		t.Errorf("again: %+v, want %+v", again, want)
	}
	if response, a := post(t, direct, "?amount=4", "key"); response.StatusCode != http.StatusConflict {
		t.Errorf("another request with the key: %d, %+v", response.StatusCode, a)
	}
	if _, next := post(t, other, "?amount=4", "next"); next.Total != 7 {
		t.Errorf("the next one: %+v, want the total 7", next)
	}
	if response, _ := post(t, other, "?amount=x", "bad"); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a bad amount: %d", response.StatusCode)
	}
}

// TestApp_PassesOnOnce ensures that two copies that each believe in the other do not
// send a request to and fro.
func TestApp_PassesOnOnce(t *testing.T) {
	a, server := newTestApp(t, "a")
	b, _ := newTestApp(t, "b")
	a.leader, b.leader = b.url, a.url
	refuses(t, server, http.StatusServiceUnavailable, "no")
	refuses(t, server, http.StatusServiceUnavailable, "no", passedOnBy, "b")
}

// TestApp_LeaderGone ensures that a copy says what is known of a request when the
// active one is gone: nothing happened if it could not be reached, and nobody knows
// if it broke off or did not answer.
func TestApp_LeaderGone(t *testing.T) {
	a, server := newTestApp(t, "a")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a.leader = "http://" + l.Addr().String()
	closing := make(chan struct{})
	go func() {
		defer close(closing)
		for { // takes requests, and breaks off
			connection, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Read(make([]byte, 1))
			connection.Close()
		}
	}()
	refuses(t, server, http.StatusGatewayTimeout, "unknown")
	l.Close()
	<-closing
	refuses(t, server, http.StatusServiceUnavailable, "no")

	silent, err := net.Listen("tcp", "127.0.0.1:0") // as a paused process: it never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	a.leader = "http://" + silent.Addr().String()
	refuses(t, server, http.StatusGatewayTimeout, "unknown")
}

// TestApp_Replaced ensures that a copy which still takes itself for active can neither
// write nor read once another has taken over, even if that has written nothing yet.
func TestApp_Replaced(t *testing.T) {
	a, server := newTestApp(t, "a")
	activate(t, a, 7)
	if _, first := post(t, server, "?amount=3", "first"); first.Total != 3 {
		t.Fatalf("first: %+v", first)
	}
	if total, err := a.journal.takeOver(t.Context(), grant{9, "c"}); total != 3 || err != nil {
		t.Fatalf("takeOver = %d, %v", total, err)
	}
	response, err := server.Client().Get(server.URL + "/total")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("GET /total: status %d", response.StatusCode)
	}
	refuses(t, server, http.StatusServiceUnavailable, "no")
	entries, err := a.journal.entries(t.Context())
	if err != nil || len(entries) != 1 {
		t.Errorf("the journal is %v, %v", entries, err)
	}
}
