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
	kept  promises
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
	checkResult(l.t, r, e)
	l.kept.check(l.t, l.table, r)
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
	}
}

// wait puts a request into the queue of a lease that somebody holds, or that is
// cooling, and returns its place.
func (l *log) wait(name, holder, request string) uint64 {
	l.t.Helper()
	r := l.apply(lease.Acquire{Name: name, Holder: holder, RequestID: request, TTL: 5 * time.Second, Wait: time.Minute})
	if r.Err != nil || r.Replayed || r.Waiter == nil {
		l.t.Fatalf("waiting acquire of %s by %s: got %v, replayed %v, waiter %+v, want a new place", name, holder, r.Err, r.Replayed, r.Waiter)
	}
	return r.Waiter.Place
}

// changes says whether an entry with this result may have changed more than the
// applied index. A write does even if it is refused: the register counts it. A
// grant that is asked for again is known to be taken from then on.
func changes(r lease.Result) bool {
	retold := r.Replayed && r.Waiter == nil
	return r.Register != nil || retold || r.Err == nil && !r.Replayed && !r.Already
}

// stories are the events that one entry can have, in their order.
var stories = []string{
	"leader", "granted", "renewed", "queued", "abandoned", "written", "refused",
	"released", "released granted",
	"expired", "expired granted", "expired cooling",
	"revoked", "revoked granted", "revoked cooling",
	"reclaimed granted",
	"reopened", "reopened granted",
}

// kinds are the kinds of the events of a result, in their order.
func kinds(r lease.Result) string {
	var kinds []string
	for _, ev := range r.Events {
		kinds = append(kinds, string(ev.Kind))
	}
	return strings.Join(kinds, " ")
}

// checkResult checks what must hold of the result of any entry: its token is its
// index, its events tell a story that there is, and the rest of it agrees with
// them.
func checkResult(t tester, r lease.Result, e lease.Entry) {
	t.Helper()
	if r.Entry != e {
		t.Fatalf("result of entry %+v says it is of %+v", e, r.Entry)
	}
	if r.Each != nil { // many renewals: each has a result of its own
		checkEach(t, r)
		return
	}
	story := kinds(r)
	if r.Replayed || r.Already {
		if story != "" || r.Err != nil {
			t.Fatalf("index %d: a repeated request came to %v and has the events %q", e.Index, r.Err, story)
		}
		return
	}
	if !slices.Contains(stories, story) {
		t.Fatalf("index %d: no entry has the events %q", e.Index, story)
	}
	if (r.Err != nil) != (story == "refused") {
		t.Fatalf("index %d: error %v with the events %q", e.Index, r.Err, story)
	}
	first, _, _ := strings.Cut(story, " ")
	ends := slices.Contains([]string{"released", "expired", "revoked", "reclaimed"}, first)
	if r.Err == nil && (r.Ended != nil) != ends {
		t.Fatalf("index %d: ended %+v with the events %q", e.Index, r.Ended, story)
	}
	if (r.Waiter != nil) != (story == "queued" || story == "abandoned") {
		t.Fatalf("index %d: waiter %+v with the events %q", e.Index, r.Waiter, story)
	}
	for _, ev := range r.Events {
		if ev.Index != e.Index || ev.Term != e.Term || ev.At != e.At {
			t.Fatalf("event %+v of entry %+v has another entry", ev, e)
		}
		if ev.Why() == "" {
			t.Fatalf("event %+v does not say why", ev)
		}
		if ev.Register != (r.Register != nil) {
			t.Fatalf("event %+v is about a lease or about a register, and the register of the result is %+v", ev, r.Register)
		}
		if name := ev.Name; ev.Kind != lease.KindLeader && !ev.Register && name != r.Name || ev.Register && name != r.Register.Name {
			t.Fatalf("event %+v has another name than its result %+v", ev, r)
		}
		if ev.Kind == lease.KindGranted {
			if g := r.Lease.Grant; ev.Token != e.Index || g.Token != e.Index || ev.Holder != g.Holder || ev.RequestID != g.RequestID {
				t.Fatalf("event %+v at index %d, and the grant is %+v", ev, e.Index, g)
			}
		}
	}
}

// checkRebuilds checks that a snapshot of the table makes an equal table, and so
// that the hash that was kept entry by entry is the hash of what is there.
func checkRebuilds(t tester, table *lease.Table) *lease.Table {
	t.Helper()
	s := table.Snapshot()
	again, err := lease.Restore(s.Header, s.Parts())
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
	return snapshotContents(table.Snapshot())
}

func snapshotContents(s *lease.Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %q, %+v at %+v, %d leases, %d waiters, %d registers, %d ended\n",
		s.ClusterID, s.Leader, s.LeadEntry, s.Leases, s.Waiters, s.Registers, s.EndedEver)
	for l := range s.All() {
		fmt.Fprintf(&b, "%s %d waiters", l.Name, l.Waiters)
		if l.Grant != nil {
			fmt.Fprintf(&b, " held %+v", *l.Grant)
		}
		if l.Cooldown != nil {
			fmt.Fprintf(&b, " cooling %+v", *l.Cooldown)
		}
		b.WriteString("\n")
	}
	for w := range s.AllWaiters() {
		fmt.Fprintf(&b, "waiter %+v\n", *w)
	}
	for reg := range s.AllRegisters() {
		fmt.Fprintf(&b, "register %+v\n", *reg)
	}
	for e := range s.Ended() {
		fmt.Fprintf(&b, "%+v\n", *e)
	}
	return b.String()
}

// names lists the leases that are not free in the order in which the table gives
// them.
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

func checkEach(t tester, r lease.Result) {
	t.Helper()
	var events []lease.Event
	for _, one := range r.Each {
		checkResult(t, one, r.Entry)
		events = append(events, one.Events...)
	}
	if fmt.Sprint(events) != fmt.Sprint(r.Events) {
		t.Fatalf("index %d: the events %+v are not those of its parts", r.Entry.Index, r.Events)
	}
}
