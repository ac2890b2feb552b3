package lease_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"leasehold/lease"
)

// model is a second opinion on the table: plain maps, every question answered
// by looking at everything, written from the contract alone.
type model struct {
	held    map[string]lease.Grant
	ended   []lease.Ended // all that ever ended, oldest first
	cluster string
}

// verdict is what the model expects an entry to come to.
type verdict struct {
	err               error
	replayed, already bool
	ended             uint64 // token of the ended grant in the result, 0 if none
}

// findEnded looks among the last 1,024 ended grants.
func (m *model) findEnded(match func(lease.Ended) bool) (lease.Ended, bool) {
	for i := len(m.ended) - 1; i >= 0 && i >= len(m.ended)-1024; i-- {
		if match(m.ended[i]) {
			return m.ended[i], true
		}
	}
	return lease.Ended{}, false
}

func (m *model) end(e lease.Entry, name string, how lease.How) uint64 {
	g := m.held[name]
	m.ended = append(m.ended, lease.Ended{
		Name: name, Token: g.Token, Holder: g.Holder, RequestID: g.RequestID, How: how, Index: e.Index, At: e.At,
	})
	delete(m.held, name)
	return g.Token
}

func (m *model) apply(e lease.Entry, command lease.Command) verdict {
	switch c := command.(type) {
	case lease.Lead:
		m.cluster = cmp.Or(m.cluster, c.ClusterID)
		return verdict{}
	case lease.Acquire:
		g, held := m.held[c.Name]
		if held && g.Holder == c.Holder && g.RequestID == c.RequestID {
			return verdict{replayed: true}
		}
		if was, is := m.findEnded(func(was lease.Ended) bool {
			return was.Name == c.Name && was.Holder == c.Holder && was.RequestID == c.RequestID
		}); is {
			return verdict{err: lease.ErrRequestEnded, ended: was.Token}
		}
		var v verdict
		if held && (!c.Reclaim || g.Holder != c.Holder) {
			return verdict{err: lease.ErrHeld}
		} else if held {
			v.ended = m.end(e, c.Name, lease.Reclaimed)
		}
		m.held[c.Name] = lease.Grant{
			Token: e.Index, Term: e.Term, Renewal: e.Index, Holder: c.Holder, RequestID: c.RequestID,
			Value: c.Value, TTL: c.TTL, GrantedAt: e.At, RenewedAt: e.At,
		}
		return v
	case lease.Renew:
		if v := m.check(c.Name, c.Holder, c.Token); v.err != nil {
			return v
		}
		g := m.held[c.Name]
		g.Renewal, g.RenewedAt, g.Renewals, g.TTL = e.Index, e.At, g.Renewals+1, cmp.Or(c.TTL, g.TTL)
		if c.Value != nil {
			g.Value = *c.Value
		}
		m.held[c.Name] = g
		return verdict{}
	case lease.Release:
		v := m.check(c.Name, c.Holder, c.Token)
		if v.err == nil {
			return verdict{ended: m.end(e, c.Name, lease.Released)}
		}
		if was, is := m.findEnded(func(was lease.Ended) bool { return was.Token == c.Token }); is &&
			was.Name == c.Name && was.Holder == c.Holder && was.How == lease.Released {
			return verdict{already: true, ended: was.Token}
		}
		return v
	case lease.Expire:
		g := m.held[c.Name]
		if v := m.check(c.Name, g.Holder, c.Token); v.err != nil {
			return v
		}
		if g.Renewal != c.Renewal {
			return verdict{err: lease.ErrRenewed}
		}
		if e.Term != c.Term {
			return verdict{err: lease.ErrOldTerm}
		}
		return verdict{ended: m.end(e, c.Name, lease.Expired)}
	}
	panic("unknown command")
}

// check says whether the token is the live one of the lease and the holder's.
func (m *model) check(name, holder string, token uint64) verdict {
	g, held := m.held[name]
	if held && g.Token == token && g.Holder == holder {
		return verdict{}
	}
	if held && g.Token == token {
		return verdict{err: lease.ErrNotHolder}
	}
	was, _ := m.findEnded(func(was lease.Ended) bool { return was.Name == name && was.Token == token })
	return verdict{err: lease.ErrLost, ended: was.Token}
}

