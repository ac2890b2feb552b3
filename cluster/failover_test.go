package cluster_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/lease"
)

// A leader that is stopped in order hands over at once, and every request that
// was in flight gets an answer that leaves no doubt.
func TestNode_StepDown_HandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		c.DelayAll(5 * time.Millisecond)
		leader := c.Leader()
		rest := others(c, leader.ID())
		var inFlight sync.WaitGroup
		granted, refused := 0, 0
		var mu sync.Mutex
		for i := range 60 {
			inFlight.Go(func() {
				time.Sleep(time.Duration(i/10) * 4 * time.Millisecond) // before, while and after it begins
				_, err := leader.Acquire(ctx, acquire(fmt.Sprint("job/", i), "h", "1", time.Minute))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					granted++
				case isUnavailable(err) || isNotLeader(err):
					refused++
				default:
					t.Errorf("request %d: %v", i, err)
				}
			})
		}
		time.Sleep(9 * time.Millisecond)
		begun := time.Now()
		c.Stop(leader.ID())
		next := c.Leader(rest...)
		mustAcquire(t, next, acquire("after", "h", "1", time.Minute))
		if took := time.Since(begun); took > cluster.DefaultConfig().HeartbeatTimeout/2 {
			t.Errorf("the handover took %v, want much less than the heartbeat timeout", took)
		} else {
			t.Logf("handed over in %v with links of 5ms", took)
		}
		inFlight.Wait()
		if granted == 0 || refused == 0 || granted+refused != 60 {
			t.Errorf("%d granted, %d refused, want some of both, 60 together", granted, refused)
		}
		held := 0
		for i := range 60 {
			if token(next, fmt.Sprint("job/", i)) != 0 {
				held++
			}
		}
		if held != granted {
			t.Errorf("%d leases are held, %d clients were told so", held, granted)
		}
		c.Start(leader.ID())
	})
}

// A leader hands over just as well when the others have been restarted since,
// although what it had connected to them is broken.
func TestNode_StepDown_AfterOthersRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := transfer(t, c, "n3")
		for _, id := range []string{"n1", "n2"} {
			c.Crash(id)
			c.Start(id)
			time.Sleep(3 * time.Second)
		}
		if c.Leader() != leader {
			t.Fatal("leadership moved; this test shows nothing")
		}
		begun := time.Now()
		if err := leader.StepDown(ctx); err != nil {
			t.Errorf("%v after it began it gave up: %v", time.Since(begun), err)
		}
		c.Close("n3")
		mustAcquire(t, c.Leader("n1", "n2"), acquire("after", "h", "1", time.Minute))
		if took := time.Since(begun); took > cluster.DefaultConfig().HeartbeatTimeout/2 {
			t.Errorf("the handover took %v", took)
		}
	})
}

// After a full stop and start of all nodes leases, the memory of ended grants
// and the cluster's id are there, and tokens go on rising.
func TestCluster_RestartOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		var top uint64
		for round := range 3 {
			leader := c.Leader()
			held := mustAcquire(t, leader, acquire(fmt.Sprint("held/", round), "h", "1", time.Hour))
			gone := mustAcquire(t, leader, acquire(fmt.Sprint("gone/", round), "h", "1", time.Hour))
			mustRelease(t, leader, fmt.Sprint("gone/", round), gone)
			if held.Token <= top || gone.Token <= held.Token {
				t.Errorf("round %d: tokens %d and %d after %d", round, held.Token, gone.Token, top)
			}
			top = gone.Token
			clusterID := leader.Status().ClusterID
			for i, id := range c.Running() {
				if i%2 == round%2 {
					c.Stop(id)
				} else {
					c.Crash(id)
				}
			}
			for _, id := range []string{"n3", "n1", "n2"} {
				c.Start(id)
			}
			leader = c.Leader()
			for i := range round + 1 {
				name := fmt.Sprint("held/", i)
				if token(leader, name) == 0 {
					t.Errorf("round %d: %s is lost", round, name)
				}
				_, err := leader.Acquire(ctx, acquire(fmt.Sprint("gone/", i), "h", "1", time.Hour))
				if !errors.Is(err, lease.ErrRequestEnded) {
					t.Errorf("round %d: repeating the request of a released grant: %v, want that it has ended", round, err)
				}
			}
			if got := leader.Status().ClusterID; got != clusterID {
				t.Errorf("round %d: the cluster id was %s and is %s", round, clusterID, got)
			}
		}
	})
}

