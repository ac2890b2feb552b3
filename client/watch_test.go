package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// script is what a fake server does with one stream of events.
type script func(r *http.Request, w *io.PipeWriter)

// streams answers each request with the script of its number, and the last one
// from then on.
func streams(asked *[]string, scripts ...script) func(*http.Request) (*http.Response, error) {
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		*asked = append(*asked, r.URL.Host+" "+r.URL.RawQuery)
		play := scripts[min(n, len(scripts)-1)]
		n++
		in, out := io.Pipe()
		// A real transport breaks the body off when the context ends.
		stop := context.AfterFunc(r.Context(), func() { in.CloseWithError(context.Cause(r.Context())) })
		go func() {
			defer stop()
			defer out.Close()
			play(r, out)
		}()
		header := http.Header{"Content-Type": {"text/event-stream"}}
		return &http.Response{StatusCode: 200, Header: header, Body: in}, nil
	}
}

// says sends text, with the frames of the events in it, and ends the stream.
func says(text ...string) script {
	return func(_ *http.Request, w *io.PipeWriter) { _, _ = io.WriteString(w, strings.Join(text, "")) }
}

// saysAndGoesOn does the same and then beats until the client goes.
func saysAndGoesOn(text ...string) script {
	return func(r *http.Request, w *io.PipeWriter) {
		says(text...)(r, w)
		for sleep(r.Context(), time.Second) {
			_, _ = io.WriteString(w, beat(0))
		}
	}
}

// saysAndHangs says no more, as a paused server.
func saysAndHangs(text ...string) script {
	return func(r *http.Request, w *io.PipeWriter) {
		says(text...)(r, w)
		<-r.Context().Done()
	}
}

func beat(since uint64) string {
	return fmt.Sprintf("event: heartbeat\ndata: {\"index\":99,\"since\":%d,\"term\":1,\"leader\":{\"id\":\"n1\",\"address\":\"h:1\"},\"node\":\"n1\"}\n\n", since)
}

// on is an event, more if there is more of its entry.
func on(index uint64, kind string, more bool) string {
	return fmt.Sprintf("id: %d\nevent: %s\ndata: {\"index\":%d,\"kind\":%q,\"more\":%v}\n\n", index, kind, index, kind, more)
}

// watching runs a watch until it has seen n events or fails, and gives what it has
// seen, the error and the servers that it moved to.
func watching(t *testing.T, net network, o WatchOptions, n int, servers ...string) (seen []string, moves []string, err error) {
	t.Helper()
	c := net.client(t, Config{Servers: servers, Timeout: 10 * time.Second})
	o.Moved = func(server string, why error) { moves = append(moves, fmt.Sprintf("%s: %v", host(server), why)) }
	for ev, e := range c.Watch(t.Context(), o) {
		if e != nil {
			return seen, moves, e
		}
		if seen = append(seen, fmt.Sprintf("%d %s", ev.Index, ev.Kind)); len(seen) == n {
			return seen, moves, nil
		}
	}
	t.Error("the watch ended without an error")
	return seen, moves, nil
}

// A watch that is cut off in the middle of an entry gets the entry as a whole from
// the next server; what it has seen it does not see again; and it begins at the
// now of the first server.
func TestAPI_Watch_ResumesWithoutGapOrRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		net := network{
			"a:1": streams(&asked, says(beat(10), on(11, "granted", false), on(12, "released", true))),
			"b:2": streams(&asked, saysAndGoesOn(beat(11), on(10, "old", false), on(11, "granted", false),
				on(12, "released", true), on(12, "granted", false), on(15, "leader", false))),
		}
		seen, moves, err := watching(t, net, WatchOptions{Prefix: "x/"}, 4, "a:1", "b:2")
		if want := "[11 granted 12 released 12 granted 15 leader]"; fmt.Sprint(seen) != want || err != nil {
			t.Errorf("seen %v, %v; want %s", seen, err, want)
		}
		if want := "[a:1 prefix=x%2F b:2 prefix=x%2F&since=11]"; fmt.Sprint(asked) != want {
			t.Errorf("asked %v, want %s", asked, want)
		}
		if len(moves) != 1 || !strings.HasPrefix(moves[0], "b:2: unreachable: a:1: ") {
			t.Errorf("moves %v", moves)
		}
	})
}