// checkAgrees compares a result, and the whole table after it, with the model.
func (m *model) checkAgrees(t tester, table *lease.Table, r lease.Result, want verdict) {
	t.Helper()
	got := verdict{err: r.Err, replayed: r.Replayed, already: r.Already}
	if r.Ended != nil {
		got.ended = r.Ended.Token
	}
	if got != want {
		t.Fatalf("index %d: got %+v, the model says %+v", r.Entry.Index, got, want)
	}
	if l := table.Get(r.Name); l != r.Lease {
		t.Fatalf("index %d: the result shows lease %+v, the table has %+v", r.Entry.Index, r.Lease, l)
	}
	if table.Len() != len(m.held) || len(names(table)) != len(m.held) {
		t.Fatalf("index %d: the table has %d leases, the model %d", r.Entry.Index, table.Len(), len(m.held))
	}
	for name, g := range m.held {
		if l := table.Get(name); l.State() != lease.Held || l.Name != name || *l.Grant != g {
			t.Fatalf("index %d: the table has %s as %+v, the model as %+v", r.Entry.Index, name, l, g)
		}
	}
	kept := m.ended[max(0, len(m.ended)-1024):]
	last := map[string]*lease.Ended{}
	i := 0
	for e := range table.Ended() {
		if i >= len(kept) || *e != kept[i] {
			t.Fatalf("index %d: ended grant %d is %+v, the model has %d of them", r.Entry.Index, i, e, len(kept))
		}
		last[e.Name] = e
		i++
	}
	if i != len(kept) {
		t.Fatalf("index %d: the table remembers %d ended grants, the model %d", r.Entry.Index, i, len(kept))
	}
	for _, name := range modelNames {
		if got := table.LastEnded(name); got != last[name] {
			t.Fatalf("index %d: last end of %s is %+v, want %+v", r.Entry.Index, name, got, last[name])
		}
	}
	if table.ClusterID() != m.cluster {
		t.Fatalf("cluster id %q, the model says %q", table.ClusterID(), m.cluster)
	}
	if table.Applied() != r.Entry {
		t.Fatalf("applied %+v after entry %+v", table.Applied(), r.Entry)
	}
}

var modelNames = []string{"a", "a/b", "jobs/nightly"}

// drawCommand draws a command that has a fair chance of meeting the state: its
// token and renewal are mostly ones that exist or existed.
func drawCommand(t *rapid.T, m *model, e lease.Entry) lease.Command {
	name := rapid.SampledFrom(modelNames).Draw(t, "name")
	holder := rapid.SampledFrom([]string{"alice", "bob"}).Draw(t, "holder")
	g := m.held[name]
	tokens := []uint64{g.Token, g.Renewal, 0, e.Index, e.Index + 7}
	for _, other := range modelNames {
		tokens = append(tokens, m.held[other].Token)
	}
	ids := []string{"r1", "r2", "r3", fmt.Sprint("new-", e.Index)}
	switch recent := m.ended[max(0, len(m.ended)-3):]; rapid.IntRange(0, 4).Draw(t, "about") {
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
			holder, tokens = g.Holder, []uint64{g.Token}
		}
	}
	token := rapid.SampledFrom(tokens)
	value := rapid.SampledFrom([]string{"", "v1", "v2"})

	switch rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "renew", "renew", "release", "release", "expire", "lead"}).Draw(t, "command") {
	case "acquire":
		return lease.Acquire{
			Name: name, Holder: holder, RequestID: rapid.SampledFrom(ids).Draw(t, "request"),
			TTL:   time.Duration(rapid.IntRange(100, 9000).Draw(t, "ttl")) * time.Millisecond,
			Value: value.Draw(t, "value"), Reclaim: rapid.Bool().Draw(t, "reclaim"),
		}
	case "renew":
		c := lease.Renew{Name: name, Holder: holder, Token: token.Draw(t, "token")}
		c.TTL = rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "ttl")
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
		m := &model{held: map[string]lease.Grant{}}
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

		// A freed name leaves no record.
		for _, name := range names(l.table) {
			g := m.held[name]
			l.apply(lease.Release{Name: name, Holder: g.Holder, Token: g.Token})
		}
		if l.table.Len() != 0 {
			t.Fatalf("%d leases are left after each was released", l.table.Len())
		}
	})
}

