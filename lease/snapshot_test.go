package lease_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
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
				if _, err := lease.Restore(s.Header, s.All(), s.Ended()); err != nil {
					t.Error(err)
				}
			}
		})
		for range 2000 {
			name := fillName(rnd.IntN(4000))
			var c lease.Command = lease.Acquire{Name: name, Holder: "h", RequestID: fmt.Sprint(l.entry.Index)}
			if held := l.table.Get(name); held != nil {
				c = lease.Renew{Name: name, Holder: held.Grant.Holder, Token: held.Grant.Token}
				if rnd.IntN(2) == 0 {
					c = lease.Release{Name: name, Holder: held.Grant.Holder, Token: held.Grant.Token}
				}
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

// TestRestore_RefusesWhatDoesNotAddUp ensures that a snapshot with a part that
// is missing, changed, doubled or out of place makes no table.
func TestRestore_RefusesWhatDoesNotAddUp(t *testing.T) {
	l := newLog(t)
	l.apply(lease.Lead{Node: "n1", Address: "host:1", ClusterID: "c"})
	for _, name := range []string{"a", "b", "c"} {
		token := l.acquire(name, "alice", "r1")
		l.apply(lease.Release{Name: name, Holder: "alice", Token: token})
		l.acquire(name, "alice", "r2")
	}
	type parts struct {
		header lease.Header
		leases []*lease.Lease
		ended  []*lease.Ended
	}
	for _, tc := range []struct {
		name   string
		damage func(*parts)
		want   string // part of the error, empty if there is none
	}{
		{"whole", func(*parts) {}, ""},
		{"lease missing", func(p *parts) { p.leases = p.leases[1:] }, "2 leases where 3 are due"},
		{"lease doubled", func(p *parts) { p.leases[1] = p.leases[0] }, "out of order"},
		{"leases swapped", func(p *parts) { slices.Reverse(p.leases) }, "out of order"},
		{"lease without a name", func(p *parts) { p.leases[0] = &lease.Lease{Grant: p.leases[0].Grant} }, "out of order or empty"},
		{"lease without a grant", func(p *parts) { p.leases[0] = &lease.Lease{Name: "a"} }, "out of order or empty"},
		{"lease renamed", func(p *parts) { p.leases[0] = &lease.Lease{Name: "A", Grant: p.leases[0].Grant} }, "state hash"},
		{"grant changed", func(p *parts) {
			g := *p.leases[0].Grant
			g.Renewal++
			p.leases[0] = &lease.Lease{Name: "a", Grant: &g}
		}, "state hash"},
		{"end missing", func(p *parts) { p.ended = p.ended[1:] }, "2 ended grants where 3 are due"},
		{"end too many", func(p *parts) {
			e := *p.ended[2]
			e.Index++
			p.ended = append(p.ended, &e)
		}, "4 ended grants where 3 are due"},
		{"end changed", func(p *parts) {
			e := *p.ended[0]
			e.How = lease.Expired
			p.ended[0] = &e
		}, "state hash"},
		{"ends swapped", func(p *parts) { slices.Reverse(p.ended) }, "out of order"},
		{"end doubled", func(p *parts) { p.ended[1] = p.ended[0] }, "out of order"},
		{"ended ever", func(p *parts) { p.header.EndedEver += lease.EndedKept }, "ended grants where 1024 are due"},
		{"applied index", func(p *parts) { p.header.Applied.Index++ }, "state hash"},
		{"cluster id", func(p *parts) { p.header.ClusterID = "d" }, "state hash"},
		{"leader", func(p *parts) { p.header.Leader.Node = "n2" }, "state hash"},
		{"leader's entry", func(p *parts) { p.header.LeadEntry.Term++ }, "state hash"},
		{"hash", func(p *parts) { p.header.Hash++ }, "state hash"},
		{"number of leases", func(p *parts) { p.header.Leases-- }, "3 leases where 2 are due"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := l.table.Snapshot()
			p := parts{s.Header, slices.Collect(s.All()), slices.Collect(s.Ended())}
			tc.damage(&p)
			table, err := lease.Restore(p.header, slices.Values(p.leases), slices.Values(p.ended))
			if tc.want == "" {
				if err != nil || contents(table) != contents(l.table) {
					t.Fatalf("got %v, want the same table", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestRestore_CountsWhatEnded ensures that the number of grants that ever ended
// is part of the state even when the ring looks the same without it.
func TestRestore_CountsWhatEnded(t *testing.T) {
	l := newLog(t)
	l.churn(lease.EndedKept+5, "a")
	s := l.table.Snapshot()
	s.EndedEver += lease.EndedKept
	if _, err := lease.Restore(s.Header, s.All(), s.Ended()); err == nil {
		t.Error("a wrong count was accepted")
	}
}

// TestRestore_OfNothing ensures that the snapshot of an empty table makes an
// empty table that works.
func TestRestore_OfNothing(t *testing.T) {
	l := newLog(t)
	l.table = checkRebuilds(t, &lease.Table{})
	if got := l.acquire("a", "alice", "r1"); got != 1 {
		t.Errorf("token: got %d, want 1", got)
	}
	none := func(func(*lease.Lease) bool) {}
	if _, err := lease.Restore(lease.Header{Hash: 1}, iter.Seq[*lease.Lease](none), func(func(*lease.Ended) bool) {}); err == nil {
		t.Error("a wrong hash of nothing was accepted")
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