// A holder that renews every third of its TTL keeps lease and token through 50
// leader crashes in a row.
func TestCluster_FiftyLeaderCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		const ttl = 6 * time.Second
		g := mustAcquire(t, c.Leader(), acquire("job", "h", "1", ttl))
		real := realTime()
		var slowest time.Duration
		crashes := 50
		renewed := time.Now()
		for range crashes {
			crashed := time.Now()
			id := c.Leader().ID()
			c.Crash(id)
			leader := c.Leader()
			slowest = max(slowest, time.Since(crashed))
			c.Start(id)
			if time.Since(renewed) >= ttl/3 {
				mustRenew(t, leader, "job", g)
				renewed = time.Now()
			}
			if got := token(leader, "job"); got != g.Token {
				t.Fatalf("the token is %d, want %d", got, g.Token)
			}
		}
		t.Logf("the slowest of %d failovers took %v of virtual time; each took %v of real time", crashes, slowest, real()/time.Duration(crashes))
		if bound := cluster.DefaultConfig().FailoverBound(); slowest > bound {
			t.Errorf("a failover took %v, the bound is %v", slowest, bound)
		}
	})
}

// A follower that missed more than the leader's log still holds comes back by
// its snapshot, and has the same state.
func TestCluster_InstallSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{Configure: func(cfg *cluster.Config) {
			cfg.SnapshotThreshold, cfg.TrailingLogs, cfg.SnapshotInterval = 64, 16, 50*time.Millisecond
		}})
		away := c.Follower().ID()
		c.Crash(away)
		leader := c.Leader()
		held := mustAcquire(t, leader, acquire("held", "h", "1", time.Hour))
		for i := range 300 {
			g := mustAcquire(t, leader, acquire(fmt.Sprint("job/", i), "h", "1", time.Hour))
			if i%3 == 0 {
				mustRelease(t, leader, fmt.Sprint("job/", i), g)
			}
			time.Sleep(5 * time.Millisecond)
		}
		last := leader.Status().AppliedIndex
		const missed = 100 // an entry of those that the node missed
		if page, err := leader.Log(1, 1); err != nil || page.First <= missed {
			t.Fatalf("the leader's log still begins at %d (%v); this test shows nothing", page.First, err)
		}
		back := c.Start(away)
		c.Until("the node has caught up", func() bool { return back.Status().AppliedIndex >= last })
		page, err := back.Log(missed, 1)
		if err != nil || len(page.Entries) > 0 && page.Entries[0].Index == missed || back.Status().SnapshotIndex <= missed {
			t.Errorf("%s has entry %d (%+v, %v) or no snapshot, so it did not come back by one", away, missed, page.Entries, err)
		}
		hash, known := leader.Machine().HashAt(last)
		c.Until("both are at the same entry", func() bool {
			return back.Status().AppliedIndex == leader.Status().AppliedIndex
		})
		if got := back.Status().StateHash; !known || got != leader.Status().StateHash || got != hash {
			t.Errorf("state %016x, want %016x", got, hash)
		}
		// What came by the snapshot is a state to lead from.
		next := transfer(t, c, away)
		mustRenew(t, next, "held", held)
		if _, err := next.Acquire(ctx, acquire("job/0", "h", "1", time.Hour)); !errors.Is(err, lease.ErrRequestEnded) {
			t.Errorf("the ended grants did not come with it: %v", err)
		}
		c.Crash(away)
		c.Start(away) // from its own snapshot
		c.Leader()
	})
}

