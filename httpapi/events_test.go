package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"leasehold/cluster"
	"leasehold/fsm"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

func (b *fakeBackend) Events(uint64, int) fsm.EventPage {
	return fsm.EventPage{Upto: b.Applied().Index, Applied: b.Applied()}
}

func (b *fakeBackend) Leader() (cluster.Peer, uint64) {
	return cluster.Peer{ID: "n2", Address: "h2:2"}, 4
}

// eventBackend has a real state machine, to which a test applies what it likes.
type eventBackend struct {
	*fakeBackend
	machine *fsm.Machine
	index   uint64
}

var _ Backend = (*eventBackend)(nil)

func (b *eventBackend) Events(after uint64, limit int) fsm.EventPage {
	return b.machine.Events(after, limit)
}

func (b *eventBackend) Applied() (e lease.Entry) {
	b.machine.View(func(t *lease.Table) { e = t.Applied() })
	return e
}

func newEventBackend(t *testing.T) *eventBackend {
	return &eventBackend{fakeBackend: newFake(), machine: fsm.New(fsm.Config{Fail: func(err error) { t.Error(err) }})}
}

// apply applies an entry and returns its index.
func (b *eventBackend) apply(c lease.Command) uint64 {
	b.index++
	b.machine.Apply(&raft.Log{Index: b.index, Term: 3, Data: fsm.EncodeCommand(c), AppendedAt: time.UnixMilli(1_700_000_000_000)})
	return b.index
}

// acquire asks for a lease, and waits for it if it is held.
func (b *eventBackend) acquire(name string) uint64 {
	return b.apply(lease.Acquire{Name: name, Holder: "h", RequestID: fmt.Sprint(b.index), TTL: time.Second, Wait: time.Second})
}

func (b *eventBackend) release(name string, token uint64) uint64 {
	return b.apply(lease.Release{Name: name, Holder: "h", Token: token})
}

// restore replaces the state by a snapshot at a later index.
func (b *eventBackend) restore(t *testing.T, ahead uint64) {
	t.Helper()
	other := &eventBackend{machine: fsm.New(fsm.Config{}), index: b.index + ahead - 1}
	other.apply(lease.Lead{Node: "n3"})
	var snapshot bytes.Buffer
	if err := fsm.WriteSnapshot(&snapshot, other.machine.Freeze()); err != nil {
		t.Fatal(err)
	}
	if err := b.machine.Restore(io.NopCloser(&snapshot)); err != nil {
		t.Fatal(err)
	}
	b.index = other.index
}

