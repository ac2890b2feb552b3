package cluster_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/fsm"
	"leasehold/lease"
)

// An unrenewed lease ends neither before its TTL has passed since the renewal
// was applied, nor later than 50 ms and a commit after that.
func TestCluster_Expiry_Bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		const latency = 10 * time.Millisecond
		c.DelayAll(latency)
		for i := range 20 {
			name := fmt.Sprint("job/", i)
			g := mustAcquire(t, leader, acquire(name, "h", "1", time.Second))
			time.Sleep(time.Duration(i) * 47 * time.Millisecond)
			mustRenew(t, leader, name, g)
			applied := time.Now() // on the leader, since no time passes on the way back
			ended := untilFree(t, leader, name).Sub(applied)
			commit := 2*latency + time.Millisecond // and how finely we look
			if ended < time.Second || ended > 1050*time.Millisecond+commit {
				t.Errorf("%s ended %v after its renewal, want 1s to 1.05s and a commit (%v)", name, ended, commit)
			}
		}
	})
}

// untilFree waits until the lease is free in a node's own state, and returns
// when that was, to the millisecond.
func untilFree(t *testing.T, n *cluster.Node, name string) time.Time {
	t.Helper()
	for range 60_000 {
		if token(n, name) == 0 {
			return time.Now()
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%s is still held after a minute", name)
	return time.Time{}
}

// A client that is refused, waits for as long as it was told and asks once more
// gets the lease of a silent holder, every time.
func TestNode_Acquire_RetryAfter_Suffices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		c.DelayAll(3 * time.Millisecond)
		errs, _ := answers(100, func(i int) error {
			name := fmt.Sprint("job/", i)
			ttl := time.Duration(100+37*i) * time.Millisecond
			if _, err := leader.Acquire(ctx, acquire(name, "silent", "1", ttl)); err != nil {
				return err
			}
			time.Sleep(ttl * time.Duration(i%4) / 3) // early, in between, when it runs out
			_, err := leader.Acquire(ctx, acquire(name, "next", "2", time.Second))
			if err == nil {
				return nil // it came late enough
			}
			var refused *cluster.Refusal
			if !errors.As(err, &refused) || !errors.Is(err, lease.ErrHeld) || refused.RetryAfter <= 0 || refused.RetryAfter > ttl {
				return fmt.Errorf("refused by %v, retry after %v, TTL %v", err, refused.RetryAfter, ttl)
			}
			time.Sleep(refused.RetryAfter)
			if _, err := leader.Acquire(ctx, acquire(name, "next", "3", time.Second)); err != nil {
				return fmt.Errorf("asked again after %v: %w", refused.RetryAfter, err)
			}
			return nil
		})
		for i, err := range errs {
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		}
	})
}

// A renewal that reached the leader before the deadline wins, also when its
// commit takes longer than what was left; a client that asks for the lease in
// between is refused.
func TestNode_Renew_InFlightAtTheDeadline_Wins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		g := mustAcquire(t, leader, acquire("job", "h", "1", time.Second))
		acquired := time.Now()
		c.DelayAll(100 * time.Millisecond)
		for range 5 {
			time.Sleep(time.Until(acquired.Add(950 * time.Millisecond)))
			var renewing sync.WaitGroup
			var applied time.Time
			var renewed error
			renewing.Go(func() {
				_, renewed = leader.Renew(ctx, lease.Renew{Name: "job", Holder: "h", Token: g.Token})
				applied = time.Now()
			})
			time.Sleep(60 * time.Millisecond) // the deadline has passed
			if _, err := leader.Acquire(ctx, acquire("job", "other", "2", time.Second)); !errors.Is(err, lease.ErrHeld) {
				t.Errorf("another client is told %v, want that the lease is held", err)
			}
			renewing.Wait()
			if renewed != nil {
				t.Fatalf("the renewal: %v", renewed)
			}
			if applied.Before(acquired.Add(time.Second)) {
				t.Fatal("the commit took too little time; this test shows nothing")
			}
			acquired = applied
		}
		if n := countEntries(t, leader, "expire"); n != 0 {
			t.Errorf("%d expiries are in the log, want none", n)
		}
	})
}

