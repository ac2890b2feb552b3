package lease_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"leasehold/lease"
)

// comeAndGo lets names appear in every way there is and be free again: released,
// expired with and without a lock delay, revoked, with acquires that were refused
// and waiters that gave up or got their turn.
func comeAndGo(t *testing.T, table *lease.Table, e *lease.Entry, from, to int) {
	t.Helper()
	apply := func(c lease.Command, want error) uint64 {
		e.Index++
		if r := table.Apply(*e, c); r.Err != want {
			t.Fatalf("%#v: got %v, want %v", c, r.Err, want)
		}
		return e.Index
	}
	for i := from; i < to; i++ {
		name, fresh := fmt.Sprintf("jobs/%08d", i), fmt.Sprintf("request-%08d", i)
		token := apply(lease.Acquire{Name: name, Holder: "alice", RequestID: fresh, TTL: time.Second, LockDelay: time.Duration(i%2) * time.Second}, nil)
		apply(lease.Acquire{Name: name, Holder: "bob", RequestID: fresh, TTL: time.Second}, lease.ErrHeld)
		place := apply(lease.Acquire{Name: name, Holder: "carol", RequestID: fresh, TTL: time.Second, Wait: time.Second}, nil)
		if i%8 == 0 { // the waiter has its turn
			token = apply(lease.Release{Name: name, Holder: "alice", Token: token}, nil)
			apply(lease.Release{Name: name, Holder: "carol", Token: token}, nil)
			continue
		}
		apply(lease.Abandon{Name: name, Holder: "carol", RequestID: fresh, Place: place, Reason: lease.WaitOver}, nil)
		switch i % 4 {
		case 0:
			apply(lease.Release{Name: name, Holder: "alice", Token: token}, nil)
		case 1:
			apply(lease.Expire{Name: name, Token: token, Renewal: token, Term: e.Term}, nil)
		default:
			apply(lease.Revoke{Name: name, Token: token, Reason: "maintenance"}, nil)
		}
		if i%2 == 1 {
			apply(lease.Acquire{Name: name, Holder: "bob", RequestID: fresh, TTL: time.Second}, lease.ErrCooling)
			apply(lease.Reopen{Name: name, Token: token}, nil)
		}
	}
}

// heap is how much memory is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestTable_FreedNamesCostNothing ensures that 50,000 names that came and went
// leave a table as small as before, in its records and in memory. The ring of
// ended grants is full from the beginning.
func TestTable_FreedNamesCostNothing(t *testing.T) {
	names := 50_000
	if testing.Short() {
		names = 5000
	}
	table, e := &lease.Table{}, lease.Entry{Term: 1, At: 1000}
	comeAndGo(t, table, &e, 0, 2*lease.EndedKept)
	before := heap()
	comeAndGo(t, table, &e, 10_000, 10_000+names)
	grown := heap() - before

	t.Logf("the table has grown by %d bytes", grown)
	// A record that stays behind for each name costs more than 100 bytes each. The
	// maps of the ring move the heap too, by some 130,000 bytes in all.
	if limit := int64(names) * 60; grown > limit {
		t.Errorf("the table has grown by %d bytes, want at most %d", grown, limit)
	}
	s := table.Snapshot()
	if s.Leases != 0 || s.Waiters != 0 || s.Registers != 0 || table.Len() != 0 || table.Waiters() != 0 {
		t.Errorf("left over: %+v", s.Header)
	}
	kept := 0
	for range s.Ended() {
		kept++
	}
	if kept != lease.EndedKept {
		t.Errorf("%d ended grants are kept, want %d", kept, lease.EndedKept)
	}
	checkRebuilds(t, table)

	// The names are as good as new, and tokens have gone on.
	e.Index++
	r := table.Apply(e, lease.Acquire{Name: "jobs/00010000", Holder: "bob", RequestID: "r1", TTL: time.Second})
	if r.Err != nil || r.Lease.Grant.Token != e.Index {
		t.Errorf("a freed name: got %v and %+v, want token %d", r.Err, r.Lease, e.Index)
	}
	runtime.KeepAlive(table)
}