// A heartbeat moves the place on when nothing passes the filter, and only up to
// what was sent.
func TestAPI_Watch_ResumesFromHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		net := network{"a:1": streams(&asked, says(beat(10), beat(40)), saysAndGoesOn(beat(40), on(41, "x", false)))}
		seen, _, err := watching(t, net, WatchOptions{Since: new(uint64(7))}, 1, "a:1")
		if err != nil || fmt.Sprint(seen, asked) != "[41 x] [a:1 since=7 a:1 since=40]" {
			t.Errorf("seen %v, asked %v, %v", seen, asked, err)
		}
	})
}

// A server that hangs is left after 3 s; one that is not there at once.
func TestAPI_Watch_SilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		net := network{
			"a:1": streams(&asked, saysAndHangs(beat(10))),
			"b:2": refuse,
			"c:3": hang,
			"d:4": streams(&asked, saysAndGoesOn(beat(10), on(11, "x", false))),
		}
		began := time.Now()
		seen, moves, err := watching(t, net, WatchOptions{}, 1, "a:1", "b:2", "c:3", "d:4")
		if err != nil || len(seen) != 1 || time.Since(began) != 2*quietStream {
			t.Errorf("seen %v after %v, %v; want one event after %v", seen, time.Since(began), err, 2*quietStream)
		}
		if want := "[d:4: unreachable: a:1: no heartbeat for 3s]"; fmt.Sprint(moves) != want {
			t.Errorf("moves %v, want %s", moves, want)
		}
	})
}

// A loop that takes its time is not mistaken for a silent server.
func TestAPI_Watch_SlowLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		net := network{"a:1": streams(&asked, saysAndGoesOn(beat(10), on(11, "x", false), on(12, "x", false), on(13, "x", false)))}
		c := net.client(t, Config{Servers: []string{"a:1"}})
		n := 0
		for _, err := range c.Watch(t.Context(), WatchOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * quietStream)
			if n++; n == 3 {
				break
			}
		}
		if len(asked) != 1 {
			t.Errorf("asked %v, want once", asked)
		}
	})
}

// A server that has known no leader for a while may be cut off from the others,
// and is left if there are any.
func TestAPI_Watch_LeaderlessServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		alone := strings.Replace(beat(10), `{"id":"n1","address":"h:1"}`, "null", 1)
		net := network{
			"a:1": streams(&asked, func(r *http.Request, w *io.PipeWriter) {
				for again := true; again; again = sleep(r.Context(), time.Second) {
					_, _ = io.WriteString(w, alone)
				}
			}),
			"b:2": streams(&asked, saysAndGoesOn(beat(10), on(11, "x", false))),
		}
		began := time.Now()
		seen, _, err := watching(t, net, WatchOptions{}, 1, "a:1", "b:2")
		if err != nil || len(seen) != 1 || time.Since(began) != leaderless {
			t.Errorf("seen %v after %v, %v", seen, time.Since(began), err)
		}
	})
}

// What one server no longer keeps another may; only when none of those that
// answer does is it an error, with the index.
func TestAPI_Watch_Compacted(t *testing.T) {
	gone := `{"status":410,"code":"compacted","detail":"why","index":500}`
	for _, elsewhere := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var asked []string
			net := network{
				"a:1": streams(&asked, says(beat(10), on(11, "x", false), "event: compacted\ndata: "+gone+"\n\n")),
				"b:2": respond(410, gone),
				"c:3": refuse,
			}
			if elsewhere {
				net["c:3"] = streams(&asked, saysAndGoesOn(beat(11), on(12, "x", false)))
			}
			seen, _, err := watching(t, net, WatchOptions{}, 2, "a:1", "b:2", "c:3")
			if elsewhere {
				if err != nil || fmt.Sprint(seen) != "[11 x 12 x]" {
					t.Errorf("seen %v, %v", seen, err)
				}
				return
			}
			var e *Error
			if !errors.Is(err, ErrCompacted) || !errors.As(err, &e) || e.Index != 500 || e.Code != "compacted" || len(seen) != 1 {
				t.Errorf("seen %v, %v; want compacted at 500", seen, err)
			}
		})
	}
}