// TestTable_AgreesWithModel_WhenTheRingIsFull ensures the same when more than
// 1,024 grants have ended, so that each further end pushes an old one out.
func TestTable_AgreesWithModel_WhenTheRingIsFull(t *testing.T) {
	for seed := range uint64(2) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		m := &model{held: map[string]lease.Grant{}}
		table, moved := &lease.Table{}, &lease.Table{}
		e := lease.Entry{Index: 1, Term: 1, At: 1000}
		top, forgotten := uint64(0), 0
		granted := map[string]bool{}
		for range 5000 {
			e.Index, e.At = e.Index+1, e.At+1
			name := modelNames[rnd.IntN(len(modelNames))]
			g, held := m.held[name]
			// Few enough request ids that they come back once they are
			// forgotten, many enough that not all are refused.
			acquire := lease.Acquire{Name: name, Holder: "alice", RequestID: fmt.Sprint(rnd.IntN(1200)), Reclaim: rnd.IntN(4) == 0}
			var c lease.Command = acquire
			switch {
			case held && rnd.IntN(2) == 0:
				c = lease.Release{Name: name, Holder: "alice", Token: g.Token}
			case held && rnd.IntN(2) == 0:
				c = lease.Expire{Name: name, Token: g.Token, Renewal: g.Renewal, Term: 1}
			case rnd.IntN(4) == 0 && len(m.ended) > 0:
				near := max(0, len(m.ended)-1024-2+rnd.IntN(4)) // about the edge of the ring
				was := m.ended[min(near, len(m.ended)-1)]
				c = lease.Release{Name: was.Name, Holder: was.Holder, Token: was.Token}
			}
			r := table.Apply(e, c)
			moved.Apply(e, c)
			top = checkResult(t, r, e, top)
			want := m.apply(e, c)
			if e.Index%211 == 0 {
				m.checkAgrees(t, table, r, want)
				moved = checkRebuilds(t, moved)
			}
			if a, is := c.(lease.Acquire); is && want == (verdict{}) {
				if key := a.Name + " " + a.RequestID; granted[key] {
					forgotten++
				} else {
					granted[key] = true
				}
			}
			if r.Err != want.err || r.Replayed != want.replayed || r.Already != want.already {
				t.Fatalf("seed %d index %d %+v: got %+v, the model says %+v", seed, e.Index, c, r, want)
			}
			if table.Hash() != moved.Hash() {
				t.Fatalf("seed %d index %d: the restored replica has another hash", seed, e.Index)
			}
		}
		if forgotten < 3 || len(m.ended) < 1500 {
			t.Errorf("seed %d: the run was too gentle: %d ends, %d requests granted again after they were forgotten", seed, len(m.ended), forgotten)
		}
	}
}

// TestTable_AgreesWithModel_DrawsEverything ensures that the random commands of
// the test above reach each result; otherwise it would prove little.
func TestTable_AgreesWithModel_DrawsEverything(t *testing.T) {
	seen := map[string]int{}
	draw := func(t *rapid.T) {
		m := &model{held: map[string]lease.Grant{}}
		e := lease.Entry{Term: 1}
		for range 60 {
			e.Index++
			c := drawCommand(t, m, e)
			v := m.apply(e, c)
			v.ended = min(v.ended, 1)
			seen[fmt.Sprintf("%T %v replayed=%v already=%v ended=%d", c, v.err, v.replayed, v.already, v.ended)]++
		}
	}
	for range 5 { // rapid checks less when tests are to be short
		rapid.Check(t, draw)
	}
	want := []string{
		"lease.Lead <nil> replayed=false already=false ended=0",
		"lease.Acquire <nil> replayed=false already=false ended=0",
		"lease.Acquire <nil> replayed=false already=false ended=1",
		"lease.Acquire <nil> replayed=true already=false ended=0",
		"lease.Acquire lease is held replayed=false already=false ended=0",
		"lease.Acquire request has ended replayed=false already=false ended=1",
		"lease.Renew <nil> replayed=false already=false ended=0",
		"lease.Renew lease is lost replayed=false already=false ended=0",
		"lease.Renew lease is lost replayed=false already=false ended=1",
		"lease.Renew token belongs to another holder replayed=false already=false ended=0",
		"lease.Release <nil> replayed=false already=false ended=1",
		"lease.Release <nil> replayed=false already=true ended=1",
		"lease.Release lease is lost replayed=false already=false ended=0",
		"lease.Release lease is lost replayed=false already=false ended=1",
		"lease.Release token belongs to another holder replayed=false already=false ended=0",
		"lease.Expire <nil> replayed=false already=false ended=1",
		"lease.Expire lease is lost replayed=false already=false ended=0",
		"lease.Expire lease is lost replayed=false already=false ended=1",
		"lease.Expire grant was renewed replayed=false already=false ended=0",
		"lease.Expire deadline was set in another term replayed=false already=false ended=0",
	}
	for _, w := range want {
		if seen[w] == 0 {
			t.Errorf("never drawn: %s", w)
		}
		t.Logf("%5d %s", seen[w], w)
		delete(seen, w)
	}
	for s := range seen {
		t.Errorf("not in the list: %s", s)
	}
}
