package fence_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/fence"
)

// wrap gives a handler behind the middleware, with the path as resource.
func wrap(t *testing.T, c fence.Config, next http.HandlerFunc) http.Handler {
	t.Helper()
	c.Resource = func(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }
	middleware, err := fence.Middleware(c)
	if err != nil {
		t.Fatal(err)
	}
	return middleware(next)
}

// put sends a request with some headers, given as pairs.
func put(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPut, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// echo answers with the token that the middleware has admitted.
func echo(w http.ResponseWriter, r *http.Request) {
	token, ok := fence.TokenFrom(r.Context())
	fmt.Fprint(w, token, ok)
}

// TestMiddleware_Answers ensures the status, code and fields of each refusal, and
// that the handler sees the token of what passes.
func TestMiddleware_Answers(t *testing.T) {
	c := fence.DefaultConfig()
	c.Guard.MaxResources = 1
	if err := c.Guard.Check("doc", 7); err != nil {
		t.Fatal(err)
	}
	pinned, open := c, c
	pinned.ClusterID, open.AllowMissing = "c1", true
	const token, cluster = "Fencing-Token", "Fencing-Cluster"
	for _, test := range []struct {
		name    string
		config  fence.Config
		path    string
		headers []string
		status  int
		code    string // of the problem, or the body of a success
	}{
		{"equal", c, "/doc", []string{token, "7"}, 200, "7 true"},
		{"older", c, "/doc", []string{token, "6"}, 412, "stale_token"},
		{"missing", c, "/doc", nil, 428, "token_required"},
		{"missing, allowed", open, "/doc", nil, 200, "0 false"},
		{"older, missing allowed", open, "/doc", []string{token, "6"}, 412, "stale_token"},
		{"empty, missing allowed", open, "/doc", []string{token, ""}, 400, "invalid_argument"},
		{"zero", c, "/doc", []string{token, "0"}, 400, "invalid_argument"},
		{"leading zero", c, "/doc", []string{token, "07"}, 400, "invalid_argument"},
		{"negative", c, "/doc", []string{token, "-7"}, 400, "invalid_argument"},
		{"plus", c, "/doc", []string{token, "+7"}, 400, "invalid_argument"},
		{"space", c, "/doc", []string{token, "7 "}, 400, "invalid_argument"},
		{"hexadecimal", c, "/doc", []string{token, "0x7"}, 400, "invalid_argument"},
		{"fraction", c, "/doc", []string{token, "7.0"}, 400, "invalid_argument"},
		{"list", c, "/doc", []string{token, "7, 8"}, 400, "invalid_argument"},
		{"too large", c, "/doc", []string{token, "18446744073709551616"}, 400, "invalid_argument"},
		{"long", c, "/doc", []string{token, strings.Repeat("9", 5000)}, 400, "invalid_argument"},
		{"twice", c, "/doc", []string{token, "7", token, "8"}, 400, "invalid_argument"},
		{"guard full", c, "/other", []string{token, "7"}, 429, "too_many_resources"},
		{"no resource", c, "/", []string{token, "7"}, 500, "no_resource"},
		{"cluster not asked for", c, "/doc", []string{token, "7", cluster, "c9"}, 200, "7 true"},
		{"pinned", pinned, "/doc", []string{token, "7", cluster, "c1"}, 200, "7 true"},
		{"pinned, older", pinned, "/doc", []string{token, "6", cluster, "c1"}, 412, "stale_token"},
		{"pinned, another", pinned, "/doc", []string{token, "9", cluster, "c2"}, 412, "wrong_cluster"},
		{"pinned, none", pinned, "/doc", []string{token, "9"}, 412, "wrong_cluster"},
		{"pinned, two", pinned, "/doc", []string{token, "9", cluster, "c1", cluster, "c2"}, 412, "wrong_cluster"},
		{"largest", c, "/doc", []string{token, "18446744073709551615"}, 200, "18446744073709551615 true"},
		{"older than the largest", c, "/doc", []string{token, "7"}, 412, "stale_token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			called := false
			h := wrap(t, test.config, func(w http.ResponseWriter, r *http.Request) { called = true; echo(w, r) })
			w := put(h, test.path, test.headers...)
			if w.Code != test.status || called != (test.status == 200) {
				t.Fatalf("status %d, handler called: %v; want %d; %s", w.Code, called, test.status, w.Body)
			}
			if test.status == 200 {
				if w.Body.String() != test.code {
					t.Errorf("the handler saw %q, want %q", w.Body, test.code)
				}
				return
			}
			if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("Content-Type %q", got)
			}
			var p struct {
				Type, Title, Code, Detail string
				Status                    int
				HighestToken              uint64 `json:"highest_token"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			if p.Code != test.code || p.Status != test.status || p.Type == "" || p.Title == "" || p.Detail == "" || len(p.Detail) > 300 {
				t.Errorf("problem %s, want code %q", w.Body, test.code)
			}
			if (p.HighestToken != 0) != (p.Code == "stale_token") {
				t.Errorf("highest_token = %d in a %s", p.HighestToken, p.Code)
			}
		})
	}
}

// TestMiddleware_NewerWaits ensures that a newer request gets to its handler only
// when that of the older one has returned, even by a panic, and 503 if it does not.
func TestMiddleware_NewerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resume := make(chan struct{})
		var order []string
		h := wrap(t, fence.DefaultConfig(), func(_ http.ResponseWriter, r *http.Request) {
			token := r.Header.Get(fence.TokenHeader)
			if token == "33" {
				<-resume
			}
			order = append(order, token)
			if token == "33" {
				panic(http.ErrAbortHandler)
			}
		})
		var all sync.WaitGroup
		all.Go(func() {
			defer func() { _ = recover() }() // as net/http does
			put(h, "/doc", fence.TokenHeader, "33")
		})
		synctest.Wait()
		start := time.Now()
		w := put(h, "/doc", fence.TokenHeader, "34")
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || time.Since(start) != 10*time.Second {
			t.Errorf("behind one that does not end: %d after %v, want 503 with Retry-After, after 10s; %s", w.Code, time.Since(start), w.Body)
		}
		all.Go(func() {
			if w := put(h, "/doc", fence.TokenHeader, "34"); w.Code != http.StatusOK {
				t.Errorf("behind one that ends: %d", w.Code)
			}
		})
		synctest.Wait()
		if w := put(h, "/doc", fence.TokenHeader, "33"); w.Code != http.StatusPreconditionFailed {
			t.Errorf("an older one while a newer waits: %d, want 412", w.Code)
		}
		close(resume)
		all.Wait()
		if got := strings.Join(order, " "); got != "33 34" {
			t.Errorf("order of the writes %q, want 33 34", got)
		}
	})
}

// TestMiddleware_OverHTTP ensures the same over real connections, for a client
// that gives up: its request waits no longer, and its write is not begun.
func TestMiddleware_OverHTTP(t *testing.T) {
	entered, resume := make(chan struct{}), make(chan struct{})
	written := make(chan string, 10)
	h := wrap(t, fence.DefaultConfig(), func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get(fence.TokenHeader) == "1" {
			close(entered)
			<-resume
		}
		written <- r.Header.Get(fence.TokenHeader)
	})
	gaveUp := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if r.Header.Get(fence.TokenHeader) == "2" {
			close(gaveUp)
		}
	}))
	defer server.Close()
	send := func(token string, patience time.Duration) (int, error) {
		r, err := http.NewRequest(http.MethodPut, server.URL+"/doc", nil)
		if err != nil {
			return 0, err
		}
		r.Header.Set(fence.TokenHeader, token)
		resp, err := (&http.Client{Timeout: patience}).Do(r)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, err
	}
	var all sync.WaitGroup
	all.Go(func() {
		if status, err := send("1", time.Minute); status != 200 || err != nil {
			t.Errorf("the older: %d, %v", status, err)
		}
	})
	<-entered
	if status, err := send("2", 50*time.Millisecond); err == nil {
		t.Errorf("a newer one that waits 50 ms got %d while the older one is under way", status)
	}
	<-gaveUp // the server has seen the client go, while the older one is still under way
	close(resume)
	all.Wait()
	if status, err := send("3", time.Minute); status != 200 || err != nil {
		t.Errorf("the newest: %d, %v", status, err)
	}
	close(written)
	var order []string
	for token := range written {
		order = append(order, token)
	}
	if got := strings.Join(order, " "); got != "1 3" {
		t.Errorf("written %q, want 1 3", got)
	}
}

// TestMiddleware_PausedClient ensures that a client that was paused in the middle of
// its body does not keep a newer holder from writing, and that the connection of
// one that was overtaken can be used again.
func TestMiddleware_PausedClient(t *testing.T) {
	entered := make(chan struct{}, 1)
	overtaken := make(chan error, 1)
	server := httptest.NewServer(wrap(t, fence.DefaultConfig(), func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		if _, err := io.ReadAll(r.Body); err != nil {
			overtaken <- context.Cause(r.Context())
			w.WriteHeader(http.StatusConflict)
		}
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "PUT /doc HTTP/1.1\r\nHost: x\r\nFencing-Token: 33\r\nContent-Length: 100\r\n\r\nhalf of i")
	<-entered
	for _, token := range []string{"34", "35", "36"} {
		r, err := http.NewRequest(http.MethodPut, server.URL+"/doc", strings.NewReader("all of it"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(fence.TokenHeader, token)
		start := time.Now()
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		<-entered
		if resp.StatusCode != http.StatusOK || time.Since(start) > 5*time.Second {
			t.Errorf("token %s: %d after %v", token, resp.StatusCode, time.Since(start))
		}
	}
	if err := <-overtaken; !errors.Is(err, fence.ErrStale) {
		t.Errorf("the paused one was told %v, want ErrStale", err)
	}
}

// TestMiddleware_Overtaken_SameConnection ensures that a connection on which a
// request was overtaken serves the next one.
func TestMiddleware_Overtaken_SameConnection(t *testing.T) {
	entered := make(chan struct{}, 1)
	config := fence.DefaultConfig()
	server := httptest.NewServer(wrap(t, config, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get(fence.TokenHeader) == "33" {
			entered <- struct{}{}
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for _, token := range []string{"33", "34"} {
		fmt.Fprintf(conn, "PUT /doc HTTP/1.1\r\nHost: x\r\nFencing-Token: %s\r\nContent-Length: 0\r\n\r\n", token)
		if token == "33" {
			<-entered
			if err := config.Guard.Check("doc", 34); err != nil {
				t.Fatal(err)
			}
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("token %s: %v", token, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("token %s: %d", token, resp.StatusCode)
		}
	}
}

// TestConfig_Validate ensures that what would fail at the first request is
// refused at the start.
func TestConfig_Validate(t *testing.T) {
	whole := fence.DefaultConfig()
	whole.Resource = func(*http.Request) string { return "a" }
	for name, change := range map[string]func(*fence.Config){
		"Guard":    func(c *fence.Config) { c.Guard = nil },
		"Resource": func(c *fence.Config) { c.Resource = nil },
		"MaxWait":  func(c *fence.Config) { c.MaxWait = 0 },
	} {
		c := whole
		change(&c)
		if _, err := fence.Middleware(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	if _, err := fence.Middleware(whole); err != nil {
		t.Error(err)
	}
}

// TestErrors_Texts ensures that the refusals say what the reader of a log needs.
func TestErrors_Texts(t *testing.T) {
	for want, err := range map[string]error{
		`stale token: "a" has seen token 9, this is 8`:                                                     &fence.StaleError{Resource: "a", Token: 8, Highest: 9},
		`wrong cluster: "a" takes tokens of cluster "c1" only, this one is from "c2"`:                      &fence.ClusterError{Resource: "a", ClusterID: "c2", Pinned: "c1"},
		`wrong cluster: "a" takes tokens of cluster "c1" only, and this one does not say where it is from`: &fence.ClusterError{Resource: "a", Pinned: "c1"},
	} {
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
	if err := error(&fence.ClusterError{}); !errors.Is(err, fence.ErrCluster) || errors.Is(err, fence.ErrStale) {
		t.Error("a ClusterError is ErrCluster, and nothing else")
	}
}
