package lease_test

import (
	"testing"
	"time"

	"leasehold/lease"
)

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
		"lock delay": func(s *setup) { s.acquire.LockDelay++ },
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

// TestTable_Hash_SeesWaitersAndRegisters ensures the same of the fields of a
// waiter, a lock delay, a register and its writes, and of the order of a queue.
func TestTable_Hash_SeesWaitersAndRegisters(t *testing.T) {
	type setup struct {
		first, second lease.Acquire
		at            int64 // of the second
		revoke        lease.Revoke
		delay         time.Duration
		writes        []lease.Write
	}
	build := func(change func(*setup)) uint64 {
		s := setup{
			first:  lease.Acquire{Name: "a", Holder: "bob", RequestID: "r1", TTL: time.Second, Wait: time.Second, Value: "v"},
			second: lease.Acquire{Name: "a", Holder: "carol", RequestID: "r2", TTL: time.Minute, Wait: time.Second},
			at:     4,
			revoke: lease.Revoke{Name: "b", Token: 2, Reason: "stuck"},
			delay:  time.Second,
			writes: []lease.Write{{Register: "x", Value: "v", Token: 3}, {Register: "x", Value: "w", Token: 2}},
		}
		if change != nil {
			change(&s)
		}
		table := &lease.Table{}
		for i, c := range []lease.Command{
			lease.Acquire{Name: "a", Holder: "alice", RequestID: "r", TTL: time.Second},
			lease.Acquire{Name: "b", Holder: "alice", RequestID: "r", TTL: time.Second, LockDelay: s.delay},
			s.first, s.second, s.revoke, s.writes[0], s.writes[1],
		} {
			e := lease.Entry{Index: uint64(i + 1), Term: 1, At: int64(i)}
			if i == 3 {
				e.At = s.at
			}
			table.Apply(e, c)
		}
		return table.Hash()
	}
	seen := map[uint64]string{}
	for what, change := range map[string]func(*setup){
		"nothing":           nil,
		"waiter's holder":   func(s *setup) { s.first.Holder = "dave" },
		"waiter's request":  func(s *setup) { s.first.RequestID = "r3" },
		"waiter's value":    func(s *setup) { s.first.Value = "w" },
		"waiter's ttl":      func(s *setup) { s.first.TTL++ },
		"waiter's delay":    func(s *setup) { s.first.LockDelay = time.Second },
		"waiter's time":     func(s *setup) { s.at++ },
		"waiter's lease":    func(s *setup) { s.first.Name = "b" },
		"order of waiters":  func(s *setup) { s.first, s.second = s.second, s.first },
		"one waiter":        func(s *setup) { s.second = s.first },
		"no lock delay":     func(s *setup) { s.delay = 0 },
		"lock delay":        func(s *setup) { s.delay++ },
		"not revoked":       func(s *setup) { s.revoke.Token = 1 },
		"reason":            func(s *setup) { s.revoke.Reason = "moved" },
		"register's name":   func(s *setup) { s.writes[0].Register, s.writes[1].Register = "y", "y" },
		"register's value":  func(s *setup) { s.writes[0].Value = "u" },
		"register's token":  func(s *setup) { s.writes[0].Token = 4 },
		"token of a write":  func(s *setup) { s.writes[1].Token = 1 },
		"guard of a write":  func(s *setup) { s.writes[1].Lease = "a" },
		"two registers":     func(s *setup) { s.writes[1].Register = "y" },
		"verdict of writes": func(s *setup) { s.writes[1].Token = 3 },
	} {
		h := build(change)
		if other, is := seen[h]; is {
			t.Errorf("%q and %q have the same hash", what, other)
		}
		seen[h] = what
	}
}

// TestTable_Hash_IsWholeAgainWhenAllIsGone ensures that every record that goes
// takes its share of the hash with it: once all leases are free the hash is that
// of a table which has seen the same ends and nothing else.
func TestTable_Hash_IsWholeAgainWhenAllIsGone(t *testing.T) {
	run := func(more func(apply func(lease.Command))) uint64 {
		table, index := &lease.Table{}, uint64(0)
		apply := func(c lease.Command) {
			index++
			if r := table.Apply(lease.Entry{Index: index, Term: 1}, c); r.Err != nil {
				t.Fatalf("%#v: %v", c, r.Err)
			}
		}
		apply(lease.Acquire{Name: "a", Holder: "alice", RequestID: "r", LockDelay: time.Second})
		more(apply)
		index = 20
		apply(lease.Expire{Name: "a", Token: 1, Renewal: 1, Term: 1})
		apply(lease.Reopen{Name: "a", Token: 1})
		return table.Hash()
	}
	plain := run(func(func(lease.Command)) {})
	waited := run(func(apply func(lease.Command)) {
		apply(lease.Acquire{Name: "a", Holder: "bob", RequestID: "b", Wait: time.Second})
		apply(lease.Acquire{Name: "a", Holder: "carol", RequestID: "c", Wait: time.Second})
		apply(lease.Abandon{Name: "a", Holder: "bob", RequestID: "b", Place: 2})
		apply(lease.Abandon{Name: "a", Holder: "carol", RequestID: "c", Place: 3})
	})
	if waited != plain {
		t.Errorf("waiters that came and went left a trace in the hash: %x, without them %x", waited, plain)
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
