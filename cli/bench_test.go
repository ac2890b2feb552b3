package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/httpapi/wire"
)

// bench runs one for long enough that some operations fall into the time measured
// on a machine that is busy with other things.
func bench(t *testing.T, server string, args ...string) (result, benchResult) {
	t.Helper()
	r := run(t, server, append([]string{"bench", "--duration", "600ms", "--warmup", "20ms", "--clients", "4", "--json"}, args...)...)
	var b benchResult
	if r.stdout != "" {
		if err := json.Unmarshal([]byte(r.stdout), &b); err != nil {
			t.Fatalf("%v in %q", err, r.stdout)
		}
	}
	return r, b
}

// Both kinds of work are counted, and leave nothing held behind.
func TestBench_CountsOperationsAndCleansUp(t *testing.T) {
	for _, work := range []string{"cycle", "renew"} {
		node := newFakeNode()
		r, b := bench(t, handle(t, node.ServeHTTP), "--work", work)
		r.expect(t, exitDone, "", "")
		if b.Operations == 0 || b.PerSecond != float64(b.Operations)/0.6 || len(b.Errors) != 0 || b.Work != work {
			t.Errorf("%s: %+v", work, b)
		}
		if b.P50 <= 0 || b.P50 > b.P99 || b.P99 > b.P999 || b.P999 > b.Max {
			t.Errorf("%s: latencies %+v are out of order", work, b)
		}
		if n := node.held(); n != 0 {
			t.Errorf("%s: %d leases are still held", work, n)
		}
	}
}

// The text form names each figure.
func TestBench_Text(t *testing.T) {
	server := handle(t, newFakeNode().ServeHTTP)
	r := run(t, server, "bench", "--duration", "300ms", "--warmup", "0s", "--clients", "1")
	r.expect(t, exitDone, "errors      none\n", "")
	r.expect(t, exitDone, "ops/s ", "")
}

// When leadership moves the load follows, the failed tries are counted by their
// code, and operations go on.
func TestBench_LeaderMoves_FollowsIt(t *testing.T) {
	node := newFakeNode()
	next := handle(t, node.ServeHTTP)
	var calls atomic.Int64
	old := handle(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 40 {
			w.Header().Set("Location", next+r.RequestURI)
			answer(w, 307, wire.Problem{Code: "not_leader", Detail: "n2 leads"})
			return
		}
		node.ServeHTTP(w, r)
	})
	for _, work := range []string{"cycle", "renew"} {
		calls.Store(0)
		r, b := bench(t, old, "--work", work, "--warmup", "0s")
		r.expect(t, exitDone, "", "")
		if b.Leader != strings.TrimPrefix(next, "http://") || b.Operations < 40 || b.Errors["not_leader"] == 0 {
			t.Errorf("%s: %+v; want operations at %s after failures", work, b, next)
		}
	}
}

// Answers that are lost do not stop a client: the grant it may have is
// reclaimed, and the tries count as failed.
func TestBench_AnswersLost_Reclaims(t *testing.T) {
	for _, work := range []string{"cycle", "renew"} {
		node := newFakeNode()
		var calls atomic.Int64
		server := handle(t, func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1)%20 == 0 {
				node.ServeHTTP(discard{}, r) // it happens, but nobody hears of it
				if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
					conn.Close()
				}
				return
			}
			node.ServeHTTP(w, r)
		})
		r, b := bench(t, server, "--work", work)
		r.expect(t, exitDone, "", "")
		if b.Errors["connection"] == 0 || b.Operations == 0 || b.Errors["held"] != 0 {
			t.Errorf("%s: %+v; want lost connections and operations nevertheless", work, b)
		}
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// A request that is wrong stays wrong: the bench ends with it.
func TestBench_BadRequest_EndsTheBench(t *testing.T) {
	server := handle(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			answer(w, 400, wire.Problem{Code: "invalid_argument", Detail: "ttl_ms is above its bound"})
			return
		}
		answer(w, 200, wire.Lease{})
	})
	for _, work := range []string{"cycle", "renew"} {
		r, _ := bench(t, server, "--work", work, "--duration", "1m")
		r.expect(t, exitError, "", "invalid_argument: ttl_ms is above its bound")
	}
}

