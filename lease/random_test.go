package lease_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"leasehold/lease"
)

var modelNames = []string{"a", "a/b", "jobs/nightly"}

// modelRegisters has a name that is also that of a lease: they are two things.
var modelRegisters = []string{"a", "notes"}

// drawCommand draws a command that has a fair chance of meeting the state: its
// token, renewal and place are mostly ones that exist or existed.
func drawCommand(t *rapid.T, m *model, e lease.Entry) lease.Command {
	name := rapid.SampledFrom(modelNames).Draw(t, "name")
	holder := rapid.SampledFrom([]string{"alice", "bob", "carol"}).Draw(t, "holder")
	g, queue := m.held[name], m.queues[name]
	tokens := []uint64{g.Token, g.Renewal, 0, e.Index, e.Index + 7}
	for _, other := range modelNames {
		tokens = append(tokens, m.held[other].Token)
	}
	ids := []string{"r1", "r2", "r3", fmt.Sprint("new-", e.Index), fmt.Sprint("new-", e.Index)}
	places := []uint64{0, g.Token, e.Index - 1}
	switch recent := m.ended[max(0, len(m.ended)-3):]; rapid.IntRange(0, 5).Draw(t, "about") {
	case 0: // a grant that is over
		if len(recent) > 0 {
			was := rapid.SampledFrom(recent).Draw(t, "ended")
			holder, tokens, ids = was.Holder, []uint64{was.Token}, []string{was.RequestID}
			if rapid.IntRange(0, 3).Draw(t, "other name at 3") < 3 {
				name, g = was.Name, m.held[was.Name]
			}
		}
	case 1, 2: // the grant that is live, by its holder
		if g.Token != 0 {
			holder, tokens, ids = g.Holder, []uint64{g.Token}, append(ids, g.RequestID)
		}
	case 3: // one that waits
		if len(queue) > 0 {
			w := rapid.SampledFrom(queue).Draw(t, "waiter")
			holder, ids, places = w.Holder, []string{w.RequestID}, []uint64{w.Place, w.Place, w.Place, w.Place - 1}
		}
	}
	token := rapid.SampledFrom(tokens)
	value := rapid.SampledFrom([]string{"", "v1", "v2"})
	ttl := rapid.SampledFrom([]time.Duration{0, time.Second, 1500 * time.Millisecond})
	id := rapid.SampledFrom(ids)

	switch rapid.SampledFrom([]string{
		"acquire", "acquire", "acquire", "acquire", "renew", "renew", "release", "release",
		"expire", "expire", "reopen", "reopen", "abandon", "abandon", "revoke", "write", "write", "lead",
	}).Draw(t, "command") {
	case "acquire":
		return lease.Acquire{
			Name: name, Holder: holder, RequestID: id.Draw(t, "request"), TTL: ttl.Draw(t, "ttl"),
			Wait:      rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "wait"),
			LockDelay: rapid.SampledFrom([]time.Duration{0, 0, time.Second}).Draw(t, "lock delay"),
			Value:     value.Draw(t, "value"), Reclaim: rapid.IntRange(0, 2).Draw(t, "reclaim at 0") == 0,
		}
	case "renew":
		c := lease.Renew{Name: name, Holder: holder, Token: token.Draw(t, "token"), TTL: ttl.Draw(t, "ttl")}
		if rapid.Bool().Draw(t, "with value") {
			v := value.Draw(t, "value")
			c.Value = &v
		}
		return c
	case "release":
		return lease.Release{Name: name, Holder: holder, Token: token.Draw(t, "token")}
	case "expire":
		return lease.Expire{
			Name: name, Token: token.Draw(t, "token"),
			Renewal: rapid.SampledFrom([]uint64{g.Renewal, g.Renewal, g.Token, g.Renewal - 1}).Draw(t, "renewal"),
			Term:    rapid.SampledFrom([]uint64{e.Term, e.Term, e.Term, e.Term - 1, e.Term + 1}).Draw(t, "term"),
		}
	case "reopen":
		for _, other := range modelNames { // few are cooling; take one that is
			if m.cooling[name].Token == 0 && m.cooling[other].Token != 0 {
				name = other
			}
		}
		cooling := m.cooling[name].Token
		return lease.Reopen{Name: name, Token: rapid.SampledFrom([]uint64{cooling, cooling, cooling, max(cooling, 1) - 1, 0}).Draw(t, "token")}
	case "abandon":
		if queue := m.queues[name]; len(queue) > 0 && rapid.Bool().Draw(t, "of the last") {
			w := queue[len(queue)-1]
			holder, id, places = w.Holder, rapid.Just(w.RequestID), []uint64{w.Place, w.Place - 1, queue[0].Place}
		}
		if g.Token != 0 && !g.Taken && rapid.Bool().Draw(t, "of the grant") {
			holder, id, places = g.Holder, rapid.Just(g.RequestID), []uint64{g.Place, g.Place, g.Place - 1}
		}
		return lease.Abandon{
			Name: name, Holder: holder, RequestID: id.Draw(t, "request"), Place: rapid.SampledFrom(places).Draw(t, "place"),
			Reason: rapid.SampledFrom([]lease.Reason{lease.WaitOver, lease.ClientGone, lease.NotBack}).Draw(t, "reason"),
		}
	case "revoke":
		again, revoked := m.findEnded(func(was lease.Ended) bool { return was.How == lease.Revoked })
		if revoked && rapid.IntRange(0, 3).Draw(t, "again at 0") == 0 {
			return lease.Revoke{Name: again.Name, Token: again.Token, Reason: "again"}
		}
		return lease.Revoke{Name: name, Token: token.Draw(t, "token"), Reason: rapid.SampledFrom([]string{"stuck", "moved"}).Draw(t, "reason")}
	case "write":
		reg := rapid.SampledFrom(modelRegisters).Draw(t, "register")
		highest := m.registers[reg].HighestToken
		return lease.Write{
			Register: reg, Value: value.Draw(t, "value"), Lease: rapid.SampledFrom([]string{"", name, name}).Draw(t, "guard"),
			Token: rapid.SampledFrom(append(tokens, highest, max(highest, 1)-1, 0)).Draw(t, "token"),
		}
	default:
		return lease.Lead{Node: "n1", Address: "127.0.0.1:8001", ClusterID: rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(t, "cluster")}
	}
}

