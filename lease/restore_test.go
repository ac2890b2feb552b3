package lease_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/lease"
)

// parts is a snapshot in pieces that can be damaged one by one.
type parts struct {
	header    lease.Header
	leases    []*lease.Lease
	waiters   []*lease.Waiter
	registers []*lease.Register
	ended     []*lease.Ended
}

func takeApart(s *lease.Snapshot) *parts {
	return &parts{
		s.Header, slices.Collect(s.All()), slices.Collect(s.AllWaiters()),
		slices.Collect(s.AllRegisters()), slices.Collect(s.Ended()),
	}
}

func (p *parts) restore() (*lease.Table, error) {
	return lease.Restore(p.header, lease.Parts{
		Leases: slices.Values(p.leases), Waiters: slices.Values(p.waiters),
		Registers: slices.Values(p.registers), Ended: slices.Values(p.ended),
	})
}

// changed returns a copy of a record with the change made.
func changed[T any](record *T, change func(*T)) *T {
	other := *record
	change(&other)
	return &other
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
	l.wait("a", "bob", "b1")
	l.wait("a", "carol", "c1")
	l.wait("c", "bob", "b1")
	closed := l.apply(lease.Acquire{Name: "d", Holder: "dave", RequestID: "r1", LockDelay: time.Second}).Lease.Grant
	l.apply(lease.Revoke{Name: "d", Token: closed.Token, Reason: "stuck"})
	l.apply(lease.Write{Register: "x", Value: "v1", Token: 9})
	l.apply(lease.Write{Register: "x", Value: "v2", Token: 8})
	l.apply(lease.Write{Register: "y", Value: "v"})

	for _, tc := range []struct {
		name   string
		damage func(*parts)
		want   string // part of the error, empty if there is none
	}{
		{"whole", func(*parts) {}, ""},
		{"lease missing", func(p *parts) { p.leases = slices.Delete(p.leases, 1, 2) }, "3 leases where 4 are due"},
		{"lease doubled", func(p *parts) { p.leases[1] = p.leases[0] }, "out of order"},
		{"leases swapped", func(p *parts) { slices.Reverse(p.leases) }, "out of order"},
		{"lease without a name", func(p *parts) { p.leases[0] = changed(p.leases[0], func(l *lease.Lease) { l.Name = "" }) }, "out of order, or neither"},
		{"lease without a grant", func(p *parts) { p.leases[0] = &lease.Lease{Name: "a", Waiters: 2} }, "neither held nor cooling"},
		{"lease held and cooling", func(p *parts) {
			p.leases[3] = changed(p.leases[3], func(l *lease.Lease) { l.Grant = p.leases[0].Grant })
		}, "lease \"d\""},
		{"lease renamed", func(p *parts) { p.leases[1] = changed(p.leases[1], func(l *lease.Lease) { l.Name = "bb" }) }, "state hash"},
		{"grant changed", func(p *parts) {
			p.leases[0] = changed(p.leases[0], func(l *lease.Lease) {
				l.Grant = changed(l.Grant, func(g *lease.Grant) { g.Renewal++ })
			})
		}, "state hash"},
		{"lock delay changed", func(p *parts) {
			p.leases[3] = changed(p.leases[3], func(l *lease.Lease) {
				l.Cooldown = changed(l.Cooldown, func(c *lease.Cooldown) { c.Delay++ })
			})
		}, "state hash"},
		{"number of leases", func(p *parts) { p.header.Leases-- }, "4 leases where 3 are due"},

		{"waiter missing", func(p *parts) { p.waiters = p.waiters[1:] }, `lease "a" has 1 waiters and counts 2`},
		{"last waiter missing", func(p *parts) { p.waiters = p.waiters[:2] }, "2 waiters where 3 are due"},
		{"waiters missing", func(p *parts) { p.waiters = nil }, "0 waiters where 3 are due"},
		{"waiter doubled", func(p *parts) { p.waiters[1] = p.waiters[0] }, "out of order"},
		{"waiters of a lease swapped", func(p *parts) { slices.Reverse(p.waiters[:2]) }, "out of order"},
		{"waiters of two leases swapped", func(p *parts) { slices.Reverse(p.waiters) }, "out of order"},
		{"waiter for another lease", func(p *parts) {
			p.waiters[2] = changed(p.waiters[2], func(w *lease.Waiter) { w.Name = "b" })
		}, `lease "b" has 1 waiters and counts 0`},
		{"waiter for a free lease", func(p *parts) {
			p.waiters[2] = changed(p.waiters[2], func(w *lease.Waiter) { w.Name = "e" })
		}, "waits for a free lease"},
		{"waiter with another place", func(p *parts) {
			p.waiters[2] = changed(p.waiters[2], func(w *lease.Waiter) { w.Place++ })
		}, "state hash"},
		{"waiters exchange their places", func(p *parts) {
			first, second := p.waiters[0].Place, p.waiters[1].Place
			p.waiters[0], p.waiters[1] = changed(p.waiters[1], func(w *lease.Waiter) { w.Place = first }),
				changed(p.waiters[0], func(w *lease.Waiter) { w.Place = second })
		}, "state hash"},
		{"number of a lease's waiters", func(p *parts) {
			p.leases[1] = changed(p.leases[1], func(l *lease.Lease) { l.Waiters++ })
		}, "3 waiters where 4 are due"},
		{"number of waiters", func(p *parts) { p.header.Waiters++ }, "3 waiters where 4 are due"},

		{"register missing", func(p *parts) { p.registers = p.registers[1:] }, "1 registers where 2 are due"},
		{"register doubled", func(p *parts) { p.registers[1] = p.registers[0] }, "out of order"},
		{"registers swapped", func(p *parts) { slices.Reverse(p.registers) }, "out of order"},
		{"register without writes", func(p *parts) {
			p.registers[1] = changed(p.registers[1], func(reg *lease.Register) { reg.Writes = nil })
		}, "0 writes"},
		{"register with too many writes", func(p *parts) {
			p.registers[1] = changed(p.registers[1], func(reg *lease.Register) { reg.Writes = make([]lease.RegisterWrite, 17) })
		}, "17 writes"},
		{"highest token changed", func(p *parts) {
			p.registers[0] = changed(p.registers[0], func(reg *lease.Register) { reg.HighestToken-- })
		}, "state hash"},
		{"writes of a register swapped", func(p *parts) {
			p.registers[0] = changed(p.registers[0], func(reg *lease.Register) {
				reg.Writes = slices.Clone(reg.Writes)
				slices.Reverse(reg.Writes)
			})
		}, "state hash"},
		{"number of registers", func(p *parts) { p.header.Registers-- }, "2 registers where 1 are due"},

		{"end missing", func(p *parts) { p.ended = p.ended[1:] }, "3 ended grants where 4 are due"},
		{"end too many", func(p *parts) {
			p.ended = append(p.ended, changed(p.ended[3], func(e *lease.Ended) { e.Index++ }))
		}, "5 ended grants where 4 are due"},
		{"end changed", func(p *parts) {
			p.ended[0] = changed(p.ended[0], func(e *lease.Ended) { e.How = lease.Expired })
		}, "state hash"},
		{"reason changed", func(p *parts) {
			p.ended[3] = changed(p.ended[3], func(e *lease.Ended) { e.Reason = "moved" })
		}, "state hash"},
		{"ends swapped", func(p *parts) { slices.Reverse(p.ended) }, "out of order"},
		{"end doubled", func(p *parts) { p.ended[1] = p.ended[0] }, "out of order"},
		{"ended ever", func(p *parts) { p.header.EndedEver += lease.EndedKept }, "ended grants where 1028 are due"},

		{"applied index", func(p *parts) { p.header.Applied.Index++ }, "state hash"},
		{"cluster id", func(p *parts) { p.header.ClusterID = "d" }, "state hash"},
		{"leader", func(p *parts) { p.header.Leader.Node = "n2" }, "state hash"},
		{"leader's entry", func(p *parts) { p.header.LeadEntry.Term++ }, "state hash"},
		{"hash", func(p *parts) { p.header.Hash++ }, "state hash"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := takeApart(l.table.Snapshot())
			tc.damage(p)
			table, err := p.restore()
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
	if _, err := lease.Restore(s.Header, s.Parts()); err == nil {
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
	if _, err := (&parts{header: lease.Header{Hash: 1}}).restore(); err == nil {
		t.Error("a wrong hash of nothing was accepted")
	}
}

// TestRestore_FindsWaitersByTheirRequest ensures that a queue works on in a table
// that was restored: a repeated request keeps its place, an abandon finds it, and
// a release hands on to the first.
func TestRestore_FindsWaitersByTheirRequest(t *testing.T) {
	l := newLog(t)
	token := l.acquire("a", "alice", "a1")
	first, second := l.wait("a", "bob", "b1"), l.wait("a", "carol", "c1")
	third := l.wait("a", "dave", "d1")
	l.table = checkRebuilds(t, l.table)

	r := l.apply(lease.Acquire{Name: "a", Holder: "carol", RequestID: "c1", Wait: time.Second})
	if !r.Replayed || r.Waiter == nil || r.Waiter.Place != second {
		t.Errorf("carol's place: got %+v, want %d again", r.Waiter, second)
	}
	if r := l.apply(lease.Abandon{Name: "a", Holder: "bob", RequestID: "b1", Place: first, Reason: lease.NotBack}); r.Err != nil {
		t.Errorf("abandon: %v", r.Err)
	}
	if r := l.apply(lease.Release{Name: "a", Holder: "alice", Token: token}); r.Lease.Grant.Holder != "carol" || r.Lease.Waiters != 1 {
		t.Errorf("after the release: %+v, want it held by carol with dave waiting", r.Lease)
	}
	if w := l.table.Waiting("a", "dave", "d1"); w == nil || w.Place != third {
		t.Errorf("dave: got %+v, want place %d", w, third)
	}
}
