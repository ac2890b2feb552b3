package main

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"leasehold/fence"
)

func newRecords(t *testing.T) *records {
	t.Helper()
	r, err := settings{job: "test", sqlite: filepath.Join(t.TempDir(), "test.db")}.openRecords()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	if err := r.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRecords_TakeOver ensures what the fence adds to the key of the slot: the one
// that was replaced is refused before its successor has a result, so that the
// successor can rely on what it has read.
func TestRecords_TakeOver(t *testing.T) {
	r, ctx := newRecords(t), t.Context()
	slot := schedule{first: slot{time.Now()}, every: time.Second}.at(0)
	alice, bob := grant{5, "c"}, grant{9, "c"}
	if latest, err := r.takeOver(ctx, alice); err != nil || !latest.IsZero() {
		t.Fatalf("takeOver of nothing = %v, %v", latest, err)
	}
	if err := r.begin(ctx, alice, slot, "alice"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.takeOver(ctx, bob); err != nil {
		t.Fatal(err)
	}
	if err := r.finish(ctx, alice, slot, "alice", "late"); !errors.Is(err, fence.ErrStale) {
		t.Errorf("alice finishes late: %v, want a stale token", err)
	}
	if err := r.begin(ctx, bob, slot, "bob"); err != nil {
		t.Fatal(err)
	}
	if err := r.finish(ctx, bob, slot, "bob", "value"); err != nil {
		t.Fatal(err)
	}
	if err := r.finish(ctx, bob, slot, "bob", "value"); err == nil {
		t.Error("a slot has two results") // equal tokens pass the fence; this is for the key to refuse
	}
	o, err := r.outcome(ctx, slot)
	if want := (outcome{slot, 2, 9, 1, 9, "bob"}); err != nil || o != want {
		t.Errorf("outcome = %v, %v, want %v", o, err, want)
	}
	if latest, err := r.takeOver(ctx, grant{10, "c"}); err != nil || latest.String() != slot.String() {
		t.Errorf("takeOver = %v, %v, want %v", latest, err, slot)
	}
}

// TestSchedule ensures which slots there are.
func TestSchedule(t *testing.T) {
	first := slot{time.Date(2026, 11, 30, 23, 59, 59, 500e6, time.UTC)}
	for _, test := range []struct {
		done slot
		n    int // slots of the schedule
		next string
		ok   bool
	}{
		{slot{}, 2, "2026-11-30T23:59:59.500Z", true},
		{first, 2, "2026-12-01T00:00:00.250Z", true},
		{slot{first.Add(750 * time.Millisecond)}, 2, "2026-12-01T00:00:01.000Z", false},
		{slot{first.Add(750 * time.Millisecond)}, 0, "2026-12-01T00:00:01.000Z", true},
	} {
		next, ok := schedule{first, 750 * time.Millisecond, test.n}.after(test.done)
		if next.String() != test.next || ok != test.ok {
			t.Errorf("after %v = %v, %v, want %v, %v", test.done, next, ok, test.next, test.ok)
		}
		if same, err := parseSlot(next.String()); err != nil || !same.Equal(next.Time) {
			t.Errorf("parseSlot(%v) = %v, %v", next, same, err)
		}
	}
}