// TestTable_AgreesWithModel ensures that after any sequence of commands the
// result and the whole state are those of the model; that replicas fed the same
// log have equal hashes, also one that was restored from a snapshot on the way;
// that a refusal, a replay and a repeated release change nothing; and that a
// snapshot is not touched by what comes after it.
func TestTable_AgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLog(t)
		m := newModel()
		plain, moved := &lease.Table{}, &lease.Table{}
		type taken struct {
			snapshot *lease.Snapshot
			header   lease.Header
			contents string
		}
		var snapshots []taken

		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			l.entry.Index += uint64(rapid.IntRange(0, 2).Draw(t, "entries of Raft's own"))
			c := drawCommand(t, m, l.entry)
			if _, lead := c.(lease.Lead); lead {
				l.entry.Term += uint64(rapid.IntRange(1, 3).Draw(t, "terms"))
			}
			e := l.entry
			r := l.apply(c)
			m.checkAgrees(t, l.table, r, m.apply(e, c))

			plain.Apply(e, c)
			moved.Apply(e, c)
			if h := l.table.Hash(); plain.Hash() != h || moved.Hash() != h {
				t.Fatalf("index %d: hashes %x, %x and %x", e.Index, h, plain.Hash(), moved.Hash())
			}
			if rapid.IntRange(0, 9).Draw(t, "snapshot at 0") == 0 {
				s := l.table.Snapshot()
				snapshots = append(snapshots, taken{s, s.Header, snapshotContents(s)})
				moved = checkRebuilds(t, moved)
			}
		}
		for _, s := range snapshots {
			if s.snapshot.Header != s.header || snapshotContents(s.snapshot) != s.contents {
				t.Fatalf("the snapshot of index %d has changed to\n%sfrom\n%s", s.header.Applied.Index, snapshotContents(s.snapshot), s.contents)
			}
		}

		// A freed name leaves no record. Each release hands on to the next waiter.
		for _, name := range names(l.table) {
			for held := l.table.Get(name); held != nil; held = l.table.Get(name) {
				if held.Cooldown != nil {
					l.apply(lease.Reopen{Name: name, Token: held.Cooldown.Token})
				} else {
					l.apply(lease.Release{Name: name, Holder: held.Grant.Holder, Token: held.Grant.Token})
				}
			}
		}
		if l.table.Len() != 0 || l.table.Waiters() != 0 {
			t.Fatalf("%d leases and %d waiters are left after each was released", l.table.Len(), l.table.Waiters())
		}
	})
}

