package lease_test

import (
	"slices"
	"testing"
	"time"

	"leasehold/lease"
)

// TestTable_Renew_AfterExpiry ensures that an ended grant does not come back to
// life, and that the refusal says how it ended.
func TestTable_Renew_AfterExpiry(t *testing.T) {
	l := newLog(t)
	token := l.acquire("a", "alice", "r1")
	end := l.apply(lease.Expire{Name: "a", Token: token, Renewal: token, Term: 1})

	r := l.apply(lease.Renew{Name: "a", Holder: "alice", Token: token})
	wantErr(t, r, lease.ErrLost)
	if r.Ended == nil || r.Ended.How != lease.Expired || r.Ended.Index != end.Entry.Index {
		t.Errorf("ended: got %+v, want expired at %d", r.Ended, end.Entry.Index)
	}
	if l.table.Get("a").State() != lease.Free {
		t.Errorf("the lease is %s again", l.table.Get("a").State())
	}
}

// TestTable_Renew_LeavesTheOldGrantAlone ensures that whoever still looks at the
// grant from before a renewal sees it as it was.
func TestTable_Renew_LeavesTheOldGrantAlone(t *testing.T) {
	l := newLog(t)
	token := l.acquire("a", "alice", "r1")
	old := l.table.Get("a")
	before := *old.Grant
	value := "new"
	l.apply(lease.Renew{Name: "a", Holder: "alice", Token: token, TTL: time.Minute, Value: &value})
	value = "changed by the caller after the renewal"

	if *old.Grant != before {
		t.Errorf("the old grant became %+v, it was %+v", *old.Grant, before)
	}
	if got := l.table.Get("a").Grant.Value; got != "new" {
		t.Errorf("value: got %q, want %q", got, "new")
	}
}

// TestTable_Acquire_KeepsTheEntry ensures that a grant tells in which term and
// at what wall time it was made and last renewed.
func TestTable_Acquire_KeepsTheEntry(t *testing.T) {
	table := &lease.Table{}
	table.Apply(lease.Entry{Index: 7, Term: 2, At: 1111}, lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second})
	table.Apply(lease.Entry{Index: 9, Term: 3, At: 2222}, lease.Renew{Name: "a", Holder: "h", Token: 7})

	want := lease.Grant{
		Token: 7, Term: 2, Renewal: 9, Renewals: 1, Holder: "h", RequestID: "r",
		TTL: time.Second, Place: 7, Taken: true, GrantedAt: 1111, RenewedAt: 2222,
	}
	if got := *table.Get("a").Grant; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestTable_LastEnded_SurvivesOlderEndsOfTheName ensures that when an old end of
// a name is forgotten, the newest one of that name is not forgotten with it.
func TestTable_LastEnded_SurvivesOlderEndsOfTheName(t *testing.T) {
	l := newLog(t)
	first := l.acquire("a", "alice", "r1")
	l.apply(lease.Release{Name: "a", Holder: "alice", Token: first})
	second := l.acquire("a", "alice", "r2")
	l.apply(lease.Release{Name: "a", Holder: "alice", Token: second})
	l.churn(lease.EndedKept-1, "busy") // forgets the first end, not the second

	if got := l.table.LastEnded("a"); got == nil || got.Token != second {
		t.Fatalf("last end of a: got %+v, want that of token %d", got, second)
	}
	wantErr(t, l.apply(lease.Acquire{Name: "a", Holder: "alice", RequestID: "r2"}), lease.ErrRequestEnded)
	l.churn(1, "busy")
	if got := l.table.LastEnded("a"); got != nil {
		t.Errorf("last end of a: got %+v after %d newer ones, want none", got, lease.EndedKept)
	}
}

// TestTable_Acquire_OfAForgottenRequest ensures that a request id that came
// round again is remembered for its new grant, not its old one.
func TestTable_Acquire_OfAForgottenRequest(t *testing.T) {
	l := newLog(t)
	first := l.acquire("a", "alice", "r1")
	l.apply(lease.Release{Name: "a", Holder: "alice", Token: first})
	l.churn(lease.EndedKept, "busy")

	second := l.acquire("a", "alice", "r1")
	end := l.apply(lease.Release{Name: "a", Holder: "alice", Token: second})
	l.churn(lease.EndedKept-1, "busy")
	r := l.apply(lease.Acquire{Name: "a", Holder: "alice", RequestID: "r1"})
	wantErr(t, r, lease.ErrRequestEnded)
	if r.Ended.Token != second || r.Ended.Index != end.Entry.Index {
		t.Errorf("ended: got %+v, want token %d at index %d", r.Ended, second, end.Entry.Index)
	}
}

// TestTable_Ascend_StartsAtTheName ensures that a listing goes in the order of
// the bytes of the names, from the given one on.
func TestTable_Ascend_StartsAtTheName(t *testing.T) {
	l := newLog(t)
	for _, name := range []string{"b", "a/b", "a", "a-b", "A", "a/b/c"} {
		l.acquire(name, "alice", "r1")
	}
	for _, tc := range []struct {
		from string
		want []string
	}{
		{"", []string{"A", "a", "a-b", "a/b", "a/b/c", "b"}},
		{"a/b", []string{"a/b", "a/b/c", "b"}},
		{"a/a", []string{"a/b", "a/b/c", "b"}},
		{"c", nil},
	} {
		var got []string
		for l := range l.table.Ascend(tc.from) {
			got = append(got, l.Name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("from %q: got %q, want %q", tc.from, got, tc.want)
		}
	}
}

// TestTable_ListsCanBeStopped ensures that a reader of leases or ended grants
// may leave off after the first.
func TestTable_ListsCanBeStopped(t *testing.T) {
	l := newLog(t)
	l.churn(3, "a")
	l.acquire("b", "alice", "r1")
	l.acquire("c", "alice", "r1")
	seen := 0
	for range l.table.Ascend("") {
		seen++
		break
	}
	for range l.table.Ended() {
		seen++
		break
	}
	if seen != 2 {
		t.Errorf("got %d, want one lease and one ended grant", seen)
	}
}

// TestLease_State ensures that a lease with neither a grant nor a lock delay is
// free, however it is written down.
func TestLease_State(t *testing.T) {
	var none *lease.Lease
	for _, tc := range []struct {
		lease *lease.Lease
		want  lease.State
	}{
		{none, lease.Free},
		{&lease.Lease{Name: "a"}, lease.Free},
		{&lease.Lease{Name: "a", Grant: &lease.Grant{Token: 1}}, lease.Held},
		{&lease.Lease{Name: "a", Cooldown: &lease.Cooldown{Token: 1}}, lease.Cooling},
	} {
		if got := tc.lease.State(); got != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.lease, got, tc.want)
		}
	}
}