// Replication to a follower goes on after it has answered no, under load, again
// and again. Raft's pipelined replication would stop there for good. The noes
// come of a full disk; a process would end itself then, this node goes on.
func TestCluster_FollowerSaysNo_CatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		id := c.Follower().ID()
		c.Crash(id)
		var full atomic.Bool
		var refused atomic.Int32
		c.Disk(id).Before = func(w clustertest.Write) error {
			if full.Load() && w == clustertest.WriteLog {
				refused.Add(1)
				return errors.New("no space left on device")
			}
			return nil
		}
		follower := c.Start(id)
		leader := c.Leader()
		c.DelayAll(time.Millisecond)
		var clients sync.WaitGroup
		for i := range 20 {
			clients.Go(func() {
				for n := range 100 {
					leader.Acquire(ctx, acquire(fmt.Sprint("job/", i, "/", n), "h", "1", time.Hour))
				}
			})
		}
		for range 10 {
			time.Sleep(5 * time.Millisecond)
			full.Store(true)
			time.Sleep(15 * time.Millisecond)
			full.Store(false)
		}
		clients.Wait()
		if n := refused.Load(); n < 2 {
			t.Errorf("only %d writes were refused; this test shows nothing", n)
		}
		last := leader.Status().AppliedIndex
		begun := time.Now()
		c.Until("the follower has caught up", func() bool { return follower.Status().AppliedIndex >= last })
		t.Logf("it needed %v", time.Since(begun))
	})
}

// Of five nodes three can serve; when three are gone the others refuse within
// 2 s, say why, and name those that they reach.
func TestCluster_FiveNodes_Quorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 5, clustertest.Options{})
		g := mustAcquire(t, c.Leader(), acquire("job", "h", "1", time.Hour))
		c.Crash(c.Leader().ID())
		c.Crash(c.Leader().ID())
		leader := c.Leader()
		mustRenew(t, leader, "job", g)

		gone := others(c, leader.ID())[0]
		c.Crash(gone)
		left := c.Running()
		begun := time.Now()
		for time.Since(begun) < 4*time.Second {
			for _, id := range left {
				errs, took := answers(2, func(i int) error {
					if i == 0 {
						_, err := c.Node(id).Acquire(ctx, acquire("other", id, time.Now().String(), time.Hour))
						return err
					}
					_, _, err := c.Node(id).Lease(ctx, "job", cluster.Linearizable)
					return err
				})
				if took > 2*time.Second {
					t.Errorf("%s took %v", id, took)
				}
				for _, err := range errs {
					if err == nil {
						t.Fatalf("%s served without a quorum", id)
					}
					if time.Since(begun) > 2*time.Second && !isUnavailable(err, cluster.NoQuorum) {
						t.Errorf("%v after the loss %s says %v, want no_quorum", time.Since(begun), id, err)
					}
					if isUnavailable(err, cluster.NoQuorum) && !strings.Contains(err.Error(), fmt.Sprint(left)) {
						t.Errorf("%s does not name the two that it reaches %v: %v", id, left, err)
					}
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		c.Start(gone)
		mustRenew(t, c.Leader(), "job", g)
	})
}

// The same request makes one grant however often it is sent and whoever leads;
// once that grant is over the request is, too.
func TestCluster_SameRequest_AcrossFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		request := acquire("job", "h", "once", time.Hour)
		g := mustAcquire(t, c.Leader(), request)
		crashed := c.Leader().ID()
		c.Crash(crashed)
		leader := c.Leader()
		out, err := leader.Acquire(ctx, request)
		if err != nil || !out.Result.Replayed || out.Result.Lease.Grant.Token != g.Token {
			t.Fatalf("asked again: %+v, %v, want token %d replayed", out, err, g.Token)
		}
		mustRelease(t, leader, "job", g)
		c.Start(crashed)
		leader = transfer(t, c, crashed)
		_, err = leader.Acquire(ctx, request)
		var refused *cluster.Refusal
		if !errors.Is(err, lease.ErrRequestEnded) || !errors.As(err, &refused) || refused.Result.Ended.Token != g.Token || refused.Result.Ended.How != lease.Released {
			t.Errorf("asked again after the release: %v, want that token %d was released", err, g.Token)
		}
		out, err = leader.Release(ctx, lease.Release{Name: "job", Holder: "h", Token: g.Token})
		if err != nil || !out.Result.Already {
			t.Errorf("releasing again: %+v, %v, want that it had been already", out, err)
		}
	})
}