// drawMany draws commands for long logs: request ids that come back once they
// are forgotten, ends about the edge of the ring, registers with many writes.
func drawMany(rnd *rand.Rand, m *model, e lease.Entry) lease.Command {
	name := modelNames[rnd.IntN(len(modelNames))]
	g, held := m.held[name]
	if c, cooling := m.cooling[name]; cooling && rnd.IntN(2) == 0 {
		return lease.Reopen{Name: name, Token: c.Token}
	}
	switch {
	case held && rnd.IntN(2) == 0:
		return lease.Release{Name: name, Holder: g.Holder, Token: g.Token}
	case held && rnd.IntN(2) == 0:
		return lease.Expire{Name: name, Token: g.Token, Renewal: g.Renewal, Term: 1}
	case held && rnd.IntN(12) == 0:
		return lease.Revoke{Name: name, Token: g.Token, Reason: "stuck"}
	case rnd.IntN(12) == 0:
		c := lease.Write{Register: modelRegisters[rnd.IntN(2)], Value: fmt.Sprint(e.Index), Token: g.Token}
		if rnd.IntN(2) == 0 {
			c.Lease = name
		}
		if n := len(m.ended); n > 0 && rnd.IntN(2) == 0 {
			c.Token = m.ended[max(0, n-1-rnd.IntN(5))].Token
		}
		return c
	case rnd.IntN(4) == 0 && len(m.ended) > 0:
		near := max(0, len(m.ended)-1024-2+rnd.IntN(4)) // about the edge of the ring
		was := m.ended[min(near, len(m.ended)-1)]
		if rnd.IntN(4) == 0 {
			return lease.Revoke{Name: was.Name, Token: was.Token, Reason: "again"}
		}
		return lease.Release{Name: was.Name, Holder: was.Holder, Token: was.Token}
	case rnd.IntN(6) == 0 && len(m.queues[name]) > 0:
		w := m.queues[name][rnd.IntN(len(m.queues[name]))]
		return lease.Abandon{Name: name, Holder: w.Holder, RequestID: w.RequestID, Place: w.Place, Reason: lease.NotBack}
	}
	// Few enough request ids that they come back once they are forgotten, many
	// enough that not all are refused.
	return lease.Acquire{
		Name: name, Holder: "alice", RequestID: fmt.Sprint(rnd.IntN(1200)), Reclaim: rnd.IntN(4) == 0,
		Wait: time.Duration(max(0, rnd.IntN(4)-2)) * time.Second, LockDelay: time.Duration(max(0, rnd.IntN(8)-6)) * time.Second,
	}
}

// TestTable_AgreesWithModel_WhenTheRingIsFull ensures the same when more than
// 1,024 grants have ended, so that each further end pushes an old one out, and
// when the registers have seen more writes than they keep.
func TestTable_AgreesWithModel_WhenTheRingIsFull(t *testing.T) {
	for seed := range uint64(2) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		m := newModel()
		table, moved := &lease.Table{}, &lease.Table{}
		e := lease.Entry{Index: 1, Term: 1, At: 1000}
		forgotten := 0
		granted := map[string]bool{}
		for range 7000 {
			e.Index, e.At = e.Index+1, e.At+1
			c := drawMany(rnd, m, e)
			r := table.Apply(e, c)
			moved.Apply(e, c)
			checkResult(t, r, e)
			want := m.apply(e, c)
			m.checkVerdict(t, r, want)
			if e.Index%211 == 0 {
				m.checkAgrees(t, table, r, want)
				moved = checkRebuilds(t, moved)
			}
			if a, is := c.(lease.Acquire); is && want.events == "granted" {
				if key := a.Name + " " + a.RequestID; granted[key] {
					forgotten++
				} else {
					granted[key] = true
				}
			}
			if table.Hash() != moved.Hash() {
				t.Fatalf("seed %d index %d: the restored replica has another hash", seed, e.Index)
			}
		}
		if forgotten < 3 || len(m.ended) < 1500 {
			t.Errorf("seed %d: the run was too gentle: %d ends, %d requests granted again after they were forgotten", seed, len(m.ended), forgotten)
		}
		for name, reg := range m.registers {
			if reg.Accepted < 20 || reg.Refused < 5 {
				t.Errorf("seed %d: the run was too gentle with register %s: %d writes accepted, %d refused", seed, name, reg.Accepted, reg.Refused)
			}
		}
	}
}

