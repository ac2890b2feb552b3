package lease_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"leasehold/lease"
)

// TestTable_Release_GrantsTheFirstWaiterAsAsked ensures that a grant out of the
// queue has what its request asked for when it was queued, and the entry of the
// release: its TTL counts from there.
func TestTable_Release_GrantsTheFirstWaiterAsAsked(t *testing.T) {
	table := &lease.Table{}
	table.Apply(lease.Entry{Index: 7, Term: 2, At: 1111}, lease.Acquire{Name: "a", Holder: "alice", RequestID: "r", TTL: time.Second, Value: "old", LockDelay: time.Minute})
	queued := table.Apply(lease.Entry{Index: 9, Term: 2, At: 2222}, lease.Acquire{
		Name: "a", Holder: "bob", RequestID: "b", TTL: 3 * time.Second, Wait: time.Minute, LockDelay: time.Second, Value: "new",
	})
	wantWaiter := lease.Waiter{
		Name: "a", Holder: "bob", RequestID: "b", Place: 9, Value: "new",
		TTL: 3 * time.Second, LockDelay: time.Second, QueuedAt: 2222,
	}
	if got := queued.Waiter; got == nil || *got != wantWaiter {
		t.Errorf("waiter: got %+v, want %+v", got, wantWaiter)
	}
	r := table.Apply(lease.Entry{Index: 12, Term: 3, At: 3333}, lease.Release{Name: "a", Holder: "alice", Token: 7})
	want := lease.Grant{
		Token: 12, Term: 3, Renewal: 12, Holder: "bob", RequestID: "b", Value: "new",
		TTL: 3 * time.Second, LockDelay: time.Second, Place: 9, GrantedAt: 3333, RenewedAt: 3333,
	}
	if got := *table.Get("a").Grant; got != want {
		t.Errorf("grant: got %+v, want %+v", got, want)
	}
	if r.Ended == nil || r.Ended.Token != 7 || r.Ended.How != lease.Released {
		t.Errorf("ended: got %+v, want the release of token 7", r.Ended)
	}
}

// TestTable_Abandon_OfAStalePlace ensures that an abandon of the first wait of a
// request touches neither its second wait nor the grant that this one came to.
func TestTable_Abandon_OfAStalePlace(t *testing.T) {
	l := newLog(t)
	token := l.acquire("a", "alice", "a1")
	first := l.wait("a", "bob", "b1")
	abandon := lease.Abandon{Name: "a", Holder: "bob", RequestID: "b1", Place: first, Reason: lease.WaitOver}
	if r := l.apply(abandon); r.Err != nil || r.Waiter == nil || r.Waiter.Place != first {
		t.Fatalf("first abandon: got %v, waiter %+v", r.Err, r.Waiter)
	}
	second := l.wait("a", "bob", "b1")
	wantErr(t, l.apply(abandon), lease.ErrNotQueued)
	if w := l.table.Waiting("a", "bob", "b1"); w == nil || w.Place != second {
		t.Errorf("waiting: got %+v, want place %d", w, second)
	}
	l.apply(lease.Release{Name: "a", Holder: "alice", Token: token})
	wantErr(t, l.apply(abandon), lease.ErrNotQueued)
	if held := l.table.Get("a"); !held.HeldBy("bob", "b1") {
		t.Errorf("the lease is %+v, want it held by bob", held)
	}
}

// TestTable_Abandon_OfAGrantedRequest ensures that whoever abandons too late is
// told of the grant.
func TestTable_Abandon_OfAGrantedRequest(t *testing.T) {
	l := newLog(t)
	token := l.acquire("a", "alice", "a1")
	place := l.wait("a", "bob", "b1")
	granted := l.apply(lease.Release{Name: "a", Holder: "alice", Token: token}).Entry.Index
	r := l.apply(lease.Abandon{Name: "a", Holder: "bob", RequestID: "b1", Place: place, Reason: lease.WaitOver})
	wantErr(t, r, lease.ErrNotQueued)
	if !r.Lease.HeldBy("bob", "b1") || r.Lease.Grant.Token != granted || r.Events[0].Other != granted {
		t.Errorf("got lease %+v and event %+v, want the grant of token %d", r.Lease, r.Events[0], granted)
	}
}