// streaming runs a test against a served Server with a real state machine, in
// virtual time. A stream, or anything of it, that is left when it ends fails the
// test.
func streaming(t *testing.T, test func(t *testing.T, b *eventBackend, s *Server, l *pipeListener)) {
	synctest.Test(t, func(t *testing.T) {
		b := newEventBackend(t)
		var background sync.WaitGroup
		done := make(chan struct{})
		background.Go(func() { b.machine.AnnounceEvents(done) })
		s, l := newServer(t, b), newPipeListener()
		background.Go(func() {
			if err := s.Serve(l); err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
		test(t, b, s, l)
		s.Close()
		close(done)
		background.Wait()
		synctest.Wait()
		if n := s.open(); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}

// open is the number of streams.
func (s *Server) open() int {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	return len(s.streams.open)
}

// reader is a client of a stream.
type reader struct {
	conn  net.Conn
	resp  *http.Response
	lines *bufio.Scanner
}

// follow asks for events and reads the headers. Each header line is a whole one.
func follow(t *testing.T, l *pipeListener, query string, headers ...string) *reader {
	t.Helper()
	conn := l.dial()
	send(conn, "GET /v1/events"+query+" HTTP/1.1\r\nHost: h1\r\n"+strings.Join(append(headers, ""), "\r\n")+"\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	checkPlace(t, resp.Header)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("got %d %s: %s", resp.StatusCode, resp.Header.Get("Content-Type"), body)
	}
	return &reader{conn, resp, bufio.NewScanner(resp.Body)}
}

type sent struct{ id, event, data string }

// next reads one server-sent event, and gives none at the end of the stream.
func (r *reader) next(t *testing.T) (got sent, ok bool) {
	t.Helper()
	for r.lines.Scan() {
		name, value, _ := strings.Cut(r.lines.Text(), ": ")
		switch name {
		case "id":
			got.id = value
		case "event":
			got.event = value
		case "data":
			got.data = value
		case "":
			return got, true
		default:
			t.Fatalf("the stream has a line %q", r.lines.Text())
		}
	}
	return got, false
}

// events reads n events of the log, and passes heartbeats over.
func (r *reader) events(t *testing.T, n int) (events []wire.Event) {
	t.Helper()
	for len(events) < n {
		got, ok := r.next(t)
		if !ok {
			t.Fatalf("the stream ended after %d events, want %d", len(events), n)
		}
		if got.event == heartbeatEvent {
			continue
		}
		var ev wire.Event
		if err := json.Unmarshal([]byte(got.data), &ev); err != nil {
			t.Fatal(err)
		}
		if got.id != fmt.Sprint(ev.Index) || got.event != ev.Kind {
			t.Errorf("id %s, event %s with the data %s", got.id, got.event, got.data)
		}
		events = append(events, ev)
	}
	return events
}

func (r *reader) heartbeat(t *testing.T) (beat wire.Heartbeat) {
	t.Helper()
	got, _ := r.next(t)
	if err := json.Unmarshal([]byte(got.data), &beat); err != nil || got.event != heartbeatEvent || got.id != "" {
		t.Fatalf("got %+v, want a heartbeat without an id", got)
	}
	return beat
}

// brief writes events as "index kind name", with a plus if there is more of the
// entry.
func brief(events []wire.Event) string {
	var b strings.Builder
	for _, ev := range events {
		fmt.Fprintf(&b, "%d %s %s", ev.Index, ev.Kind, ev.Name+ev.Register+ev.Node)
		if ev.More {
			b.WriteString(" +")
		}
		b.WriteString("\n")
	}
	return strings.TrimSpace(b.String())
}

// A stream begins with a heartbeat, sends what was and then what happens, says
// which events belong to one entry, and beats every second.
func TestEvents_Stream(t *testing.T) {
	streaming(t, func(t *testing.T, b *eventBackend, s *Server, l *pipeListener) {
		b.apply(lease.Lead{Node: "n1"})
		first := b.acquire("a")
		r := follow(t, l, "?since=0")
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Leasehold-Node": "n1",
			"X-Leasehold-Index": "2", "X-Leasehold-Term": "3", "Content-Length": "",
		} {
			if got := r.resp.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if beat := r.heartbeat(t); beat.Index != 2 || beat.Since != 0 || beat.Term != 4 || beat.Node != "n1" || *beat.Leader != (wire.Node{ID: "n2", Address: "h2:2"}) {
			t.Errorf("the first heartbeat is %+v", beat)
		}
		if got, want := brief(r.events(t, 2)), "1 leader n1\n2 granted a"; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		b.acquire("a")
		b.release("a", first)
		if got, want := brief(r.events(t, 3)), "3 queued a\n4 released a +\n4 granted a"; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		for range 3 {
			began := time.Now()
			beat := r.heartbeat(t)
			if beat.Index != 4 || beat.Since != 4 || time.Since(began) != heartbeatPeriod {
				t.Errorf("after %v: %+v", time.Since(began), beat)
			}
		}
		r.conn.Close()
		synctest.Wait()
		if n := s.open(); n != 0 {
			t.Errorf("the client has gone, and %d streams are left", n)
		}
	})
}

// Where a stream begins: now, after since, after the header, which counts for
// more, and in the future with nothing before it.
func TestEvents_Since(t *testing.T) {
	for _, tt := range []struct {
		query  string
		header []string
		since  uint64 // in the first heartbeat
		want   string // the first event
	}{
		{"", nil, 4, "5 granted new"},
		{"?since=0", nil, 0, "1 granted x"},
		{"?since=2", nil, 2, "3 granted x"},
		{"?since=4", nil, 4, "5 granted new"},
		{"", []string{"Last-Event-ID: 3"}, 3, "4 granted x"},
		{"?since=0", []string{"last-event-id:  3 "}, 3, "4 granted x"},
		{"?since=5", nil, 5, "6 granted newer"},
		{"?since=18446744073709551615", nil, 1<<64 - 1, ""},
	} {
		streaming(t, func(t *testing.T, b *eventBackend, _ *Server, l *pipeListener) {
			for i := range 4 {
				b.acquire(fmt.Sprint("x", i))
			}
			r := follow(t, l, tt.query, tt.header...)
			if beat := r.heartbeat(t); beat.Index != 4 || beat.Since != tt.since {
				t.Errorf("%q %q: the first heartbeat is %+v", tt.query, tt.header, beat)
			}
			b.acquire("new")
			b.acquire("newer")
			if tt.want == "" {
				for range 3 {
					r.heartbeat(t)
				}
				return
			}
			if got := brief(r.events(t, 1)); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%q %q: the first event is %s, want %s", tt.query, tt.header, got, tt.want)
			}
		})
	}
}

// A prefix picks leases and registers by name, whole entries, and every change of
// leader; what it leaves out moves the place of the reader on.
func TestEvents_Prefix(t *testing.T) {
	streaming(t, func(t *testing.T, b *eventBackend, _ *Server, l *pipeListener) {
		a := b.acquire("jobs/a")
		b.acquire("job")
		b.acquire("jobs/a")
		b.apply(lease.Lead{Node: "n2"})
		b.apply(lease.Write{Register: "jobs/r", Value: "v"})
		b.apply(lease.Write{Register: "r", Value: "v"})
		b.release("jobs/a", a)
		b.acquire("zzz")
		r := follow(t, l, "?since=0&prefix=jobs/")
		want := "1 granted jobs/a\n3 queued jobs/a\n4 leader n2\n5 written jobs/r\n7 released jobs/a +\n7 granted jobs/a"
		if got := brief(r.events(t, 6)); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		if beat := r.heartbeat(t); beat.Since != 8 || beat.Index != 8 {
			t.Errorf("the heartbeat says %+v", beat)
		}
	})
}

// What comes when a client asks for what is no longer there, at the start and in
// the middle of a stream.
func TestEvents_Compacted(t *testing.T) {
	streaming(t, func(t *testing.T, b *eventBackend, s *Server, l *pipeListener) {
		b.acquire("a")
		r := follow(t, l, "")
		r.heartbeat(t)
		b.restore(t, 100)
		got, ok := r.next(t)
		var p wire.Problem
		if err := json.Unmarshal([]byte(got.data), &p); err != nil || !ok || got.id != "" || got.event != "compacted" {
			t.Fatalf("got %+v, %v", got, err)
		}
		if p.Code != "compacted" || p.Status != 410 || p.Index != 101 || !strings.Contains(p.Detail, "list the leases") {
			t.Errorf("the problem is %+v", p)
		}
		if got, ok := r.next(t); ok {
			t.Errorf("the stream goes on with %+v", got)
		}

		for _, query := range []string{"?since=0", "?since=100"} {
			p := problemIn(t, do(t, s, "GET", "/v1/events"+query, ""))
			if p.Status != 410 || p.Code != "compacted" || p.Index != 101 {
				t.Errorf("%s: %+v", query, p)
			}
		}
		r = follow(t, l, "?since=101")
		r.heartbeat(t)
		b.acquire("b")
		if got := brief(r.events(t, 1)); got != "102 granted b" {
			t.Errorf("after the snapshot: %s", got)
		}
	})
}

// Nonsense is refused with the name of the field, before anything is sent.
func TestEvents_Hostile(t *testing.T) {
	s := newServer(t, newEventBackend(t))
	for query, field := range map[string]string{
		"since=-1": "since", "since=": "since", "since": "since", "since=01": "since", "since=1.0": "since", "since=1e3": "since",
		"since=18446744073709551616": "since", "since=%31%00": "since", "since=0x1": "since", "since=1&since=1": "since",
		"since=+1": "since", "since=%2B1": "since", "since=now": "since", "since=" + strings.Repeat("9", 4000): "since",
		"prefix=/a": "prefix", "prefix=a//b": "prefix", "prefix=a%20b": "prefix", "prefix=%ff": "prefix",
		"prefix=" + strings.Repeat("a", 256): "prefix", "limit=1": "limit", "Since=1": "Since", "": "Last-Event-ID",
	} {
		for _, header := range [][]string{{"x"}, {""}, {"-1"}, {"1", "1"}, {"1,2"}} {
			r := httptest.NewRequest("GET", "http://h1/v1/events", nil)
			r.URL.RawQuery = query
			if query == "" {
				r.Header["Last-Event-Id"] = header
			}
			p := problemIn(t, recorded(s, r))
			if p.Status != 400 || p.Field != field {
				t.Errorf("%q %q: %+v, want 400 with field %s", query, header, p, field)
			}
		}
	}
}

// HEAD says what GET would and ends.
func TestEvents_Head(t *testing.T) {
	b := newEventBackend(t)
	b.acquire("a")
	s := newServer(t, b)
	w := do(t, s, "HEAD", "/v1/events?since=0", "")
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream" || w.Body.Len() != 0 || s.open() != 0 {
		t.Errorf("got %d, %v, %q, %d streams", w.Code, w.Header(), w.Body, s.open())
	}
	if w := do(t, s, "POST", "/v1/events", ""); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

// A reader that takes nothing for 10 s is cut off, not before, and the others go on.
func TestEvents_BlockedReader(t *testing.T) {
	streaming(t, func(t *testing.T, b *eventBackend, s *Server, l *pipeListener) {
		slow := follow(t, l, "") // the pipe has no buffer, so the next heartbeat blocks
		slow.heartbeat(t)
		other := follow(t, l, "")
		for range 11 {
			other.heartbeat(t)
		}
		time.Sleep(900 * time.Millisecond) // 9.9 s after the first write that blocked
		if n := s.open(); n != 2 {
			t.Errorf("after 9.9 s there are %d streams, want 2", n)
		}
		other.heartbeat(t)
		time.Sleep(200 * time.Millisecond)
		if n := s.open(); n != 1 {
			t.Errorf("after 10.2 s there are %d streams, want 1", n)
		}
		if got, ok := slow.next(t); ok {
			t.Errorf("the slow reader got %+v", got)
		}
		b.acquire("a")
		other.events(t, 1)
	})
}

// A reader that takes nothing and falls more than 1,000 entries behind is cut off
// without waiting for the 10 s.
func TestEvents_ReaderFarBehind(t *testing.T) {
	streaming(t, func(t *testing.T, b *eventBackend, s *Server, l *pipeListener) {
		slow := follow(t, l, "")
		slow.heartbeat(t)
		time.Sleep(1100 * time.Millisecond) // its heartbeat blocks
		for range maxBehind {
			b.apply(lease.Lead{Node: "n1"})
		}
		time.Sleep(time.Second)
		if n := s.open(); n != 1 {
			t.Fatal("it was cut off at 1,000")
		}
		b.apply(lease.Lead{Node: "n1"})
		time.Sleep(guardPeriod)
		synctest.Wait()
		if n := s.open(); n != 0 {
			t.Error("it was not cut off beyond 1,000")
		}
	})
}

// A reader that begins far back is not slow as long as it reads, however long it
// takes, and even if it stops for longer than a reader at the end of the log may.
func TestEvents_ReaderCatchesUp(t *testing.T) {
	streaming(t, func(t *testing.T, b *eventBackend, s *Server, l *pipeListener) {
		const backlog = 3 * maxBehind
		for range backlog {
			b.apply(lease.Lead{Node: "n1"})
		}
		r := follow(t, l, "?since=0")
		for i := range backlog {
			if ev := r.events(t, 1)[0]; ev.Index != uint64(i+1) {
				t.Fatalf("event %d has index %d", i, ev.Index)
			}
			if i%100 == 0 {
				time.Sleep(600 * time.Millisecond)
			}
		}
		if s.open() != 1 {
			t.Error("it was cut off")
		}
	})
}

// A stopping server does not wait for its streams, neither for one that is read
// nor for one that is blocked; and those that come later end at once.
func TestEvents_Shutdown(t *testing.T) {
	streaming(t, func(t *testing.T, _ *eventBackend, s *Server, l *pipeListener) {
		blocked := follow(t, l, "")
		blocked.heartbeat(t)
		time.Sleep(1500 * time.Millisecond)
		reading := follow(t, l, "")
		ended := make(chan bool)
		go func() {
			for {
				if _, ok := reading.next(t); !ok {
					close(ended)
					return
				}
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Shutdown(ctx); err != nil || time.Since(began) > time.Second {
			t.Errorf("Shutdown took %v and came to %v", time.Since(began), err)
		}
		<-ended
		if err := reading.lines.Err(); err != nil {
			t.Errorf("the stream that was read did not end as it should: %v", err)
		}
		if w := do(t, s, "GET", "/v1/events", ""); w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("a late one gets %d %q", w.Code, w.Body)
		}
	})
}

// A panic in a stream breaks its connection off, is logged, and leaves nothing.
func TestStream_Panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newFake())
		defer s.Close()
		for _, v := range []any{"a bug", http.ErrAbortHandler} {
			func() {
				defer func() {
					if got := recover(); got != http.ErrAbortHandler {
						t.Errorf("%v became %v", v, got)
					}
				}()
				s.writeStream(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), answer{stream: func(*stream) error { panic(v) }})
			}()
		}
		synctest.Wait()
		if s.open() != 0 {
			t.Error("the stream is still there")
		}
	})
}

