package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"leasehold/cluster"
	"leasehold/lease"
)

const waitBody = `{"name":"jobs/a","holder":"h","ttl_ms":10000,"request_id":"r1","wait_ms":600000,"lock_delay_ms":60000}`

// What an acquire says of waiting reaches the backend as it was sent.
func TestServer_Acquire_Wait(t *testing.T) {
	b := newFake()
	if w := do(t, newServer(t, b), "POST", "/v1/acquire", waitBody); w.Code != 200 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	want := lease.Acquire{
		Name: "jobs/a", Holder: "h", TTL: 10 * time.Second, RequestID: "r1",
		Wait: 10 * time.Minute, LockDelay: time.Minute,
	}
	if b.calls[0] != want {
		t.Errorf("the backend was asked %+v, want %+v", b.calls[0], want)
	}
}

// Nothing about waiting is rounded or clamped.
func TestServer_Acquire_Wait_OutOfBounds(t *testing.T) {
	for field, most := range map[string]string{"wait_ms": "600000", "lock_delay_ms": "60000"} {
		for _, value := range []string{
			"null", "-1", "-0", "1.5", "1e3", `"10s"`, `"1000"`, "true", "[]", "{}",
			"600001", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e300",
		} {
			b := newFake()
			p := problemIn(t, do(t, newServer(t, b), "POST", "/v1/acquire",
				fmt.Sprintf(`{"name":"jobs/a","holder":"h","ttl_ms":10000,%q:%s}`, field, value)))
			if p.Status != 400 || p.Field != field || !strings.Contains(p.Detail, "from 0 to "+most) {
				t.Errorf("%s %s: got %d %s %q", field, value, p.Status, p.Field, p.Detail)
			}
			if len(b.calls) > 0 {
				t.Errorf("%s %s: reached the backend", field, value)
			}
		}
	}
}

// The refusals that come of waiting, and of a lock delay.
func TestServer_Acquire_Wait_Refusals(t *testing.T) {
	for err, code := range map[error]string{
		cluster.ErrWaitTimeout: "wait_timeout",
		lease.ErrCooling:       "cooling",
	} {
		b := newFake()
		b.err = &cluster.Refusal{
			Outcome:    cluster.Outcome{Result: lease.Result{Name: "jobs/a", Err: err, Lease: fakeLease}},
			RetryAfter: 1500 * time.Millisecond,
		}
		p := problemIn(t, do(t, newServer(t, b), "POST", "/v1/acquire", waitBody))
		if p.Status != 409 || p.Code != code || *p.RetryAfterMillis != 1500 || p.RequestID != "r1" || p.Lease.Token != 12 {
			t.Errorf("%v: got %+v", err, p)
		}
	}
}

// A request that waited is sent to the next leader with what it needs to keep
// its place: its request id, even if it was sent here by another node.
func TestServer_Queued_SentOn(t *testing.T) {
	for _, c := range []struct{ name, target, body, location string }{
		{"its own id, in the body", "/v1/acquire", waitBody, "/v1/acquire?request_id=r1&via=n1"},
		{"its own id, in the query", "/v1/acquire?request_id=r1", waitBody, "/v1/acquire?request_id=r1&via=n1"},
		{"sent here before", "/v1/acquire?via=n3", waitBody, "/v1/acquire?request_id=r1&via=n1"},
		{"sent here before with its id", "/v1/acquire?request_id=r1&via=n3", waitBody, "/v1/acquire?request_id=r1&via=n1"},
	} {
		b := newFake()
		b.err = &cluster.Queued{Err: &cluster.NotLeader{Leader: cluster.Peer{ID: "n2", Address: "h2:2"}}}
		w := do(t, newServer(t, b), "POST", c.target, c.body)
		if got := w.Header().Get("Location"); w.Code != 307 || got != "http://h2:2"+c.location {
			t.Errorf("%s: got %d %s", c.name, w.Code, got)
		}
		if p := problemIn(t, w); p.Code != "not_leader" || p.RequestID != "r1" || !strings.Contains(p.Detail, "keeps its place") {
			t.Errorf("%s: got %+v", c.name, p)
		}
	}

	// The id that was made here for a client that named none.
	b := newFake()
	b.err = &cluster.Queued{Err: &cluster.NotLeader{Leader: cluster.Peer{ID: "n2", Address: "h2:2"}}}
	w := do(t, newServer(t, b), "POST", "/v1/acquire", `{"name":"jobs/a","holder":"h","ttl_ms":10000,"wait_ms":1000}`)
	id := b.calls[0].(lease.Acquire).RequestID
	if got := w.Header().Get("Location"); id == "" || got != "http://h2:2/v1/acquire?request_id="+id+"&via=n1" {
		t.Errorf("the backend was given %q, the client is sent to %s", id, got)
	}
}

