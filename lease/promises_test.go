package lease_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"leasehold/lease"
)

// promises watches a table from outside, as a client could: by the events of
// each entry. It knows nothing of how a command is carried out, only what is
// promised whatever the commands are.
type promises struct {
	top     uint64              // the highest token so far
	live    map[string]uint64   // the token that is live, by name
	queues  map[string][]uint64 // the places that wait, in the order of their events
	cooling map[string]uint64   // the token whose lock delay runs, by name
	written map[string]uint64   // the highest token that a register accepted
	reclaim uint64              // the index of the latest reclaim
}

// check takes in the result of the next entry and fails the test if a promise is
// broken by it.
func (p *promises) check(t tester, table *lease.Table, r lease.Result) {
	t.Helper()
	if p.live == nil {
		p.live, p.queues = map[string]uint64{}, map[string][]uint64{}
		p.cooling, p.written = map[string]uint64{}, map[string]uint64{}
	}
	for _, ev := range r.Events {
		p.checkEvent(t, ev)
	}
	// What is handed on is handed on in the same entry.
	if queue := p.queues[r.Name]; len(queue) > 0 && p.live[r.Name] == 0 && p.cooling[r.Name] == 0 {
		t.Fatalf("index %d: the places %v wait for %s, which nobody holds and which is not cooling", r.Entry.Index, queue, r.Name)
	}
	p.checkTable(t, table)
}

func (p *promises) checkEvent(t tester, ev lease.Event) {
	t.Helper()
	switch ev.Kind {
	case lease.KindGranted:
		if ev.Token != ev.Index || ev.Token <= p.top {
			t.Fatalf("index %d granted token %d, and %d was granted before", ev.Index, ev.Token, p.top)
		}
		if p.live[ev.Name] != 0 {
			t.Fatalf("index %d granted %s while token %d was live", ev.Index, ev.Name, p.live[ev.Name])
		}
		if token := p.cooling[ev.Name]; token != 0 {
			t.Fatalf("index %d granted %s while the lock delay of token %d ran", ev.Index, ev.Name, token)
		}
		p.top, p.live[ev.Name] = ev.Token, ev.Token
		queue := p.queues[ev.Name]
		if ev.Place == 0 {
			if len(queue) > 0 && p.reclaim != ev.Index {
				t.Fatalf("index %d granted %s past the queue %v", ev.Index, ev.Name, queue)
			}
			return
		}
		if len(queue) == 0 || queue[0] != ev.Place {
			t.Fatalf("index %d granted %s to place %d of the queue %v", ev.Index, ev.Name, ev.Place, queue)
		}
		p.queues[ev.Name] = queue[1:]
	case lease.KindReleased, lease.KindExpired, lease.KindRevoked, lease.KindReclaimed:
		if p.live[ev.Name] != ev.Token {
			t.Fatalf("index %d: token %d of %s is %s while %d is live", ev.Index, ev.Token, ev.Name, ev.Kind, p.live[ev.Name])
		}
		delete(p.live, ev.Name)
		if ev.Kind == lease.KindReclaimed {
			p.reclaim = ev.Index
		}
	case lease.KindRenewed:
		if p.live[ev.Name] != ev.Token {
			t.Fatalf("index %d renewed token %d of %s while %d is live", ev.Index, ev.Token, ev.Name, p.live[ev.Name])
		}
	case lease.KindQueued:
		if ev.Place != ev.Index {
			t.Fatalf("index %d gave place %d", ev.Index, ev.Place)
		}
		p.queues[ev.Name] = append(p.queues[ev.Name], ev.Place)
	case lease.KindAbandoned:
		at := slices.Index(p.queues[ev.Name], ev.Place)
		if at < 0 {
			t.Fatalf("index %d: place %d of %s was abandoned and is not in the queue %v", ev.Index, ev.Place, ev.Name, p.queues[ev.Name])
		}
		p.queues[ev.Name] = slices.Delete(p.queues[ev.Name], at, at+1)
	case lease.KindCooling:
		if p.live[ev.Name] != 0 || ev.Delay <= 0 {
			t.Fatalf("index %d: a lock delay of %v while token %d is live", ev.Index, ev.Delay, p.live[ev.Name])
		}
		p.cooling[ev.Name] = ev.Token
	case lease.KindReopened:
		if p.cooling[ev.Name] != ev.Token {
			t.Fatalf("index %d ended the lock delay of token %d, and that of %d runs", ev.Index, ev.Token, p.cooling[ev.Name])
		}
		delete(p.cooling, ev.Name)
	case lease.KindWritten:
		if ev.Token != 0 && ev.Token < p.written[ev.Name] {
			t.Fatalf("index %d wrote to %s with token %d after token %d", ev.Index, ev.Name, ev.Token, p.written[ev.Name])
		}
		p.written[ev.Name] = max(p.written[ev.Name], ev.Token)
	}
}

