package cluster_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/lease"
)

func write(register, value string, token uint64, guard string) lease.Write {
	return lease.Write{Register: register, Value: value, Token: token, Lease: guard}
}

// mustWrite fails the test if the write is not accepted.
func mustWrite(t *testing.T, n *cluster.Node, c lease.Write) lease.Result {
	t.Helper()
	out, err := n.Write(ctx, c)
	if err != nil {
		t.Fatalf("write %+v: %v", c, err)
	}
	return out.Result
}

// A holder that was replaced cannot write any more, neither by its token alone
// nor with its lease; what it wrote before stays until its successor writes.
func TestNode_Write_RefusesTheReplacedHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		old := mustAcquire(t, n, acquire("jobs/a", "old", "1", time.Minute))
		mustWrite(t, n, write("config", "by old", old.Token, "jobs/a"))
		mustRelease(t, n, "jobs/a", old)

		// Nobody has written since: only the guard knows better.
		_, err := n.Write(ctx, write("config", "too late", old.Token, "jobs/a"))
		var refused *cluster.Refusal
		if !errors.Is(err, lease.ErrNotLive) || !errors.As(err, &refused) {
			t.Fatalf("a write guarded by a lease that was released: %v", err)
		}
		if ended := refused.Result.Ended; ended == nil || ended.Token != old.Token || ended.How != lease.Released {
			t.Errorf("the refusal names %+v, want the end of token %d", ended, old.Token)
		}

		next := mustAcquire(t, n, acquire("jobs/a", "next", "1", time.Minute))
		mustWrite(t, n, write("config", "by next", next.Token, ""))
		if _, err = n.Write(ctx, write("config", "too late", old.Token, "")); !errors.Is(err, lease.ErrStaleToken) {
			t.Errorf("a write with an older token: %v", err)
		}
		mustWrite(t, n, write("config", "by nobody", 0, "")) // the mistake that fencing cannot mend

		reg, read, err := n.Register(ctx, "config", cluster.Linearizable)
		if err != nil || reg == nil {
			t.Fatal(reg, err)
		}
		var verdicts []lease.Verdict
		for _, w := range reg.Writes {
			verdicts = append(verdicts, w.Verdict)
		}
		want := []lease.Verdict{lease.Accepted, lease.NotLive, lease.Accepted, lease.StaleToken, lease.Accepted}
		if reg.Value != "by nobody" || reg.HighestToken != next.Token || reg.Accepted != 3 || reg.Refused != 2 || !slices.Equal(verdicts, want) {
			t.Errorf("%+v", reg)
		}
		if read.Index < reg.Writes[4].Index || read.ClusterID == "" {
			t.Errorf("read %+v before the write at %d", read, reg.Writes[4].Index)
		}
		if got := n.Status().Registers; got != 1 {
			t.Errorf("the status counts %d registers, want 1", got)
		}
	})
}

// A register outlives the leader that wrote it, and a follower shows it when it
// may be stale.
func TestNode_Register_AfterFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		first := c.Leader()
		mustWrite(t, first, write("config", "v", 7, ""))
		if reg, _, err := first.Register(ctx, "never/written", cluster.Linearizable); reg != nil || err != nil {
			t.Errorf("one that was never written to: %+v, %v", reg, err)
		}
		c.Crash(first.ID())
		second := c.Leader()
		if _, err := second.Write(ctx, write("config", "w", 6, "")); !errors.Is(err, lease.ErrStaleToken) {
			t.Errorf("an older token at the next leader: %v", err)
		}
		c.Start(first.ID())
		follower := c.Follower()
		c.Until("the follower knows the leader", func() bool { return follower.Ready() == nil })
		for _, call := range []func() error{
			func() error { _, err := follower.Write(ctx, write("config", "x", 8, "")); return err },
			func() error { _, _, err := follower.Register(ctx, "config", cluster.Linearizable); return err },
			func() error {
				_, err := follower.Revoke(ctx, lease.Revoke{Name: "a", Token: 1, Reason: "r"})
				return err
			},
		} {
			if err := call(); !isNotLeader(err) {
				t.Errorf("at a follower: %v", err)
			}
		}
		c.Until("the follower has the register", func() bool {
			reg, read, err := follower.Register(ctx, "config", cluster.Stale)
			return err == nil && read.Consistency == cluster.Stale && reg != nil && reg.Value == "v" && reg.Refused == 1
		})
	})
}

// Without a majority nothing is written, and the answer says so or that nobody
// knows.
func TestNode_Write_WithoutQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		mustWrite(t, n, write("config", "v", 1, ""))
		c.Isolate(n.ID())
		begun := time.Now()
		if _, err := n.Write(ctx, write("config", "w", 2, "")); !isUnknown(err) {
			t.Errorf("a leader that is cut off: %v, want unknown", err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("it took %v to say so", took)
		}
		c.Until("it says that it has no quorum", func() bool {
			_, err := n.Write(ctx, write("config", "w", 3, ""))
			return isUnavailable(err, cluster.NoQuorum)
		})
	})
}

