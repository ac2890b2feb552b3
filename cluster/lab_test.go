package cluster_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/faults"
	"leasehold/faults/lab"
	"leasehold/lease"
)

// inLab runs a test on a cluster of three whose nodes have faults.
func inLab(t *testing.T, f func(t *testing.T, c *clustertest.Cluster)) {
	synctest.Test(t, func(t *testing.T) { f(t, clustertest.New(t, 3, clustertest.Options{Lab: true, Seed: 1})) })
}

// begin puts a fault on a node. One without a duration lasts ten minutes.
func begin(t *testing.T, c *clustertest.Cluster, id string, f faults.Fault) *lab.Active {
	t.Helper()
	if f.DurationMillis == 0 {
		f.DurationMillis = faults.MaxDuration.Milliseconds()
	}
	a, err := c.Lab(id).Begin(f)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A leader that is cut off both ways commits nothing, and another one is elected
// within the bound. When the fault has healed by itself, the old one follows.
func TestLab_Cut_OfLeader(t *testing.T) {
	inLab(t, func(t *testing.T, c *clustertest.Cluster) {
		old := c.Leader()
		held := mustAcquire(t, old, acquire("held", "h", "1", time.Hour))
		begun := time.Now()
		cut := begin(t, c, old.ID(), faults.Fault{Kind: faults.Cut, DurationMillis: 6000})
		_, err := old.Acquire(ctx, acquire("lost", "h", "1", time.Hour))
		if !isUnknown(err) && !isUnavailable(err) && !isNotLeader(err) {
			t.Errorf("an acquire at the leader that was cut off: %v", err)
		}
		next := c.Leader(others(c, old.ID())...)
		if took := time.Since(begun); took > cluster.DefaultConfig().FailoverBound()+2*time.Second {
			t.Errorf("a new leader served after %v", took)
		}
		if token(next, "lost") != 0 || token(next, "held") != held.Token {
			t.Error("the next leader has what the old one could not commit, or lacks what it had committed")
		}
		if cut.Healed() {
			t.Fatal("the fault was over before the new leader served; this test shows nothing")
		}
		g := mustAcquire(t, next, acquire("new", "h", "1", time.Hour))
		if token(old, "new") != 0 {
			t.Error("the new grant got through the cut")
		}
		c.Until("the old leader has the new grant", func() bool { return token(old, "new") == g.Token })
		if took := time.Since(begun); took < 6*time.Second || !cut.Healed() {
			t.Errorf("it healed %v after it began, want 6 s", took)
		}
	})
}

// A leader that hears nobody is as good as cut off; one that a single follower does
// not hear goes on with the other.
func TestLab_Cut_OneWay(t *testing.T) {
	inLab(t, func(t *testing.T, c *clustertest.Cluster) {
		leader := c.Leader()
		rest := others(c, leader.ID())
		deaf := begin(t, c, leader.ID(), faults.Fault{Kind: faults.Cut, Direction: faults.Out, Peers: rest[:1], DurationMillis: 3000})
		for i := range 20 {
			mustAcquire(t, leader, acquire(fmt.Sprint("job/", i), "h", "1", time.Hour))
			time.Sleep(100 * time.Millisecond)
		}
		if token(c.Node(rest[0]), "job/0") != 0 || token(c.Node(rest[1]), "job/0") == 0 {
			t.Errorf("of %v the first heard of the grants, or the second did not", rest)
		}
		<-deaf.Over()
		leader = c.Leader()
		rest = others(c, leader.ID())
		begin(t, c, leader.ID(), faults.Fault{Kind: faults.Cut, Direction: faults.In})
		next := c.Leader(rest...)
		mustAcquire(t, next, acquire("after", "h", "1", time.Hour))
	})
}

// Under a jam of the leader's links Raft goes on over new connections, as soon as it
// has given the old ones up, and what comes late from those does no harm.
func TestLab_Jam_ComesTooLate(t *testing.T) {
	inLab(t, func(t *testing.T, c *clustertest.Cluster) {
		leader := c.Leader()
		g := mustAcquire(t, leader, acquire("job", "h", "1", time.Hour))
		jam := begin(t, c, leader.ID(), faults.Fault{Kind: faults.Jam, DurationMillis: 40_000})
		c.Until("a release goes through", func() bool {
			_, err := c.Leader().Release(ctx, lease.Release{Name: "job", Holder: "h", Token: g.Token})
			return err == nil
		})
		if took := time.Since(jam.Begun); jam.Healed() || took < time.Second {
			t.Fatal("the jam was over, or has not bitten; this test shows nothing")
		}
		<-jam.Over()
		time.Sleep(time.Second)
		mustAcquire(t, c.Leader(), acquire("job", "g", "2", time.Hour))
	})
}

// Loss and delay make a cluster slow, and change nothing else.
func TestLab_LossAndDelay_Slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{Lab: true, Seed: 1, Configure: func(cfg *cluster.Config) {
			cfg.HeartbeatTimeout, cfg.ElectionTimeout = 7*time.Second, 7*time.Second // or loss would cost elections
		}})
		leader := c.Leader()
		commit := func(name string) time.Duration {
			start := time.Now()
			mustAcquire(t, leader, acquire(name, "h", "1", time.Hour))
			return time.Since(start)
		}
		quick := commit("before")
		delay := begin(t, c, leader.ID(), faults.Fault{Kind: faults.Delay, DelayMillis: 40, JitterMillis: 20})
		if slow := commit("delayed"); slow < quick+80*time.Millisecond || slow > quick+130*time.Millisecond {
			t.Errorf("a commit takes %v, with 40 to 60 ms of delay each way %v", quick, slow)
		}
		c.Lab(leader.ID()).Heal(delay.ID)
		begin(t, c, leader.ID(), faults.Fault{Kind: faults.Loss, Percent: 10})
		var slowest time.Duration
		for i := range 60 {
			slowest = max(slowest, commit(fmt.Sprint("lossy/", i)))
		}
		if slowest < 200*time.Millisecond {
			t.Errorf("of 60 commits with a tenth of the packets lost the slowest took %v", slowest)
		}
	})
}