// TestTable_Queues_OfNamesThatBeginAlike ensures that a queue holds the waiters of
// its own lease only, whatever the names next to it in the order look like.
func TestTable_Queues_OfNamesThatBeginAlike(t *testing.T) {
	l := newLog(t)
	names := []string{"a", "a-", "a.", "a/b", "aa", "b", "A", "a+"}
	for _, name := range names {
		l.acquire(name, "alice", "r")
	}
	for _, holder := range []string{"bob", "carol"} { // a round for each, so that places interleave
		for _, name := range names {
			l.wait(name, holder, "r")
		}
	}
	for _, name := range names {
		r := l.apply(lease.Release{Name: name, Holder: "alice", Token: l.table.Get(name).Grant.Token})
		var left []string
		for w := range l.table.WaitersOf(name) {
			left = append(left, w.Name+" "+w.Holder)
		}
		if !r.Lease.HeldBy("bob", "r") || !slices.Equal(left, []string{name + " carol"}) {
			t.Errorf("%s: got %+v and then %q, want bob and then carol", name, r.Lease.Grant, left)
		}
	}
	if got := l.table.Waiters(); got != len(names) {
		t.Errorf("%d waiters in all, want %d", got, len(names))
	}
}

// TestTable_Queue_InOrderOverBytes ensures that places are ordered as numbers:
// 255 before 256, and 65535 before 65536.
func TestTable_Queue_InOrderOverBytes(t *testing.T) {
	l := newLog(t)
	l.acquire("a", "alice", "r")
	var want []uint64
	for _, index := range []uint64{9, 10, 99, 100, 255, 256, 511, 512, 65535, 65536, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63} {
		l.entry.Index = index
		want = append(want, l.wait("a", "bob", fmt.Sprint("r", index)))
	}
	var got []uint64
	for held := l.table.Get("a"); held.Waiters > 0; held = l.table.Get("a") {
		r := l.apply(lease.Release{Name: "a", Holder: held.Grant.Holder, Token: held.Grant.Token})
		got = append(got, r.Events[1].Place)
	}
	if !slices.Equal(got, want) {
		t.Errorf("granted in the order of the places %d, want %d", got, want)
	}
}

// TestTable_OldRecordsStayAsTheyWere ensures that whoever still looks at a lease
// or a register from before an entry sees it as it was.
func TestTable_OldRecordsStayAsTheyWere(t *testing.T) {
	l := newLog(t)
	token := l.acquire("a", "alice", "a1")
	held := l.table.Get("a")
	place := l.wait("a", "bob", "b1")
	waited := l.table.Get("a")
	l.apply(lease.Abandon{Name: "a", Holder: "bob", RequestID: "b1", Place: place, Reason: lease.NotBack})
	l.wait("a", "carol", "c1")
	l.apply(lease.Release{Name: "a", Holder: "alice", Token: token})
	if held.Waiters != 0 || waited.Waiters != 1 || held.Grant.Token != token || waited.Grant.Token != token {
		t.Errorf("the old leases became %+v and %+v", held, waited)
	}

	for range lease.WritesKept + 4 {
		l.apply(lease.Write{Register: "x", Value: "v", Token: 5})
	}
	old := l.table.Register("x")
	before := fmt.Sprintf("%+v", *old)
	l.apply(lease.Write{Register: "x", Value: "w", Token: 6})
	l.apply(lease.Write{Register: "x", Value: "late", Token: 5})
	if after := fmt.Sprintf("%+v", *old); after != before {
		t.Errorf("the old register became %s, it was %s", after, before)
	}
}

// TestTable_QueuesCanBeStopped ensures that a reader of waiters or registers may
// leave off after the first.
func TestTable_QueuesCanBeStopped(t *testing.T) {
	l := newLog(t)
	l.acquire("a", "alice", "a1")
	l.wait("a", "bob", "b1")
	l.wait("a", "carol", "c1")
	l.apply(lease.Write{Register: "x"})
	l.apply(lease.Write{Register: "y"})
	seen := 0
	for range l.table.WaitersOf("a") {
		seen++
		break
	}
	s := l.table.Snapshot()
	for range s.AllWaiters() {
		seen++
		break
	}
	for range s.AllRegisters() {
		seen++
		break
	}
	if seen != 3 {
		t.Errorf("got %d, want one of each", seen)
	}
	if l.table.Register("z") != nil || l.table.Waiting("a", "bob", "c1") != nil {
		t.Error("the table knows a register or a waiter that never was")
	}
}