// Registers stay for good, so there is a bound to them. It is met before anything
// gets into the log, by new names only.
func TestNode_Write_TooManyRegisters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, clustertest.Options{Configure: func(cfg *cluster.Config) { cfg.MaxRegisters = 3 }})
		n := c.Leader()
		for i := range 3 {
			mustWrite(t, n, write(fmt.Sprint("r/", i), "v", 5, ""))
		}
		last := n.Status().LastIndex
		var limit *cluster.LimitError
		if _, err := n.Write(ctx, write("r/3", "v", 5, "")); !errors.As(err, &limit) || limit.Code != cluster.TooManyRegisters {
			t.Errorf("a fourth register: %v", err)
		}
		if now := n.Status().LastIndex; now != last {
			t.Errorf("the log went from %d to %d", last, now)
		}
		mustWrite(t, n, write("r/2", "w", 5, ""))
		if _, err := n.Write(ctx, write("r/2", "w", 4, "")); !errors.Is(err, lease.ErrStaleToken) {
			t.Errorf("an old register: %v", err)
		}
	})
}

// What must not be in the log is refused before it is proposed, whoever calls.
func TestNode_Write_RefusesWhatMustNotGetIntoTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, clustertest.Options{})
		n := c.Leader()
		last := n.Status().LastIndex
		long := string(make([]byte, lease.MaxValueLen+1))
		for _, tt := range []struct {
			field string
			do    func() (cluster.Outcome, error)
		}{
			{"name", func() (cluster.Outcome, error) { return n.Write(ctx, write("", "v", 1, "")) }},
			{"value", func() (cluster.Outcome, error) { return n.Write(ctx, write("r", long, 1, "")) }},
			{"token", func() (cluster.Outcome, error) { return n.Write(ctx, write("r", "v", 0, "a")) }},
			{"lease", func() (cluster.Outcome, error) { return n.Write(ctx, write("r", "v", 1, "a//b")) }},
			{"name", func() (cluster.Outcome, error) { return n.Revoke(ctx, lease.Revoke{Name: "..", Token: 1, Reason: "r"}) }},
			{"reason", func() (cluster.Outcome, error) { return n.Revoke(ctx, lease.Revoke{Name: "a", Token: 1}) }},
		} {
			var wrong *lease.FieldError
			if _, err := tt.do(); !errors.As(err, &wrong) || wrong.Field != tt.field {
				t.Errorf("%s: got %v, want a FieldError", tt.field, err)
			}
		}
		if now := n.Status().LastIndex; now != last {
			t.Errorf("the log went from %d to %d", last, now)
		}
	})
}

// answered is a write that an entry accepted or refused.
type answered struct {
	lease.Write
	index    uint64
	accepted bool
}

// A register never accepts a token after a higher one, whatever becomes of the
// leaders: many writers with random tokens, old and new, some guarded by a lease
// that changes hands, while one leader after another crashes.
func TestRegister_NeverAcceptsAnOlderToken_ThroughFailovers(t *testing.T) {
	writes, crashes := 4_000, 5
	if !testing.Short() && !raceDetector { // it takes half a minute, with the detector several
		writes, crashes = 100_000, 25
	}
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{Configure: func(cfg *cluster.Config) {
			cfg.SnapshotThreshold = 1 << 40 // the whole log is looked at in the end
		}})
		c.DelayAll(time.Millisecond) // so that a crash finds writes on their way
		w := &registerWriters{left: int64(writes), registers: []string{"a", "b", "c"}}
		w.leader.Store(c.Leader())
		var writers sync.WaitGroup
		for i := range 64 {
			writers.Go(func() { w.run(rand.New(rand.NewPCG(uint64(i), 1))) })
		}
		writers.Go(w.changeHands)
		for i := range crashes {
			c.Until("more was written", func() bool {
				return atomic.LoadInt64(&w.left) <= int64(writes)*int64(crashes-i)/int64(crashes+1)
			})
			id := c.Leader().ID()
			c.Crash(id)
			w.leader.Store(c.Leader())
			c.Start(id)
		}
		writers.Wait()
		w.check(t, c.Leader())
		if w.unknown == 0 {
			t.Error("no outcome was unknown, so no crash came between")
		}
	})
}

type registerWriters struct {
	registers []string
	leader    atomic.Pointer[cluster.Node]
	guard     atomic.Uint64 // latest token of the lease "guard"
	left      int64         // writes that are still to be made

	mu      sync.Mutex // guards what follows
	answers []answered
	unknown int
}

func (w *registerWriters) run(random *rand.Rand) {
	for atomic.AddInt64(&w.left, -1) >= 0 {
		c := w.draw(random)
		for !w.try(c) {
			time.Sleep(5 * time.Millisecond) // nothing happened
		}
	}
}