// Every kind of event has the fields that concern it.
func TestEventOf(t *testing.T) {
	for want, ev := range map[string]lease.Event{
		`{"index":7,"term":3,"at":"2023-11-14T22:13:20.000Z","kind":"leader","node":"n1","why":"n1 won term 3; every lease has its full TTL again"}`: {Kind: lease.KindLeader, Name: "n1"},

		`{"index":7,"term":3,"at":"2023-11-14T22:13:20.000Z","kind":"granted","name":"a","holder":"<h>","request_id":"r","token":7,"place":5,"why":"first in the queue since index 5: token 4 ended in this same entry"}`: {
			Kind: lease.KindGranted, Name: "a", Holder: "<h>", RequestID: "r", Token: 7, Place: 5, Other: 4,
		},
		`{"index":7,"term":3,"at":"2023-11-14T22:13:20.000Z","kind":"cooling","name":"a","token":4,"lock_delay_ms":1500,"why":"the grant of token 4 asked that nobody be granted for 1.5s after it"}`: {
			Kind: lease.KindCooling, Name: "a", Token: 4, Delay: 1500 * time.Millisecond,
		},
		`{"index":7,"term":3,"at":"2023-11-14T22:13:20.000Z","kind":"revoked","name":"a","holder":"h","token":4,"reason":"stuck","why":"an operator took token 4 away from h: stuck"}`: {
			Kind: lease.KindRevoked, Name: "a", Holder: "h", Token: 4, Reason: "stuck",
		},
		`{"index":7,"term":3,"at":"2023-11-14T22:13:20.000Z","kind":"refused","register":"r","token":4,"cause":"stale_token","why":"token 4 came after token 6 had been seen"}`: {
			Kind: lease.KindRefused, Name: "r", Register: true, Token: 4, Cause: lease.ErrStaleToken, Other: 6,
		},
	} {
		ev.Index, ev.Term, ev.At = 7, 3, 1_700_000_000_000
		want = fmt.Sprintf("id: 7\nevent: %s\ndata: %s\n\n", ev.Kind, want)
		if got := string(eventFrames([]lease.Event{ev})); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// Every refusal that can stand in the log has a code of its own kind.
func TestCauseOf(t *testing.T) {
	got := make(map[string]error)
	for _, err := range []error{
		lease.ErrHeld, lease.ErrCooling, lease.ErrNotHolder, lease.ErrLost, lease.ErrRequestEnded, lease.ErrStaleToken,
		lease.ErrRenewed, lease.ErrOldTerm, lease.ErrNotCooling, lease.ErrNotQueued,
	} {
		code := causeOf(err)
		if code == "internal" || got[code] != nil {
			t.Errorf("%v has the code %q, as has %v", err, code, got[code])
		}
		got[code] = err
	}
	if code := causeOf(lease.ErrNotLive); code == "internal" {
		t.Error("ErrNotLive has no code")
	}
}

// Many streams with many filters, and a machine that does much: everybody gets
// what concerns him, in order, nothing twice, and each entry whole.
func TestEvents_ManyReaders(t *testing.T) {
	streaming(t, func(t *testing.T, b *eventBackend, _ *Server, l *pipeListener) {
		const readers, rounds = 20, 300
		var all sync.WaitGroup
		got := make([][]wire.Event, readers)
		for i := range readers {
			r := follow(t, l, fmt.Sprintf("?since=0&prefix=%d/", i%4))
			all.Go(func() {
				for last := ""; last != "end"; {
					ev := r.events(t, 1)[0]
					got[i], last = append(got[i], ev), ev.Node
				}
			})
		}
		want := make([][]string, 4)
		for i := range rounds {
			name := fmt.Sprintf("%d/a", i%4)
			token := b.acquire(name)
			b.acquire(name)
			next := b.release(name, token)
			last := b.release(name, next)
			want[i%4] = append(want[i%4],
				fmt.Sprintf("%d granted %s\n%d queued %s\n%d released %s +\n%d granted %s\n%d released %s",
					token, name, token+1, name, next, name, next, name, last, name))
			if i%50 == 0 {
				time.Sleep(time.Second)
			}
		}
		end := b.apply(lease.Lead{Node: "end"})
		all.Wait()
		for i := range readers {
			expect := strings.Join(append(slices.Clone(want[i%4]), fmt.Sprintf("%d leader end", end)), "\n")
			if brief(got[i]) != expect {
				t.Errorf("reader %d got\n%s\nwant\n%s", i, brief(got[i]), expect)
			}
		}
	})
}
