package lab_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"leasehold/faults"
	"leasehold/faults/lab"
)

func begin(t *testing.T, b *lab.Board, f faults.Fault) *lab.Active {
	t.Helper()
	a, err := b.Begin(f)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ids(list []*lab.Active) string {
	var all []string
	for _, a := range list {
		all = append(all, a.ID)
	}
	return strings.Join(all, " ")
}

// Faults heal by themselves when their time is over, each in its time, and by hand at
// once. Who watches is told, and the log has one line for each.
func TestBoard_HealsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := lab.New(hclog.New(&hclog.LoggerOptions{Output: &log}), 1)
		var changes atomic.Int32
		stop := b.Watch(func() { changes.Add(1) })
		stall := func(ms int64) *lab.Active {
			return begin(t, b, faults.Fault{Kind: faults.ClockStall, DurationMillis: ms})
		}
		first, second, third := stall(3000), stall(1000), stall(2000)
		at := func(d time.Duration, on string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := ids(b.List()); got != on {
				t.Errorf("on are %q, want %q", got, on)
			}
		}
		at(999*time.Millisecond, "f1 f2 f3")
		if got := first.Remaining(); got != 2001*time.Millisecond {
			t.Errorf("%v left, want 2.001s", got)
		}
		at(time.Millisecond, "f1 f3")
		if b.Heal("f2") != nil || !second.Healed() {
			t.Error("what has healed was healed again")
		}
		if b.Heal("f3") != third || !third.Healed() || first.Healed() {
			t.Error("f3 was not healed, or f1 was")
		}
		at(2*time.Second, "")
		stop()
		if got := ids(b.HealAll()); got != "" || !b.Quiet() || changes.Load() != 6 {
			t.Errorf("%q were healed at the end, want none; %d changes, want 6", got, changes.Load())
		}
		if begun, healed := strings.Count(log.String(), "FAULT begins"), strings.Count(log.String(), "FAULT healed"); begun != 3 || healed != 3 {
			t.Errorf("%d lines of beginnings and %d of ends, want 3 and 3:\n%s", begun, healed, log.String())
		}
	})
}

// No more faults than MaxActive are on at once, none begins on a board that is
// closed, and to close it heals all.
func TestBoard_Bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lab.New(nil, 1)
		f := faults.Fault{Kind: faults.WallShift, ShiftMillis: 1, DurationMillis: 60_000}
		for range lab.MaxActive {
			begin(t, b, f)
		}
		if b.WallShift() != lab.MaxActive*time.Millisecond {
			t.Errorf("%d shifts make %v", lab.MaxActive, b.WallShift())
		}
		if _, err := b.Begin(f); err == nil || !strings.Contains(err.Error(), "64 are on") {
			t.Errorf("one more: %v", err)
		}
		b.Close()
		b.Close()
		if _, err := b.Begin(f); err == nil || !b.Quiet() {
			t.Errorf("a closed board: %v", err)
		}
		for _, bad := range []faults.Fault{{}, {Kind: faults.Kill, DurationMillis: 1}, {Kind: faults.Cut}} {
			if _, err := lab.New(nil, 1).Begin(bad); err == nil {
				t.Errorf("%+v has begun", bad)
			}
		}
	})
}

// A board that is not there has nothing on it.
func TestBoard_Nil(t *testing.T) {
	var b *lab.Board
	b.Close()
	if !b.Quiet() || b.WallShift() != 0 || b.DropsReply("/", true) || len(b.List()) != 0 || time.Since(b.WallTime()) > time.Minute {
		t.Error("something is on")
	}
	for range b.On(faults.Cut) {
		t.Error("a cut is on")
	}
	if n := testing.AllocsPerRun(100, func() { b.Quiet(); b.DropsReply("/", true); b.WallShift() }); n != 0 {
		t.Errorf("to ask costs %v allocations", n)
	}
}

// So many answers are dropped as were asked for, of the requests that are meant.
func TestBoard_DropsReply_Counts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lab.New(nil, 1)
		defer b.Close()
		begin(t, b, faults.Fault{Kind: faults.DropReply, Count: 2, Path: "/v1/renew", DurationMillis: 60_000})
		begin(t, b, faults.Fault{Kind: faults.DropReply, Count: 2, DurationMillis: 60_000})
		var got []string
		for _, call := range []string{"r /v1/renew", "w /v1/acquire", "r /v1/status", "w /v1/renew", "w /v1/renew", "w /v1/renew"} {
			writes, path, _ := strings.Cut(call, " ")
			got = append(got, fmt.Sprint(b.DropsReply(path, writes == "w")))
		}
		if want := []string{"true", "true", "false", "true", "true", "false"}; !slices.Equal(got, want) || !b.Quiet() {
			t.Errorf("dropped: %v, want %v; left on: %s", got, want, ids(b.List()))
		}
	})
}

// What is random is the same for the same seed.
func TestBoard_Roll_Seed(t *testing.T) {
	roll := func(seed uint64) (all []int64) {
		b := lab.New(nil, seed)
		for range 20 {
			all = append(all, b.Roll(100))
		}
		return all
	}
	if !slices.Equal(roll(3), roll(3)) || slices.Equal(roll(3), roll(4)) {
		t.Errorf("%v, %v and %v", roll(3), roll(3), roll(4))
	}
}
