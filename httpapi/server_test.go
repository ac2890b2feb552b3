package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/httpapi/wire"
)

// pipeListener is a listener whose connections are pipes, so that a bubble of
// testing/synctest holds both ends and its clock rules their deadlines.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (l *pipeListener) dial() net.Conn {
	ours, theirs := net.Pipe()
	l.conns <- theirs
	return ours
}

// inBubble runs a test against a served Server in virtual time. A goroutine
// that is left when it ends fails the test.
func inBubble(t *testing.T, b *fakeBackend, test func(t *testing.T, s *Server, l *pipeListener)) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newServer(t, b), newPipeListener()
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		defer func() {
			for range 2 { // Close may be repeated
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
		}()
		test(t, s, l)
	})
}

// An acquire as it goes over the wire, whole and in one chunk.
var (
	rawAcquire = fmt.Sprintf("POST /v1/acquire HTTP/1.1\r\nHost: h1\r\nContent-Length: %d\r\n\r\n%s",
		len(acquireBody), acquireBody)
	chunkedAcquire = fmt.Sprintf("POST /v1/acquire HTTP/1.1\r\nHost: h1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
		len(acquireBody), acquireBody)
)

// send writes to the server, which may stop reading at any time.
func send(conn net.Conn, text string) { go func() { _, _ = io.WriteString(conn, text) }() }

// receive reads one response.
func receive(t *testing.T, conn net.Conn) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	checkPlace(t, resp.Header)
	return resp, string(body)
}

// closedAfter waits for the server to hang up.
func closedAfter(t *testing.T, conn net.Conn, want time.Duration) {
	t.Helper()
	start := time.Now()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end of the connection", err)
	}
	if got := time.Since(start); got < want || got > want+time.Second {
		t.Errorf("the server hung up after %v, want %v", got, want)
	}
}

// A body that does not arrive in 30 s is answered with 408, and the backend
// never hears of it.
func TestServer_SlowBody(t *testing.T) {
	b := newFake()
	inBubble(t, b, func(t *testing.T, _ *Server, l *pipeListener) {
		for _, head := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			conn := l.dial()
			start := time.Now()
			send(conn, "POST /v1/acquire HTTP/1.1\r\nHost: h1\r\n"+head+"\r\n\r\n")
			resp, body := receive(t, conn)
			var p wire.Problem
			if err := json.Unmarshal([]byte(body), &p); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 408 || p.Code != "request_timeout" || !resp.Close || time.Since(start) != bodyTimeout {
				t.Errorf("%s: got %d %s after %v", head, resp.StatusCode, p.Code, time.Since(start))
			}
			closedAfter(t, conn, 0)
		}
	})
	if len(b.calls) != 0 {
		t.Errorf("the backend was asked: %v", b.calls)
	}
}

// A body that nobody wanted does not hold the connection any longer than one
// that somebody did.
func TestServer_SlowBodyNotWanted(t *testing.T) {
	inBubble(t, newFake(), func(t *testing.T, _ *Server, l *pipeListener) {
		for target, status := range map[string]int{"POST /nope": 404, "PUT /v1/acquire": 405, "POST /v1//acquire": 400, "POST /v1/acquire?x=1": 400, "GET /livez": 200} {
			conn := l.dial()
			start := time.Now()
			send(conn, target+" HTTP/1.1\r\nHost: h1\r\nContent-Length: 100\r\n\r\n{")
			resp, _ := receive(t, conn)
			if resp.StatusCode != status || time.Since(start) > bodyTimeout {
				t.Errorf("%s: got %d after %v", target, resp.StatusCode, time.Since(start))
			}
			closedAfter(t, conn, 0)
		}
	})
}