// Quantiles are never below the exact ones, and above them by less than 1 %.
func TestLatencies_QuantilesWithinOnePercent(t *testing.T) {
	var l latencies
	var exact []time.Duration
	for range 20_000 {
		d := time.Duration(1 << rand.N(36))
		d += rand.N(d)
		l.add(d)
		exact = append(exact, d)
	}
	slices.Sort(exact)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999} {
		want, got := exact[int(q*float64(len(exact)))], l.quantile(q)
		if got < want || float64(got) > 1.01*float64(want) {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if l.quantile(1) != exact[len(exact)-1] || l.max != exact[len(exact)-1] {
		t.Errorf("max %v, want %v", l.max, exact[len(exact)-1])
	}
}

// Each value lies within its bucket, and the next begins behind its end.
func TestLatencies_BucketsHaveNoGaps(t *testing.T) {
	for i := range powers*perPower - 1 {
		end := uint64(bucketEnd(i))
		if bucket(end) != i || bucket(end+1) != i+1 {
			t.Fatalf("bucket %d ends at %d, which is in %d; the next value is in %d", i, end, bucket(end), bucket(end+1))
		}
	}
	var l latencies
	l.add(time.Hour) // beyond the last bucket
	l.add(-1)
	if l.quantile(1) != time.Hour || l.quantile(0) != 0 {
		t.Errorf("quantiles %v and %v", l.quantile(0), l.quantile(1))
	}
}

// Merging is as adding all to one.
func TestLatencies_Merge(t *testing.T) {
	var a, b, both latencies
	for i := range 1000 {
		d := time.Duration(i*i) * time.Microsecond
		both.add(d)
		if i%3 == 0 {
			a.add(d)
		} else {
			b.add(d)
		}
	}
	a.merge(&b)
	if a != both {
		t.Error("the merged histogram differs from that of all values")
	}
}

// Answers are understood in every form that a server may give them, and the
// connection is at the right place for the next.
func TestBenchConn_ReadsAnswers(t *testing.T) {
	for _, tt := range []struct {
		answer string
		status int // 0: an error
		body   string
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, "{}"},
		{"HTTP/1.1 409 Conflict\r\ncontent-length:3\r\nX-A: b\r\n\r\nabc", 409, "abc"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n", 200, "abcde"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nT: x\r\n\r\n", 200, "a"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, ""},
		{"HTTP/1.1 200 OK\r\n\r\n", 0, ""},
		{"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 0, ""},
		{"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", 0, ""},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", 0, ""},
		{"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n", 0, ""},
		{"SSH-2.0-OpenSSH\r\n", 0, ""},
		{"HTTP/1.1 200 OK\r\nnot a header\r\n\r\n", 0, ""},
		{"", 0, ""},
	} {
		const next = "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nnext"
		server, conn := net.Pipe()
		go func() {
			r := bufio.NewReader(server)
			for _, answer := range []string{tt.answer, next} {
				req, err := http.ReadRequest(r)
				if err != nil {
					break
				}
				if body, _ := io.ReadAll(req.Body); string(body) != "[1]" || req.Host != "h:1" || req.URL.Path != "/v1/renew" {
					t.Errorf("request %v with %q", req.URL, body)
				}
				io.WriteString(server, answer)
				if tt.status == 0 {
					break
				}
			}
			server.Close()
		}()
		c := newBenchConn(conn, "h:1")
		status, body, err := c.post("/v1/renew", []byte("[1]"))
		if (err != nil) != (tt.status == 0) || status != tt.status || string(body) != tt.body {
			t.Errorf("%q gives %d %q, %v", tt.answer, status, body, err)
		}
		if err == nil {
			if status, body, err := c.post("/v1/renew", []byte("[1]")); status != 201 || string(body) != "next" {
				t.Errorf("after %q the next answer is %d %q, %v", tt.answer, status, body, err)
			}
		}
		c.close()
	}
}

// An answer that ends the connection is used; the connection is not used again.
func TestBenchConn_ConnectionClose(t *testing.T) {
	server, conn := net.Pipe()
	go func() {
		http.ReadRequest(bufio.NewReader(server))
		fmt.Fprint(server, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx")
	}()
	c := newBenchConn(conn, "h:1")
	if status, _, err := c.post("/v1/renew", nil); status != 200 || err != nil {
		t.Fatalf("status %d, %v", status, err)
	}
	if _, _, err := c.post("/v1/renew", nil); err == nil {
		t.Error("a second request on a closed connection succeeded")
	}
}