// A leader that is cut off answers every request within 2 s with what it knows,
// refuses reads, labels stale ones, and ends nothing; when all are together
// again every lease has its full TTL.
func TestCluster_NoQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		g := mustAcquire(t, leader, acquire("job", "h", "1", 2*time.Second))
		time.Sleep(200 * time.Millisecond) // followers learn a little later that it is committed
		for _, id := range c.Running() {
			c.Isolate(id)
		}
		cut := time.Now()
		unknown := 0
		for time.Since(cut) < 5*time.Second {
			errs, slowest := answers(4, func(i int) (err error) {
				switch i {
				case 0:
					_, err = leader.Acquire(ctx, acquire("other", "h", time.Now().String(), time.Second))
				case 1:
					_, err = leader.Renew(ctx, lease.Renew{Name: "job", Holder: "stranger", Token: g.Token})
				case 2:
					_, err = leader.Release(ctx, lease.Release{Name: "job", Holder: "stranger", Token: g.Token})
				case 3:
					_, _, err = leader.Lease(ctx, "job", cluster.Linearizable)
				}
				return err
			})
			if slowest > 2*time.Second {
				t.Errorf("an answer took %v", slowest)
			}
			for i, err := range errs {
				if isUnknown(err) && i < 3 {
					unknown++
				} else if !isUnavailable(err) {
					t.Errorf("%v after the cut request %d came to %v", time.Since(cut), i, err)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		if unknown == 0 {
			t.Error("no request was in flight when leadership was lost; this test shows too little")
		}
		for _, id := range c.Running() {
			view, read, err := c.Node(id).Lease(ctx, "job", cluster.Stale)
			if err != nil || view.Lease == nil || view.Lease.Grant.Token != g.Token {
				t.Errorf("%s: %+v, %v, want the lease still held", id, view, err)
			}
			if read.Consistency != cluster.Stale || view.Remaining >= 0 || read.Index == 0 || read.LastContact < 3*time.Second {
				t.Errorf("%s: read %+v, remaining %v; want it labelled as stale, with no time left known", id, read, view.Remaining)
			}
		}
		c.Heal()
		healed := time.Now()
		next := c.Leader()
		serving := time.Now()
		ended := untilFree(t, next, "job")
		if ended.Sub(healed) < 2*time.Second || ended.Sub(serving) > 2100*time.Millisecond {
			t.Errorf("the lease ended %v after the healing, %v after the leader served; want its full TTL of 2s", ended.Sub(healed), ended.Sub(serving))
		}
	})
}

