package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/httpapi/wire"
)

// eventServer sends events and then goes on, as a server does, unless it is said
// to break off.
func eventServer(t *testing.T, breakOff bool, events ...wire.Event) (address string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.RequestURI)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: heartbeat\ndata: {\"since\":1,\"leader\":{\"id\":\"n1\"}}\n\n")
		for _, ev := range events {
			data, _ := json.Marshal(ev)
			fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", ev.Index, ev.Kind, data)
		}
		_ = http.NewResponseController(w).Flush()
		if !breakOff {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), asked
}

var (
	granted = wire.Event{
		Index: 7, Term: 2, At: "2026-11-30T10:00:00.123Z", Kind: "granted", Name: "jobs/a",
		Holder: "w1", Token: 7, Why: "the lease was free at index 7",
	}
	ledBy = wire.Event{Index: 12, At: "2026-11-30T10:00:01.000Z", Kind: "leader", Node: "n2", Why: "n2 won term 3"}
)

// watchUntil runs a watch until stdout has so many lines, as somebody who then
// presses Ctrl-C.
func watchUntil(t *testing.T, lines int, servers string, args ...string) (r result, out []string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	deadline := time.AfterFunc(patience, func() { cancel(nil) })
	defer deadline.Stop()
	var stdout, stderr output
	stop := writerFunc(func(b []byte) (int, error) {
		_, _ = stdout.Write(b)
		if strings.Count(stdout.String(), "\n") == lines {
			cancel(&signalError{syscall.SIGINT})
		}
		return len(b), nil
	})
	env := func(string) string { return servers }
	code := Run(ctx, append([]string{"leasehold", "watch"}, args...), stop, &stderr, env)
	r = result{code, stdout.String(), stderr.String()}
	return r, strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// People get a line an event with all that matters, aligned; and Ctrl-C ends it
// with 128+2.
func TestWatch_Table(t *testing.T) {
	server, asked := eventServer(t, false, granted, ledBy)
	r, lines := watchUntil(t, 2, server, "--prefix", "jobs/", "--since", "0")
	if r.code != exitSignal+2 || len(lines) != 2 {
		t.Fatalf("%+v", r)
	}
	for i, words := range [][]string{
		{"7", "granted", "jobs/a", "w1", "7", "the lease was free at index 7"},
		{"12", "leader", "node n2", "n2 won term 3"},
	} {
		at := 0
		for _, word := range words {
			next := strings.Index(lines[i][at:], word)
			if next < 0 {
				t.Errorf("%q lacks %q in its place", lines[i], word)
				break
			}
			at += next + len(word)
		}
	}
	if strings.Index(lines[0], "the lease") != strings.Index(lines[1], "n2 won") {
		t.Errorf("not aligned:\n%s", r.stdout)
	}
	if got := fmt.Sprint(*asked); got != "[/v1/events?prefix=jobs%2F&since=0]" {
		t.Errorf("asked %s", got)
	}
}

// Programs get the event as the server sent it, one a line. When the server is
// lost stderr says where it goes on, and nothing comes twice.
func TestWatch_JSON_Moves(t *testing.T) {
	first, _ := eventServer(t, true, granted)
	second, asked := eventServer(t, false, granted, ledBy)
	r, lines := watchUntil(t, 2, first+","+second, "--json")
	var got []wire.Event
	for _, line := range lines {
		var ev wire.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		got = append(got, ev)
	}
	if len(got) != 2 || got[0] != granted || got[1] != ledBy {
		t.Errorf("got %+v", got)
	}
	if !strings.Contains(r.stderr, "now watching "+second+" ("+first+": it has ended the stream)") {
		t.Errorf("stderr: %s", r.stderr)
	}
	if got := fmt.Sprint(*asked); got != "[/v1/events?since=7]" {
		t.Errorf("asked %s", got)
	}
}

// A reader that has seen enough, such as head, ends it without a word.
func TestWatch_ClosedOutput(t *testing.T) {
	server, _ := eventServer(t, false, granted)
	for _, args := range [][]string{{}, {"--json"}} {
		var stderr output
		broken := writerFunc(func([]byte) (int, error) { return 0, fmt.Errorf("write: %w", syscall.EPIPE) })
		code := Run(t.Context(), append([]string{"leasehold", "watch"}, args...), broken, &stderr, func(string) string { return server })
		if code != exitDone || stderr.String() != "" {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr.String())
		}
		full := writerFunc(func([]byte) (int, error) { return 0, io.ErrShortWrite })
		if code := Run(t.Context(), append([]string{"leasehold", "watch"}, args...), full, &stderr, func(string) string { return server }); code != exitError {
			t.Errorf("%v: a full disk exits %d", args, code)
		}
	}
}

// What is compacted exits 1 with the code; what is misused exits 2; no server 125.
func TestWatch_Errors(t *testing.T) {
	gone := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 410, wire.Problem{Code: "compacted", Detail: "list the leases", Index: 40})
	})
	run(t, gone, "watch", "--since", "3").expect(t, exitError, "", "compacted: list the leases")
	run(t, gone, "watch", "--since", "-3").expect(t, exitUsage, "", "an index is a whole number")
	run(t, gone, "watch", "--since", "0x3").expect(t, exitUsage, "", "an index is a whole number")
	run(t, gone, "watch", "jobs/a").expect(t, exitUsage, "", "no arguments are expected")
	run(t, dead(t), "watch", "--timeout", "50ms").expect(t, exitUnavailable, "", "unreachable")
}