// Somebody else who knows the token cannot keep a lease from ending by renewing
// in vain, again and again.
func TestNode_Renew_ByAnother_DoesNotHoldExpiryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		g := mustAcquire(t, leader, acquire("job", "h", "1", time.Second))
		acquired := time.Now()
		c.DelayAll(50 * time.Millisecond)
		var strangers sync.WaitGroup
		for i := range 300 { // at any moment ten of them are on their way
			strangers.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				_, err := leader.Renew(ctx, lease.Renew{Name: "job", Holder: "stranger", Token: g.Token})
				if !errors.Is(err, lease.ErrNotHolder) && !errors.Is(err, lease.ErrLost) {
					t.Errorf("renewal %d: %v", i, err)
				}
			})
		}
		if ended := untilFree(t, leader, "job").Sub(acquired); ended > 1500*time.Millisecond {
			t.Errorf("the lease ended after %v, want 1s and a commit", ended)
		}
		strangers.Wait()
	})
}

// countEntries counts the entries of a kind in a node's log.
func countEntries(t *testing.T, n *cluster.Node, kind string) (count int) {
	t.Helper()
	page, err := n.Log(1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if e.Kind == kind {
			count++
		}
	}
	return count
}

// A new leader gives every lease its full TTL: the deadline that the old leader
// had set does not strike, and neither does an Expire of the old term.
func TestCluster_LeaderChange_FullTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		old := c.Leader()
		g := mustAcquire(t, old, acquire("job", "h", "1", time.Second))
		term := old.Status().Term
		time.Sleep(990 * time.Millisecond)
		changed := time.Now()
		leader := transfer(t, c, others(c, old.ID())[0])
		if since := time.Since(changed); since > 10*time.Millisecond {
			t.Logf("the transfer took %v", since)
		}
		late := lease.Expire{Name: "job", Token: g.Token, Renewal: g.Renewal, Term: term}
		future := leader.Raft().Apply(fsm.EncodeCommand(late), time.Second)
		if err := future.Error(); err != nil {
			t.Fatal(err)
		}
		if r := future.Response().(lease.Result); !errors.Is(r.Err, lease.ErrOldTerm) {
			t.Errorf("an Expire of the old term came to %v, want moot", r.Err)
		}
		if ended := untilFree(t, leader, "job").Sub(changed); ended < time.Second || ended > 1100*time.Millisecond {
			t.Errorf("the lease ended %v after the change of leader, want its full TTL of 1s", ended)
		}
	})
}

// When 20,000 leases run out together, all of them end, and clients of other
// leases hardly notice.
func TestCluster_Expiry_Storm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		leases := 20_000
		if testing.Short() {
			leases = 2000
		}
		const latency = 2 * time.Millisecond
		var acquired time.Time
		for first := 0; first < leases; first += 500 {
			errs, took := answers(500, func(i int) error {
				_, err := leader.Acquire(ctx, acquire(fmt.Sprint("storm/", first+i), "h", "1", 10*time.Second))
				return err
			})
			if err := errors.Join(errs...); err != nil || took > 100*time.Millisecond {
				t.Fatalf("500 leases: %v in %v", err, took)
			}
		}
		acquired = time.Now()
		c.DelayAll(latency)
		time.Sleep(time.Until(acquired.Add(10*time.Second - 20*time.Millisecond)))

		var clients sync.WaitGroup
		var slowest time.Duration
		clients.Go(func() {
			for i := range 100 {
				begun := time.Now()
				mustAcquire(t, leader, acquire(fmt.Sprint("other/", i), "h", "1", time.Minute))
				slowest = max(slowest, time.Since(begun))
				time.Sleep(5 * time.Millisecond)
			}
		})
		c.Until("all of the storm's leases have ended", func() bool { return leader.Status().Leases <= 100 })
		took := time.Since(acquired.Add(10 * time.Second))
		clients.Wait()
		t.Logf("all ended within %v of their deadline; the slowest of 100 other acquires took %v, a commit takes %v", took, slowest, 2*latency)
		if left := leader.Status().Leases; left != 100 {
			t.Errorf("%d leases are left, want the 100 others", left)
		}
		if took > time.Second {
			t.Errorf("the last ended %v late", took)
		}
		if slowest > 10*2*latency {
			t.Errorf("another acquire took %v in the storm, want a few commits of %v", slowest, 2*latency)
		}
	})
}

// Requests that come in a burst are committed together: the last of them waits
// for a few round trips of replication, not for the next time that Raft happens
// to look for entries that were left over.
func TestCluster_Burst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		c.DelayAll(time.Millisecond)
		time.Sleep(time.Second)
		errs, slowest := answers(3000, func(i int) error {
			_, err := leader.Acquire(ctx, acquire(fmt.Sprint("job/", i), "h", "1", time.Minute))
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		// 3,000 entries are six batches; a batch takes two milliseconds.
		if slowest > 30*time.Millisecond {
			t.Errorf("the slowest took %v", slowest)
		}
	})
}