// Silence in the header ends the connection after 10 s, silence between two
// requests after 2 min.
func TestServer_SlowHeaderAndIdle(t *testing.T) {
	inBubble(t, newFake(), func(t *testing.T, _ *Server, l *pipeListener) {
		conn := l.dial()
		closedAfter(t, conn, headerTimeout)

		conn = l.dial()
		send(conn, "GET /livez HTTP/1.1\r\nHost: h1\r\n")
		closedAfter(t, conn, headerTimeout)

		conn = l.dial()
		send(conn, "POST /v1/acquire HTTP/1.1\r\nHost: h1\r\nContent-Length: 2\r\n\r\n{}")
		receive(t, conn)
		send(conn, "GET /livez HTTP/1.1\r\nHost: h1\r\n\r\n") // the same connection still serves
		if resp, _ := receive(t, conn); resp.StatusCode != 200 {
			t.Errorf("got %d", resp.StatusCode)
		}
		closedAfter(t, conn, idleTimeout)
	})
}

// The timeouts are the client's: an answer that takes ten minutes is not cut.
func TestServer_SlowAnswer(t *testing.T) {
	b := newFake()
	b.before = func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Minute):
		}
	}
	inBubble(t, b, func(t *testing.T, _ *Server, l *pipeListener) {
		for _, request := range []string{rawAcquire, chunkedAcquire} {
			conn := l.dial()
			start := time.Now()
			send(conn, request)
			resp, _ := receive(t, conn)
			if resp.StatusCode != 200 || time.Since(start) != 10*time.Minute {
				t.Errorf("%s: got %d after %v", request, resp.StatusCode, time.Since(start))
			}
			conn.Close()
		}
	})
}

// When the client goes, the backend's context ends. Nothing is sent then, least
// of all the empty 200 that net/http makes of a handler that just returns.
func TestServer_ClientGone(t *testing.T) {
	b := newFake()
	b.before = func(ctx context.Context) {
		<-ctx.Done()
		b.err = ctx.Err()
	}
	inBubble(t, b, func(t *testing.T, s *Server, l *pipeListener) {
		conn := l.dial()
		send(conn, rawAcquire)
		synctest.Wait()
		if len(b.calls) != 1 {
			t.Fatal("the request did not reach the backend")
		}
		conn.Close()
		synctest.Wait()
		if !errors.Is(b.err, context.Canceled) {
			t.Errorf("the context ended with %v", b.err)
		}
	})

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tc := range []struct {
		err   error
		abort bool
	}{
		{context.Canceled, true},
		{&cluster.Unknown{Cause: context.Canceled}, false}, // whoever still listens must hear it
	} {
		b := newFake()
		b.err = tc.err
		r, _ := http.NewRequestWithContext(ctx, "POST", "http://h1/v1/acquire", strings.NewReader(acquireBody))
		func() {
			defer func() {
				if got := recover() == http.ErrAbortHandler; got != tc.abort {
					t.Errorf("%v: aborted is %v, want %v", tc.err, got, tc.abort)
				}
			}()
			recorded(newServer(t, b), r)
		}()
	}
}

// Shutdown lets a request finish and takes no new ones; when its time is up it
// cuts off what is left.
func TestServer_Shutdown(t *testing.T) {
	for _, tc := range []struct {
		takes, within time.Duration
		want          error
	}{
		{takes: 5 * time.Second, within: 10 * time.Second},
		{takes: time.Hour, within: 10 * time.Second, want: context.DeadlineExceeded},
	} {
		b := newFake()
		b.before = func(ctx context.Context) {
			select {
			case <-ctx.Done():
				b.err = ctx.Err()
			case <-time.After(tc.takes):
			}
		}
		inBubble(t, b, func(t *testing.T, s *Server, l *pipeListener) {
			conn := l.dial()
			send(conn, rawAcquire)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), tc.within)
			defer cancel()
			done := make(chan error)
			go func() { done <- s.Shutdown(ctx) }()
			if tc.want == nil {
				if resp, _ := receive(t, conn); resp.StatusCode != 200 {
					t.Errorf("got %d", resp.StatusCode)
				}
			}
			if err := <-done; !errors.Is(err, tc.want) {
				t.Errorf("Shutdown: got %v, want %v", err, tc.want)
			}
			closedAfter(t, conn, 0)
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Error("the listener is still open")
			}
		})
	}
}