// When nobody is known to lead next, the client is told that its place is kept,
// not that nothing happened.
func TestServer_Queued_NoLeader(t *testing.T) {
	b := newFake()
	b.err = &cluster.Queued{Err: &cluster.Unavailable{Reason: cluster.NoLeader, Detail: "nothing happened"}}
	p := problemIn(t, do(t, newServer(t, b), "POST", "/v1/acquire?via=n3", waitBody))
	if p.Status != 503 || p.Code != "no_leader" || p.RequestID != "r1" || p.RetryAfterMillis == nil {
		t.Errorf("got %+v", p)
	}
	if !strings.Contains(p.Detail, "keeps its place") || strings.Contains(p.Detail, "nothing happened") {
		t.Errorf("it says %q", p.Detail)
	}
}

// The backend hears whether a waited grant can have reached its client.
func TestServer_Acquire_Answered(t *testing.T) {
	told := make(chan bool, 1)
	b := newFake()
	b.outcome.Answered = func(written bool) { told <- written }
	s := newServer(t, b)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	ask := func() net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /v1/acquire HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(waitBody), waitBody)
		return conn
	}

	conn := ask()
	defer conn.Close()
	answer := make([]byte, 12)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 200" {
		t.Fatalf("got %q, %v", answer, err)
	}
	if !<-told {
		t.Error("the answer was read, but the backend was told that the client is gone")
	}

	// This one closes its direction while it waits, and would still read.
	waits, goOn := make(chan struct{}), make(chan struct{})
	b.before = func(context.Context) { close(waits); <-goOn }
	gone := ask()
	defer gone.Close()
	<-waits
	if err := gone.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if <-told {
		t.Error("the client had hung up, but the backend was told that it was answered")
	}
	if left, err := io.ReadAll(gone); len(left) > 0 {
		t.Errorf("who hung up was sent %q, %v", left, err)
	}
}

// Without a connection to look at, the context says whether the client is gone.
func TestServer_Acquire_Answered_ContextEnded(t *testing.T) {
	var told []bool
	b := newFake()
	b.outcome.Answered = func(written bool) { told = append(told, written) }
	ctx, cancel := context.WithCancel(t.Context())
	b.before = func(context.Context) { cancel() }
	r, err := http.NewRequestWithContext(ctx, "POST", "/v1/acquire", strings.NewReader(waitBody))
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("the connection was not dropped: %v", err)
			}
		}()
		recorded(newServer(t, b), r)
	}()
	if len(told) != 1 || told[0] {
		t.Errorf("the backend was told %v", told)
	}
}

// A client that sends more while it waits, and then hangs up, is noticed although
// nobody has read what it sent.
func TestServer_Acquire_HangUpBehindOtherBytes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only the kernel of Linux is asked about this")
	}
	b := newFake()
	s := newServer(t, b)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	for _, more := range []string{"\r\n", "x", "GET /v1/status HTTP/1.1\r\nHost: h\r\n\r\n"} {
		waits, ended := make(chan struct{}), make(chan struct{})
		b.before = func(ctx context.Context) {
			close(waits)
			select {
			case <-ctx.Done():
				close(ended)
			case <-time.After(30 * time.Second):
			}
		}
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /v1/acquire HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(waitBody), waitBody)
		<-waits
		fmt.Fprint(conn, more)
		conn.Close()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Errorf("%q before the end: the request still waits", more)
		}
	}
}
