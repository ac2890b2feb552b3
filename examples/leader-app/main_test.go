package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/examples/child"
)

// TestMain is also what the copies of a test run.
func TestMain(m *testing.M) {
	if child.IsThis() {
		main()
		return
	}
	os.Exit(m.Run())
}

// few is a demonstration that is over soon.
var few = demoSettings{
	copySettings: copySettings{ttl: time.Second, work: 20 * time.Millisecond},
	copies:       3, clients: 6, kills: 2, pauses: 1,
}

// TestDemonstrate ensures, with copies that are processes of which the active one is
// killed and paused while clients send requests, that each request that was answered
// is in the journal once, in the order of the grants, and that a late write is refused.
func TestDemonstrate(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var out bytes.Buffer
	r, err := few.demonstrate(t.Context(), &out)
	if err != nil {
		t.Fatalf("%v, after\n%s", err, out.String())
	}
	r.print(&out)
	t.Log("\n" + out.String())
	sum := r.sum()
	if r.verdict() != nil {
		t.Errorf("%v: %+v", r.verdict(), sum)
	}
	if len(r.entries) != len(r.successes) || len(r.entries) < steady*(few.kills+few.pauses) {
		t.Errorf("the journal has %d entries, and %d requests were answered", len(r.entries), len(r.successes))
	}
	if r.kills != few.kills || r.pauses != few.pauses || r.refusals == 0 {
		t.Errorf("%d kills, %d pauses and %d refusals, want %d, %d and 1 or more", r.kills, r.pauses, r.refusals, few.kills, few.pauses)
	}
	if terms := terms(r.entries); terms <= few.kills+few.pauses {
		t.Errorf("the journal is of %d terms, after %d faults", terms, few.kills+few.pauses)
	}
	if sum.passedOn == 0 || sum.passedOn == len(r.successes) {
		t.Errorf("%d of %d requests were passed on", sum.passedOn, len(r.successes))
	}
	for _, f := range r.faults {
		// The silence is for the TTL at most, then come the hand-over and the clients.
		if f.gap <= 0 || f.gap > few.ttl+10*time.Second {
			t.Errorf("nothing was answered for %v", f.gap)
		}
	}
	nothingLeft(t, r.pids, temporary)
	if want := few.copies + few.kills; len(r.pids) != want {
		t.Errorf("there were %d processes, want %d", len(r.pids), want)
	}
}

// TestDemonstrate_Unfenced ensures that a demonstration sees it when there are two
// leaders: without the fence the one that was paused goes on counting from its own
// total. Of three pauses at least one has a write under way.
func TestDemonstrate_Unfenced(t *testing.T) {
	s := few
	s.unfenced, s.kills, s.pauses = true, 0, 3
	r, err := s.demonstrate(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if sum := r.sum(); sum.wrong == 0 || r.verdict() == nil {
		t.Errorf("nothing is wrong: %+v", sum)
	}
}

// terms counts the grants under which a journal was written.
func terms(entries []Entry) int {
	tokens := map[uint64]bool{}
	for _, e := range entries {
		tokens[e.Token] = true
	}
	return len(tokens)
}

// nothingLeft checks that processes are gone, and that a folder is empty.
func nothingLeft(t *testing.T, pids []int, folder string) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) > 0 {
		t.Errorf("there is still %v", left)
	}
}

// TestDemonstrate_Interrupted ensures that Ctrl-C in the middle of it leaves neither
// processes nor files.
func TestDemonstrate_Interrupted(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := interruptAt{text: "pause ", interrupt: interrupt} // one is stopped at that moment
	r, err := few.demonstrate(ctx, &out)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("demonstrate = %v, want that it was canceled", err)
	}
	if len(r.pids) < few.copies {
		t.Errorf("there were the processes %v, want %d or more", r.pids, few.copies)
	}
	nothingLeft(t, r.pids, temporary)
}

// interruptAt interrupts when a text is written to it.
type interruptAt struct {
	text      string
	interrupt func()
}

var _ io.Writer = (*interruptAt)(nil)

func (w *interruptAt) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.interrupt()
	}
	return len(p), nil
}
