package lease_test

import (
	"fmt"
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
		TTL: time.Second, GrantedAt: 1111, RenewedAt: 2222,
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

// TestTable_FreedNamesCostNothing ensures that 20,000 names that came and
// went leave a table as small as one that never saw them.
func TestTable_FreedNamesCostNothing(t *testing.T) {
	l := newLog(t)
	for i := range 20_000 {
		l.churn(1, fmt.Sprint("name-", i))
	}
	s := l.table.Snapshot()
	if l.table.Len() != 0 || s.Leases != 0 || len(names(l.table)) != 0 {
		t.Errorf("%d leases are left", l.table.Len())
	}
	kept := 0
	for range s.Ended() {
		kept++
	}
	if kept != lease.EndedKept {
		t.Errorf("%d ended grants are kept, want %d", kept, lease.EndedKept)
	}
	index := l.entry.Index
	if token := l.acquire("name-0", "alice", "r1"); token != index {
		t.Errorf("token: got %d, want %d", token, index)
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

// TestLease_State ensures that a lease without a grant is free, however it is
// written down.
func TestLease_State(t *testing.T) {
	var none *lease.Lease
	for _, tc := range []struct {
		lease *lease.Lease
		want  lease.State
	}{
		{none, lease.Free},
		{&lease.Lease{Name: "a"}, lease.Free},
		{&lease.Lease{Name: "a", Grant: &lease.Grant{Token: 1}}, lease.Held},
	} {
		if got := tc.lease.State(); got != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.lease, got, tc.want)
		}
	}
}

// TestTable_Hash_SeesEveryField ensures that two states that differ in any one
// field have different hashes.
func TestTable_Hash_SeesEveryField(t *testing.T) {
	type setup struct {
		lead    lease.Lead
		acquire lease.Acquire
		entry   lease.Entry // of the acquire
		release bool
	}
	build := func(change func(*setup)) uint64 {
		s := setup{
			lead:    lease.Lead{Node: "n1", Address: "host:1", ClusterID: "c"},
			acquire: lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second, Value: "v"},
			entry:   lease.Entry{Index: 5, Term: 1, At: 100},
		}
		if change != nil {
			change(&s)
		}
		table := &lease.Table{}
		table.Apply(lease.Entry{Index: 2, Term: 1, At: 50}, s.lead)
		table.Apply(s.entry, s.acquire)
		if s.release {
			table.Apply(lease.Entry{Index: 9, Term: 1, At: 300}, lease.Release{Name: "a", Holder: s.acquire.Holder, Token: s.entry.Index})
		} else {
			// The last entry is the same in all of them.
			table.Apply(lease.Entry{Index: 9, Term: 1, At: 300}, lease.Renew{Name: "x"})
		}
		return table.Hash()
	}
	changes := map[string]func(*setup){
		"nothing":    func(*setup) {},
		"node":       func(s *setup) { s.lead.Node = "n2" },
		"address":    func(s *setup) { s.lead.Address = "host:2" },
		"cluster id": func(s *setup) { s.lead.ClusterID = "d" },
		"name":       func(s *setup) { s.acquire.Name = "b" },
		"holder":     func(s *setup) { s.acquire.Holder = "i" },
		"request id": func(s *setup) { s.acquire.RequestID = "s" },
		"ttl":        func(s *setup) { s.acquire.TTL++ },
		"value":      func(s *setup) { s.acquire.Value = "w" },
		"index":      func(s *setup) { s.entry.Index++ },
		"term":       func(s *setup) { s.entry.Term++ },
		"wall time":  func(s *setup) { s.entry.At++ },
		"shifted":    func(s *setup) { s.acquire.Holder, s.acquire.RequestID = "hr", "" },
		"released":   func(s *setup) { s.release = true },
		"released, other holder": func(s *setup) {
			s.release, s.acquire.Holder = true, "i"
		},
	}
	seen := map[uint64]string{}
	for what, change := range changes {
		h := build(change)
		if other, is := seen[h]; is {
			t.Errorf("%q and %q have the same hash", what, other)
		}
		seen[h] = what
		if h != build(change) {
			t.Errorf("%q has a new hash each time", what)
		}
	}
	if seen[build(nil)] != "nothing" {
		t.Error("changing nothing changed the hash")
	}
}

// TestTable_Hash_SeesFieldsSwapped ensures that two records that exchange a
// field change the sum of their hashes. With FNV the sum stayed the same for
// one pair in twenty.
func TestTable_Hash_SeesFieldsSwapped(t *testing.T) {
	build := func(a, b int64) uint64 {
		table := &lease.Table{}
		table.Apply(lease.Entry{Index: 1, Term: 1, At: a}, lease.Acquire{Name: "a", Holder: "h", RequestID: "r"})
		table.Apply(lease.Entry{Index: 2, Term: 1, At: b}, lease.Acquire{Name: "b", Holder: "h", RequestID: "r"})
		table.Apply(lease.Entry{Index: 3, Term: 1}, lease.Lead{})
		return table.Hash()
	}
	for a := range int64(60) {
		for b := range a {
			if build(a, b) == build(b, a) {
				t.Fatalf("wall times %d and %d can be swapped without a trace", a, b)
			}
		}
	}
}