// TestTable_AgreesWithModel_DrawsEverything ensures that the random commands of
// the test above reach each result; otherwise it would prove little.
func TestTable_AgreesWithModel_DrawsEverything(t *testing.T) {
	seen := map[string]int{}
	draw := func(t *rapid.T) {
		m := newModel()
		e := lease.Entry{Term: 1}
		for range 60 {
			e.Index++
			c := drawCommand(t, m, e)
			v := m.apply(e, c)
			seen[fmt.Sprintf("%T %v replayed=%v already=%v ended=%d place=%d: %s",
				c, v.err, v.replayed, v.already, min(v.ended, 1), min(v.place, 1), v.events)]++
		}
	}
	for range 10 { // rapid checks less when tests are to be short
		rapid.Check(t, draw)
	}
	want := []string{
		"lease.Lead <nil> replayed=false already=false ended=0 place=0: leader",
		"lease.Acquire <nil> replayed=false already=false ended=0 place=0: granted",
		"lease.Acquire <nil> replayed=false already=false ended=0 place=1: queued",
		"lease.Acquire <nil> replayed=false already=false ended=1 place=0: reclaimed granted",
		"lease.Acquire <nil> replayed=true already=false ended=0 place=0: ",
		"lease.Acquire <nil> replayed=true already=false ended=0 place=1: ",
		"lease.Acquire lease is held replayed=false already=false ended=0 place=0: refused",
		"lease.Acquire lease is cooling replayed=false already=false ended=0 place=0: refused",
		"lease.Acquire request has ended replayed=false already=false ended=1 place=0: refused",
		"lease.Renew <nil> replayed=false already=false ended=0 place=0: renewed",
		"lease.Renew lease is lost replayed=false already=false ended=0 place=0: refused",
		"lease.Renew lease is lost replayed=false already=false ended=1 place=0: refused",
		"lease.Renew token belongs to another holder replayed=false already=false ended=0 place=0: refused",
		"lease.Release <nil> replayed=false already=false ended=1 place=0: released",
		"lease.Release <nil> replayed=false already=false ended=1 place=0: released granted",
		"lease.Release <nil> replayed=false already=true ended=1 place=0: ",
		"lease.Release lease is lost replayed=false already=false ended=0 place=0: refused",
		"lease.Release lease is lost replayed=false already=false ended=1 place=0: refused",
		"lease.Release token belongs to another holder replayed=false already=false ended=0 place=0: refused",
		"lease.Expire <nil> replayed=false already=false ended=1 place=0: expired",
		"lease.Expire <nil> replayed=false already=false ended=1 place=0: expired granted",
		"lease.Expire <nil> replayed=false already=false ended=1 place=0: expired cooling",
		"lease.Expire lease is lost replayed=false already=false ended=0 place=0: refused",
		"lease.Expire lease is lost replayed=false already=false ended=1 place=0: refused",
		"lease.Expire grant was renewed replayed=false already=false ended=0 place=0: refused",
		"lease.Expire deadline was set in another term replayed=false already=false ended=0 place=0: refused",
		"lease.Reopen <nil> replayed=false already=false ended=0 place=0: reopened",
		"lease.Reopen <nil> replayed=false already=false ended=0 place=0: reopened granted",
		"lease.Reopen lease is not cooling replayed=false already=false ended=0 place=0: refused",
		"lease.Abandon <nil> replayed=false already=false ended=0 place=1: abandoned",
		"lease.Abandon request is not queued replayed=false already=false ended=0 place=0: refused",
		"lease.Abandon request is not queued replayed=false already=false ended=1 place=0: refused",
		"lease.Abandon <nil> replayed=false already=false ended=1 place=0: released",
		"lease.Abandon <nil> replayed=false already=false ended=1 place=0: released granted",
		"lease.Revoke <nil> replayed=false already=false ended=1 place=0: revoked",
		"lease.Revoke <nil> replayed=false already=false ended=1 place=0: revoked granted",
		"lease.Revoke <nil> replayed=false already=false ended=1 place=0: revoked cooling",
		"lease.Revoke <nil> replayed=false already=true ended=1 place=0: ",
		"lease.Revoke lease is lost replayed=false already=false ended=0 place=0: refused",
		"lease.Revoke lease is lost replayed=false already=false ended=1 place=0: refused",
		"lease.Write <nil> replayed=false already=false ended=0 place=0: written",
		"lease.Write token is stale replayed=false already=false ended=0 place=0: refused",
		"lease.Write token is not live replayed=false already=false ended=0 place=0: refused",
		"lease.Write token is not live replayed=false already=false ended=1 place=0: refused",
	}
	for _, w := range want {
		if seen[w] == 0 {
			t.Errorf("never drawn: %s", w)
		}
		t.Logf("%5d %s", seen[w], w)
		delete(seen, w)
	}
	for s, n := range seen {
		t.Errorf("not in the list: %s (%d times)", s, n)
	}
}
