package lease_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/lease"
)

// tester is what both *testing.T and *rapid.T offer.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// log feeds commands to a table at rising indexes and checks after each of them
// what must hold after any entry.
type log struct {
	t     tester
	table *lease.Table
	entry lease.Entry // the next one
	top   uint64      // the highest token so far
}

func newLog(t tester) *log {
	return &log{t: t, table: &lease.Table{}, entry: lease.Entry{Index: 1, Term: 1, At: 1000}}
}

// apply applies c at the next index.
func (l *log) apply(c lease.Command) lease.Result {
	l.t.Helper()
	e := l.entry
	l.entry.Index++
	l.entry.At += 10
	before := contents(l.table)
	r := l.table.Apply(e, c)
	l.top = checkResult(l.t, r, e, l.top)
	if !changes(r) {
		if after := contents(l.table); after != before {
			l.t.Fatalf("index %d: %#v changed nothing, says its result, but the table went from\n%sto\n%s", e.Index, c, before, after)
		}
	}
	checkRebuilds(l.t, l.table)
	return r
}

// acquire makes a grant that the test takes for granted, and returns its token.
func (l *log) acquire(name, holder, request string) uint64 {
	l.t.Helper()
	r := l.apply(lease.Acquire{Name: name, Holder: holder, RequestID: request, TTL: 5 * time.Second})
	if r.Err != nil || r.Replayed {
		l.t.Fatalf("acquire of %s by %s: got %v, replayed %v, want a new grant", name, holder, r.Err, r.Replayed)
	}
	return r.Lease.Grant.Token
}

// churn applies n acquires of the name, each followed by its release. It skips
// the checks of apply, which would make long runs slow.
func (l *log) churn(n int, name string) {
	for range n {
		token := l.entry.Index
		for _, c := range []lease.Command{
			lease.Acquire{Name: name, Holder: "churn", RequestID: fmt.Sprint("churn-", token), TTL: time.Second},
			lease.Release{Name: name, Holder: "churn", Token: token},
		} {
			if r := l.table.Apply(l.entry, c); r.Err != nil {
				l.t.Fatalf("churn at index %d: %v", l.entry.Index, r.Err)
			}
			l.entry.Index++
		}
		l.top = token
	}
}

// changes says whether an entry with this result may have changed more than the
// applied index.
func changes(r lease.Result) bool { return r.Err == nil && !r.Replayed && !r.Already }

// checkResult checks what must hold of the result of any entry: its token is its
// index, it makes one grant at most, and its events agree with it. It returns
// the highest token so far.
func checkResult(t tester, r lease.Result, e lease.Entry, top uint64) uint64 {
	t.Helper()
	if r.Entry != e {
		t.Fatalf("result of entry %+v says it is of %+v", e, r.Entry)
	}
	kinds := map[lease.Kind]int{}
	for _, ev := range r.Events {
		kinds[ev.Kind]++
		if ev.Index != e.Index || ev.Term != e.Term || ev.At != e.At {
			t.Fatalf("event %+v of entry %+v has another entry", ev, e)
		}
		if ev.Why() == "" {
			t.Fatalf("event %+v does not say why", ev)
		}
		if ev.Kind == lease.KindGranted {
			if ev.Token != e.Index {
				t.Fatalf("token %d was granted at index %d", ev.Token, e.Index)
			}
			if ev.Token <= top {
				t.Fatalf("token %d does not rise above %d", ev.Token, top)
			}
			top = ev.Token
		}
	}
	if kinds[lease.KindGranted] > 1 {
		t.Fatalf("index %d made %d grants", e.Index, kinds[lease.KindGranted])
	}
	refused := kinds[lease.KindRefused] == 1 && len(r.Events) == 1
	if (r.Err != nil) != refused {
		t.Fatalf("index %d: error %v with events %+v", e.Index, r.Err, r.Events)
	}
	if changes(r) == (refused || len(r.Events) == 0) {
		t.Fatalf("index %d: result %+v does not agree with its events", e.Index, r)
	}
	ended := kinds[lease.KindReleased] + kinds[lease.KindExpired] + kinds[lease.KindReclaimed]
	if changes(r) && (r.Ended != nil) != (ended == 1) {
		t.Fatalf("index %d: ended %+v with events %+v", e.Index, r.Ended, r.Events)
	}
	return top
}

// checkRebuilds checks that a snapshot of the table makes an equal table, and so
// that the hash that was kept entry by entry is the hash of what is there.
func checkRebuilds(t tester, table *lease.Table) *lease.Table {
	t.Helper()
	s := table.Snapshot()
	again, err := lease.Restore(s.Header, s.All(), s.Ended())
	if err != nil {
		t.Fatalf("the snapshot at index %d does not restore: %v", s.Applied.Index, err)
	}
	if got, want := contents(again), contents(table); got != want {
		t.Fatalf("restored from its snapshot the table has\n%swhere it had\n%s", got, want)
	}
	if got, want := again.Hash(), table.Hash(); got != want {
		t.Fatalf("restored from its snapshot the table has hash %x, it had %x", got, want)
	}
	return again
}

// contents writes out the whole state but for the applied entry.
func contents(table *lease.Table) string {
	s := table.Snapshot()
	return snapshotContents(s)
}

func snapshotContents(s *lease.Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %q, %+v at %+v, %d leases, %d ended\n", s.ClusterID, s.Leader, s.LeadEntry, s.Leases, s.EndedEver)
	for l := range s.All() {
		fmt.Fprintf(&b, "%s %+v\n", l.Name, *l.Grant)
	}
	for e := range s.Ended() {
		fmt.Fprintf(&b, "%+v\n", *e)
	}
	return b.String()
}

// names lists the held leases in the order in which the table gives them.
func names(table *lease.Table) []string {
	var names []string
	for l := range table.Ascend("") {
		names = append(names, l.Name)
	}
	if !slices.IsSorted(names) {
		panic("Ascend is out of order")
	}
	return names
}

// wantErr fails the test unless the entry came to err.
func wantErr(t *testing.T, r lease.Result, err error) {
	t.Helper()
	if r.Err != err {
		t.Fatalf("index %d: got %v, want %v", r.Entry.Index, r.Err, err)
	}
}