// Without a server the watch gives up as a call does, and says what is wrong with
// each; a definite refusal ends it at once; a cancelled context too.
func TestAPI_Watch_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, _, err := watching(t, network{"a:1": refuse, "b:2": respond(503, `{"code":"no_quorum"}`)}, WatchOptions{}, 1, "a:1", "b:2")
		if took := time.Since(began); !errors.Is(err, ErrUnavailable) || took < 10*time.Second || took > 11*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		_, _, err = watching(t, network{"a:1": refuse}, WatchOptions{}, 1, "a:1")
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "a:1: connection refused") {
			t.Errorf("nobody there: %v", err)
		}
		began = time.Now()
		for body, want := range map[string]string{
			`{"code":"invalid_argument","detail":"prefix is bad"}`: "invalid_argument: prefix is bad",
			`<html>`: "unexpected: a:1: answered 400 Bad Request: <html>",
		} {
			if _, _, err = watching(t, network{"a:1": respond(400, body)}, WatchOptions{}, 1, "a:1"); err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		if _, _, err = watching(t, network{"a:1": respond(200, "{}")}, WatchOptions{}, 1, "a:1"); !strings.Contains(err.Error(), "no stream of events") {
			t.Errorf("no stream: %v", err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("definite answers took %v", took)
		}

		var asked []string
		for _, server := range []func(*http.Request) (*http.Response, error){hang, refuse, streams(&asked, saysAndGoesOn(beat(10)))} {
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("enough")
			time.AfterFunc(1500*time.Millisecond, func() { cancel(cause) })
			began := time.Now()
			c := network{"a:1": server}.client(t, Config{Servers: []string{"a:1"}})
			for _, err = range c.Watch(ctx, WatchOptions{}) {
			}
			if took := time.Since(began); !errors.Is(err, cause) || took != 1500*time.Millisecond {
				t.Errorf("cancelled: %v after %v", err, took)
			}
		}
	})
}

// A server that sends nonsense is named, and what it sends is not made up for.
func TestAPI_Watch_Nonsense(t *testing.T) {
	for _, text := range []string{
		on(11, "x", false), // before the first heartbeat
		"event: heartbeat\ndata: nonsense\n\n",
		beat(10) + "id: 11\nevent: x\ndata: [\n\n",
		beat(10) + on(11, "x", true) + on(12, "x", false),
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked []string
			seen, _, err := watching(t, network{"a:1": streams(&asked, says(text))}, WatchOptions{}, 1, "a:1")
			var e *Error
			if !errors.As(err, &e) || e.Code != codeUnexpected || len(seen) != 0 {
				t.Errorf("%q: seen %v, %v", text, seen, err)
			}
		})
	}
}

// Frames come in the forms that the standard allows.
func TestFrames(t *testing.T) {
	f := newFrames(strings.NewReader(": comment\n\n\n\nid:1\r\nevent: a\r\nretry: 5\r\ndata: x\r\ndata:y\r\n\r\ndata: cut"))
	var got []string
	for {
		next, err := f.next()
		if err != nil {
			got = append(got, err.Error())
			break
		}
		got = append(got, fmt.Sprintf("%s/%s/%s", next.id, next.event, next.data))
	}
	if want := "[// 1/a/x\ny unexpected EOF]"; fmt.Sprint(got) != want {
		t.Errorf("got %q, want %q", fmt.Sprint(got), want)
	}
	if _, err := newFrames(strings.NewReader("data: " + strings.Repeat("x", maxFrameLine))).next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a line without end: %v", err)
	}
}