// A slow disk of the leader makes commits slow; the faults of two slow disks in one
// add up.
func TestLab_SlowFsync(t *testing.T) {
	inLab(t, func(t *testing.T, c *clustertest.Cluster) {
		leader := c.Leader()
		for i, want := range []time.Duration{0, 120 * time.Millisecond, 200 * time.Millisecond} {
			if i > 0 {
				begin(t, c, leader.ID(), faults.Fault{Kind: faults.SlowFsync, DelayMillis: []int64{0, 120, 80}[i]})
			}
			start := time.Now()
			mustAcquire(t, leader, acquire(fmt.Sprint("job/", i), "h", "1", time.Hour))
			if took := time.Since(start); took < want || took > want+20*time.Millisecond {
				t.Errorf("with %d slow disks a commit takes %v, want %v", i, took, want)
			}
		}
		start := time.Now()
		time.AfterFunc(50*time.Millisecond, func() { c.Lab(leader.ID()).HealAll() })
		mustAcquire(t, leader, acquire("healed", "h", "1", time.Hour))
		if took := time.Since(start); took > 70*time.Millisecond {
			t.Errorf("a write that was held up took %v, though the fault healed after 50ms", took)
		}
	})
}

// A node whose disk is full stops as it does with a real one, with the same error,
// and the others go on. It comes back with all it has promised.
func TestLab_DiskFull(t *testing.T) {
	inLab(t, func(t *testing.T, c *clustertest.Cluster) {
		leader := c.Leader()
		before := mustAcquire(t, leader, acquire("before", "h", "1", time.Hour))
		begin(t, c, leader.ID(), faults.Fault{Kind: faults.DiskFull, DurationMillis: 60_000})
		if _, err := leader.Acquire(ctx, acquire("during", "h", "1", time.Hour)); err == nil {
			t.Error("a grant was made on a full disk")
		}
		<-leader.Failed()
		if err := leader.Err(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "the log cannot be written: no space left on device") {
			t.Errorf("it stopped with %v", err)
		}
		c.Close(leader.ID())
		next := c.Leader()
		mustAcquire(t, next, acquire("after", "h", "1", time.Hour))
		back := c.Start(leader.ID())
		c.Until("it has caught up", func() bool { return token(back, "after") != 0 })
		if token(back, "before") != before.Token {
			t.Error("it has lost a grant")
		}
	})
}