// A leader that is alone on its side ends no lease there, although its deadline
// passes; those on the other side give it its full TTL, and what they did is
// what holds when all are together again.
func TestCluster_IsolatedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		rest := others(c, leader.ID())
		g := mustAcquire(t, leader, acquire("job", "h", "1", time.Second))
		kept := mustAcquire(t, leader, acquire("kept", "h", "1", time.Minute))
		time.Sleep(900 * time.Millisecond)
		c.Isolate(leader.ID())
		cut := time.Now()
		next := c.Leader(rest...)
		if serving := time.Since(cut); serving > cluster.DefaultConfig().FailoverBound() {
			t.Errorf("the others needed %v", serving)
		}
		if ended := untilFree(t, next, "job").Sub(cut); ended < time.Second {
			t.Errorf("the lease ended %v after the change of leader, want its full TTL", ended)
		}
		after := mustAcquire(t, next, acquire("job", "other", "2", time.Minute))
		mustRenew(t, next, "kept", kept)
		if got := token(leader, "job"); got != g.Token {
			t.Errorf("the node that was cut off shows token %d, want the old one, %d", got, g.Token)
		}
		c.Heal()
		c.Until("the old leader has the new state", func() bool { return token(leader, "job") == after.Token })
		if _, err := next.Renew(ctx, lease.Renew{Name: "job", Holder: "h", Token: g.Token}); !errors.Is(err, lease.ErrLost) {
			t.Errorf("the old holder renews: %v, want that its lease is lost", err)
		}
	})
}

// A leader that was cut off has entries in its log that were never committed. When
// it comes back by a snapshot, which passes over them, they must be gone: as the
// leader that it may become again it would send them to a follower that is still
// further behind, together with the news that they are committed.
func TestCluster_InstallSnapshot_NothingOldIsLeft(t *testing.T) {
	const (
		kept  = 700 // more entries than the deposed leader has, so that it throws none away
		batch = 512 // entries that a follower is sent at once
	)
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 5, clustertest.Options{Configure: func(cfg *cluster.Config) {
			cfg.SnapshotThreshold, cfg.TrailingLogs, cfg.SnapshotInterval = 64, kept, 50*time.Millisecond
		}})
		c.DelayAll(2 * time.Millisecond)
		leader := c.Leader()
		fill := func(n *cluster.Node, upto uint64) {
			for i := n.Applied().Index; i < upto; i++ {
				mustAcquire(t, n, acquire(fmt.Sprint("job/", i), "h", "1", time.Hour))
			}
		}
		fill(leader, 100)
		behind := c.Follower()
		c.Until("the follower is there", func() bool { return behind.Applied().Index >= 100 })
		next := behind.Applied().Index + 1 // that it will be sent
		c.Crash(behind.ID())
		// The last batch before the gap in its log ends with what is never committed.
		fill(leader, next+batch-2)
		c.Isolate(leader.ID())
		if _, err := leader.Acquire(ctx, acquire("ghost", "h", "1", time.Hour)); !isUnknown(err) {
			t.Fatalf("a leader that is cut off answers %v", err)
		}
		c.Crash(leader.ID())
		rest := c.Running()
		c.Leader(rest...) // so that what still comes of it comes from an older term
		c.Heal()
		fill(c.Leader(rest...), next+batch+kept+200)
		c.Until("the others have thrown away what it would need", func() bool {
			page, err := c.Leader(rest...).Log(1, 1)
			return err == nil && page.First > next+batch
		})
		if view, _, err := c.Leader(rest...).Lease(ctx, "ghost", cluster.Linearizable); err != nil || view.Lease != nil {
			t.Fatalf("the entry was committed (%v); this test shows nothing", err)
		}
		time.Sleep(10 * time.Second) // nobody goes on trying to send it what it needs
		leader = c.Start(leader.ID())
		c.Until("it has come back by a snapshot", func() bool { return leader.Status().SnapshotIndex > next+batch })
		if page, err := leader.Log(next+batch-1, 1); err != nil || len(page.Entries) > 0 && page.Entries[0].Index < next+batch {
			t.Errorf("its log still has entries from before the snapshot, such as %+v (%v)", page.Entries[0], err)
		}
		transfer(t, c, leader.ID())
		c.DelayAll(20 * time.Millisecond) // so that each step can be seen
		back := c.Start(behind.ID())
		c.Until("the follower is back", func() bool {
			if view, read, err := back.Lease(ctx, "ghost", cluster.Stale); err == nil && view.Lease != nil {
				t.Fatalf("at index %d the follower has a lease held that was never granted", read.Index)
			}
			return back.Applied().Index >= leader.Applied().Index
		})
	})
}
