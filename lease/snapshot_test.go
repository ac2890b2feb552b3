package lease_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"leasehold/lease"
)

// TestSnapshot_IsReadWhileTheTableMovesOn ensures that readers of a snapshot,
// on other goroutines, see one unchanging state while thousands of entries are
// applied. The race detector watches.
func TestSnapshot_IsReadWhileTheTableMovesOn(t *testing.T) {
	l := newLog(t)
	fill(l.table, &l.entry, 3000)
	rnd := rand.New(rand.NewPCG(1, 2))
	var readers sync.WaitGroup
	for range 4 {
		s := l.table.Snapshot()
		want := snapshotContents(s)
		header := s.Header
		readers.Go(func() {
			for range 3 {
				if snapshotContents(s) != want || s.Header != header {
					t.Errorf("the snapshot of index %d changed", header.Applied.Index)
				}
				// It still adds up to its hash, so nothing in it was written to.
				if _, err := lease.Restore(s.Header, s.Parts()); err != nil {
					t.Error(err)
				}
			}
		})
		for range 2000 {
			name := fillName(rnd.IntN(4000))
			acquire := lease.Acquire{Name: name, Holder: "h", RequestID: fmt.Sprint(l.entry.Index), Wait: time.Second, LockDelay: time.Second}
			var c lease.Command = acquire
			if held := l.table.Get(name); held.State() == lease.Cooling {
				c = lease.Reopen{Name: name, Token: held.Cooldown.Token}
			} else if held != nil {
				g := held.Grant
				c = []lease.Command{
					acquire,
					lease.Renew{Name: name, Holder: g.Holder, Token: g.Token},
					lease.Release{Name: name, Holder: g.Holder, Token: g.Token},
					lease.Revoke{Name: name, Token: g.Token, Reason: "stuck"},
					lease.Write{Register: name, Token: g.Token, Lease: name},
				}[rnd.IntN(5)]
			}
			if r := l.table.Apply(l.entry, c); r.Err != nil {
				t.Fatal(r.Err)
			}
			l.entry.Index++
		}
	}
	readers.Wait()
	checkRebuilds(t, l.table)
}

// TestSnapshot_TwoTablesFromOne ensures that a restored table and the one that
// the snapshot was taken of do not write to each other's records.
func TestSnapshot_TwoTablesFromOne(t *testing.T) {
	l := newLog(t)
	fill(l.table, &l.entry, 500)
	other := checkRebuilds(t, l.table)
	before := contents(other)
	for i := range 500 {
		held := l.table.Get(fillName(i))
		l.table.Apply(l.entry, lease.Release{Name: held.Name, Holder: held.Grant.Holder, Token: held.Grant.Token})
		l.entry.Index++
	}
	if contents(other) != before {
		t.Error("the restored table changed with the first")
	}
	checkRebuilds(t, other)
}

// TestSnapshot_TwoTablesFromOne_Registers ensures the same of a register that both
// tables write to, however full its list of writes is.
func TestSnapshot_TwoTablesFromOne_Registers(t *testing.T) {
	l := newLog(t)
	for range 2 * lease.WritesKept {
		l.apply(lease.Write{Register: "x", Value: "before"})
		other := checkRebuilds(t, l.table)
		third := checkRebuilds(t, l.table)
		other.Apply(l.entry, lease.Write{Register: "x", Value: "here", Token: 1})
		want := contents(other)
		third.Apply(l.entry, lease.Write{Register: "x", Value: "there", Token: 2})
		if got := contents(other); got != want {
			t.Fatalf("a write to one table made the other\n%sfrom\n%s", got, want)
		}
	}
}

// fill makes n grants, of fillName(0) to fillName(n-1).
func fill(table *lease.Table, e *lease.Entry, n int) {
	for i := range n {
		table.Apply(*e, lease.Acquire{
			Name: fillName(i), Holder: fmt.Sprint("worker-", i%100, ".example"),
			RequestID: fmt.Sprintf("%016x", i), TTL: 10 * time.Second,
		})
		e.Index++
	}
}

func fillName(i int) string { return fmt.Sprintf("jobs/shard-%06d", i) }