// The length of a lease is measured by the leader's lease clock: with one that runs
// twice as fast a lease ends after half its TTL, which breaks promise G4, and with one
// at half the speed after twice its TTL. While the clock stands still nothing ends.
func TestLab_LeaseClock(t *testing.T) {
	for _, tc := range []struct {
		fault faults.Fault
		want  time.Duration
	}{
		{faults.Fault{Kind: faults.ClockRate, Percent: 100}, 4 * time.Second},
		{faults.Fault{Kind: faults.ClockRate, Percent: 200}, 2 * time.Second},
		{faults.Fault{Kind: faults.ClockRate, Percent: 50}, 8 * time.Second},
		{faults.Fault{Kind: faults.ClockStall, DurationMillis: 30_000}, 34 * time.Second},
		{faults.Fault{Kind: faults.ClockRate, Percent: 200, DurationMillis: 1000}, 3 * time.Second},
	} {
		inLab(t, func(t *testing.T, c *clustertest.Cluster) {
			leader := c.Leader()
			begin(t, c, leader.ID(), tc.fault)
			mustAcquire(t, leader, acquire("job", "h", "1", 4*time.Second))
			begun := time.Now()
			lasted := untilFree(t, leader, "job").Sub(begun)
			if diff := lasted - tc.want; diff < -60*time.Millisecond || diff > 110*time.Millisecond {
				t.Errorf("%v: a lease of 4 s lasted %v, want %v", tc.fault, lasted, tc.want)
			}
		})
	}
}

// A wall clock that is wrong on the leader shows in what the log says of the time, on
// every node alike, and moves no deadline. On a follower it shows nowhere.
func TestLab_WallShift(t *testing.T) {
	inLab(t, func(t *testing.T, c *clustertest.Cluster) {
		leader := c.Leader()
		grantedAt := func(name string, shift time.Duration) {
			t.Helper()
			mustAcquire(t, leader, acquire(name, "h", "1", time.Second))
			granted := time.Now()
			for _, id := range c.Running() {
				var at time.Time
				c.Until(id+" has the grant", func() bool { return token(c.Node(id), name) != 0 })
				c.Node(id).Machine().View(func(table *lease.Table) { at = time.UnixMilli(table.Get(name).Grant.GrantedAt) })
				if wrong := at.Sub(granted) - shift; wrong < -20*time.Millisecond || wrong > 20*time.Millisecond {
					t.Errorf("%s says that %s was granted %v from now, want %v", id, name, at.Sub(granted), shift)
				}
			}
			if lasted := untilFree(t, leader, name).Sub(granted); lasted < 980*time.Millisecond || lasted > 1100*time.Millisecond {
				t.Errorf("%s lasted %v", name, lasted)
			}
		}
		for _, id := range others(c, leader.ID()) {
			begin(t, c, id, faults.Fault{Kind: faults.WallShift, ShiftMillis: -3_600_000})
		}
		grantedAt("straight", 0)
		begin(t, c, leader.ID(), faults.Fault{Kind: faults.WallShift, ShiftMillis: 3_600_000})
		grantedAt("ahead", time.Hour)
		begin(t, c, leader.ID(), faults.Fault{Kind: faults.WallShift, ShiftMillis: -7_200_000})
		grantedAt("behind", -time.Hour)
		if c.Leader() != leader {
			t.Error("leadership moved")
		}
	}) // whose end compares the states of all nodes, and replays their logs
}

// A node that stops in order heals its faults first, and so can hand over leadership
// although it was cut off; and it does so at once.
func TestLab_StepDown_Heals(t *testing.T) {
	inLab(t, func(t *testing.T, c *clustertest.Cluster) {
		leader := c.Leader()
		board := c.Lab(leader.ID())
		begin(t, c, leader.ID(), faults.Fault{Kind: faults.Delay, DelayMillis: 100})
		begin(t, c, leader.ID(), faults.Fault{Kind: faults.SlowFsync, DelayMillis: 60_000})
		start := time.Now()
		c.Stop(leader.ID())
		mustAcquire(t, c.Leader(), acquire("after", "h", "1", time.Hour))
		if took := time.Since(start); took > 300*time.Millisecond {
			t.Errorf("it took %v until the next leader served", took)
		}
		if !board.Quiet() {
			t.Error("faults are on in a node that is gone")
		}
		if _, err := board.Begin(faults.Fault{Kind: faults.ClockStall, DurationMillis: 1}); err == nil {
			t.Error("one can begin in a node that is gone")
		}
	})
}
