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

// TestMain is also what the replicas of a test run.
func TestMain(m *testing.M) {
	if child.IsThis() {
		main()
		return
	}
	os.Exit(m.Run())
}

// few is a demonstration that is over soon.
var few = settings{
	schedule: schedule{every: 400 * time.Millisecond, count: 24},
	work:     120 * time.Millisecond, ttl: time.Second, replicas: 10, kills: 3, pauses: 1,
}

// TestDemonstrate ensures, with ten processes of which those that run a job are
// killed and paused in the middle of it, that each slot has one result, by the
// replica that began it last, and that the late write of a paused one is refused.
func TestDemonstrate(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var out bytes.Buffer
	r, err := demonstrate(t.Context(), few, &out)
	if err != nil {
		t.Fatalf("%v, after\n%s", err, out.String())
	}
	r.print(&out)
	t.Log("\n" + out.String())
	if err := r.verdict(); err != nil { // every fault has bitten
		t.Error(err)
	}
	sum := r.sum()
	if sum.once != few.schedule.count || sum.overtaken > 0 {
		t.Errorf("of %d slots %d are done once, %d missed, %d done twice, %d by one that was replaced",
			few.schedule.count, sum.once, sum.missed, sum.twice, sum.overtaken)
	}
	if sum.again < few.kills+few.pauses || sum.refused < few.pauses {
		t.Errorf("%d slots were begun again and %d late writes refused, after %d kills and %d pauses",
			sum.again, sum.refused, few.kills, few.pauses)
	}
	inOrder(t, r)
	nothingLeft(t, r.pids, temporary)
	if want := few.replicas + few.kills; len(r.pids) < want {
		t.Errorf("there were %d processes, want %d or more", len(r.pids), want)
	}
}

// inOrder checks that the slots were done in the order of the grants, and each result
// was told once.
func inOrder(t *testing.T, r report) {
	t.Helper()
	var before uint64
	for _, o := range r.outcomes {
		told := 0
		for _, e := range r.events {
			if e.Kind == done && e.Slot == o.slot.String() {
				told++
			}
		}
		if told > 1 || o.token < before || o.token == 0 {
			t.Errorf("slot %v: %d replicas say that they have done it, with token %d after %d", o.slot, told, o.token, before)
		}
		before = o.token
	}
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
	s := few
	s.replicas, s.schedule.count = 3, 1000
	out := interruptAt{text: "pause ", interrupt: interrupt} // one is stopped at that moment
	r, err := demonstrate(ctx, s, &out)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("demonstrate = %v, want that it was canceled", err)
	}
	if len(r.pids) < s.replicas {
		t.Errorf("there were the processes %v, want %d or more", r.pids, s.replicas)
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