// checkTable compares the table with what the events told.
func (p *promises) checkTable(t tester, table *lease.Table) {
	t.Helper()
	index, waiters := table.Applied().Index, 0
	if table.Len() != len(p.live)+len(p.cooling) {
		t.Fatalf("index %d: %d leases, by the events %d are held and %d cooling", index, table.Len(), len(p.live), len(p.cooling))
	}
	for l := range table.Ascend("") {
		var places []uint64
		for w := range table.WaitersOf(l.Name) {
			places = append(places, w.Place)
		}
		if l.Waiters != len(places) || !slices.Equal(places, p.queues[l.Name]) {
			t.Fatalf("index %d: %s counts %d waiters and has the places %v, by the events %v", index, l.Name, l.Waiters, places, p.queues[l.Name])
		}
		waiters += len(places)
		switch l.State() {
		case lease.Held:
			if l.Cooldown != nil || l.Grant.Token != p.live[l.Name] {
				t.Fatalf("index %d: %s is held under token %d (cooldown %+v), by the events %d", index, l.Name, l.Grant.Token, l.Cooldown, p.live[l.Name])
			}
		case lease.Cooling:
			if l.Cooldown.Token != p.cooling[l.Name] {
				t.Fatalf("index %d: %s is cooling after token %d, by the events %d", index, l.Name, l.Cooldown.Token, p.cooling[l.Name])
			}
		default:
			t.Fatalf("index %d: %+v is in the table and free", index, l)
		}
	}
	// No waiter is left of a lease that is free.
	if table.Waiters() != waiters {
		t.Fatalf("index %d: %d waiters in all, %d of them at leases that are held or cooling", index, table.Waiters(), waiters)
	}
}

// wander draws a command that mostly succeeds, by what the table holds.
func wander(rnd *rand.Rand, table *lease.Table, e lease.Entry) lease.Command {
	name := modelNames[rnd.IntN(len(modelNames))]
	holder := []string{"alice", "bob", "carol"}[rnd.IntN(3)]
	acquire := lease.Acquire{
		Name: name, Holder: holder, RequestID: fmt.Sprint("r", e.Index-uint64(rnd.IntN(4))), TTL: time.Second,
		Wait: time.Duration(rnd.IntN(3)) * time.Second, LockDelay: time.Duration(max(0, rnd.IntN(4)-1)) * time.Second,
		Reclaim: rnd.IntN(5) == 0,
	}
	l := table.Get(name)
	if rnd.IntN(3) == 0 || l == nil {
		return acquire
	}
	if waiters := slices.Collect(table.WaitersOf(name)); len(waiters) > 0 && rnd.IntN(5) == 0 {
		w := waiters[rnd.IntN(len(waiters))]
		return lease.Abandon{Name: name, Holder: w.Holder, RequestID: w.RequestID, Place: w.Place, Reason: lease.WaitOver}
	}
	if l.Cooldown != nil {
		return lease.Reopen{Name: name, Token: l.Cooldown.Token - uint64(rnd.IntN(2))}
	}
	g := l.Grant
	switch rnd.IntN(6) {
	case 0:
		return lease.Renew{Name: name, Holder: g.Holder, Token: g.Token}
	case 1:
		return lease.Expire{Name: name, Token: g.Token, Renewal: g.Renewal, Term: e.Term}
	case 2:
		return lease.Revoke{Name: name, Token: g.Token, Reason: "maintenance"}
	case 3: // sometimes with an older token
		token := g.Token - min(g.Token, uint64(rnd.IntN(2)*rnd.IntN(50)))
		return lease.Write{Register: "notes", Value: "v", Token: token, Lease: []string{"", name}[rnd.IntN(2)]}
	default:
		return lease.Release{Name: name, Holder: g.Holder, Token: g.Token}
	}
}

// TestTable_KeepsItsPromises ensures, over long random logs, that tokens rise and
// are the index of their entry, that a name has one live token, that waiters are
// granted in the order of the entries that queued them, that a lease with
// waiters is held or cooling, that nobody is granted during a lock delay, and
// that a register accepts no token below one that it has accepted.
func TestTable_KeepsItsPromises(t *testing.T) {
	steps := 20_000
	if testing.Short() {
		steps = 4000
	}
	for seed := range uint64(3) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		table, e, p := &lease.Table{}, lease.Entry{Term: 1}, promises{}
		seen := map[string]int{}
		for range steps {
			e.Index, e.At = e.Index+1, e.At+1
			r := table.Apply(e, wander(rnd, table, e))
			checkResult(t, r, e)
			p.check(t, table, r)
			seen[kinds(r)]++
			if r.Err != nil {
				seen[r.Err.Error()]++
			}
			if e.Index%500 == 0 {
				table = checkRebuilds(t, table)
			}
		}
		// A promise that was never put to the test was not kept.
		for _, what := range append(slices.Clone(stories[1:]), lease.ErrStaleToken.Error(), lease.ErrNotLive.Error(), lease.ErrCooling.Error(), lease.ErrHeld.Error()) {
			if seen[what] < 10 {
				t.Errorf("seed %d: %q happened %d times", seed, what, seen[what])
			}
		}
	}
}