// draw makes up a write. Only tokens of the lease, its latest or an older one,
// go to the register "a", or the guarded writes would all be stale.
func (w *registerWriters) draw(random *rand.Rand) lease.Write {
	latest := w.guard.Load()
	c := write("a", fmt.Sprint(random.Uint64()), 0, "")
	switch kind := random.IntN(10); {
	case kind == 0: // not fenced
	case kind < 4 && latest > 0:
		c.Token, c.Lease = latest, "guard"
	case kind == 4 && latest > 1:
		c.Token = latest - 1
	default:
		c.Register = w.registers[1+random.IntN(2)]
		c.Token = max(latest+uint64(random.IntN(50)), 50) - uint64(random.IntN(50))
	}
	return c
}

func (w *registerWriters) try(c lease.Write) (settled bool) {
	out, err := w.leader.Load().Write(ctx, c)
	var refused *cluster.Refusal
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.answers = append(w.answers, answered{c, out.Result.Entry.Index, true})
	case errors.As(err, &refused):
		w.answers = append(w.answers, answered{c, refused.Result.Entry.Index, false})
	case isUnknown(err):
		w.unknown++
	default:
		return false
	}
	return true
}

// changeHands lets the lease "guard" go from one holder to the next.
func (w *registerWriters) changeHands() {
	for i := 0; atomic.LoadInt64(&w.left) > 0; i++ {
		n := w.leader.Load()
		out, err := n.Acquire(ctx, acquire("guard", "h", fmt.Sprint(i), 300*time.Millisecond))
		if err == nil {
			w.guard.Store(out.Result.Lease.Grant.Token)
			time.Sleep(time.Millisecond)
			_, _ = n.Release(ctx, lease.Release{Name: "guard", Holder: "h", Token: out.Result.Lease.Grant.Token})
		}
		time.Sleep(time.Millisecond)
	}
}

// check goes through the whole log with a model of its own, and compares it with
// what the writers were told.
func (w *registerWriters) check(t *testing.T, n *cluster.Node) {
	t.Helper()
	told := make(map[uint64]answered)
	for _, a := range w.answers {
		if other, twice := told[a.index]; twice {
			t.Fatalf("entry %d answered both %+v and %+v", a.index, a, other)
		}
		told[a.index] = a
	}
	highest := make(map[string]uint64)
	live := uint64(0) // token of the lease "guard"
	var accepted, stale, notLive, terms int
	term := uint64(0)
	table := new(lease.Table) // only for who holds the lease
	for e := range entries(t, n) {
		if e.Term != term {
			term = e.Term
			terms++
		}
		c, isWrite := e.Command.(lease.Write)
		if e.Command != nil && !isWrite {
			table.Apply(lease.Entry{Index: e.Index, Term: e.Term, At: e.At}, e.Command)
			live = 0
			if l := table.Get("guard"); l != nil {
				live = l.Grant.Token
			}
		}
		if !isWrite {
			continue
		}
		ok := true
		switch {
		case c.Token != 0 && c.Token < highest[c.Register]:
			ok = false
			stale++
		case c.Lease != "" && c.Token != live:
			ok = false
			notLive++
		default:
			accepted++
			highest[c.Register] = max(highest[c.Register], c.Token)
		}
		if a, known := told[e.Index]; known && (a.accepted != ok || a.Write != c) {
			t.Fatalf("entry %d holds %+v and should be accepted: %v; the writer was told %+v", e.Index, c, ok, a)
		}
		delete(told, e.Index)
	}
	if len(told) > 0 {
		t.Errorf("%d writes were answered and are not in the log", len(told))
	}
	for _, name := range w.registers {
		reg, _, err := n.Register(ctx, name, cluster.Linearizable)
		if err != nil || reg.HighestToken != highest[name] {
			t.Errorf("register %s: %+v, %v; want the highest token %d", name, reg, err, highest[name])
		}
	}
	t.Logf("%d writes accepted, %d refused as stale, %d as not live, %d unknown, in %d terms", accepted, stale, notLive, w.unknown, terms)
	if accepted == 0 || stale == 0 || notLive == 0 {
		t.Error("one of the verdicts was never given, so little is shown")
	}
}

// entries iterates over the log of a node.
func entries(t *testing.T, n *cluster.Node) func(func(cluster.LogEntry) bool) {
	return func(yield func(cluster.LogEntry) bool) {
		for from := uint64(1); ; {
			page, err := n.Log(from, 1000)
			if err != nil || page.First > 1 {
				t.Fatalf("the log from %d on: first %d, %v", from, page.First, err)
			}
			if len(page.Entries) == 0 {
				return
			}
			for _, e := range page.Entries {
				if !yield(e) {
					return
				}
				from = e.Index + 1
			}
		}
	}
}
