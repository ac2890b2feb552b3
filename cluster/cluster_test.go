package cluster_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
)

// A lease and its token outlive the leader that granted it, and the next token
// is higher.
func TestCluster_Failover_KeepsLeaseAndToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		first := c.Leader()
		g := mustAcquire(t, first, acquire("jobs/nightly", "alice", "a1", 10*time.Second))

		killed := time.Now()
		c.Crash(first.ID())
		second := c.Leader()
		if took := time.Since(killed); took > cluster.DefaultConfig().FailoverBound() {
			t.Errorf("failover took %v, the bound is %v", took, cluster.DefaultConfig().FailoverBound())
		}
		mustRenew(t, second, "jobs/nightly", g)
		view, _, err := second.Lease(ctx, "jobs/nightly", cluster.Linearizable)
		if err != nil || view.Lease == nil || view.Lease.Grant.Token != g.Token {
			t.Fatalf("after the failover: %+v, %v, want token %d", view, err, g.Token)
		}
		other := mustAcquire(t, second, acquire("jobs/hourly", "bob", "b1", 10*time.Second))
		if other.Token <= g.Token {
			t.Errorf("token %d after token %d", other.Token, g.Token)
		}
		c.Start(first.ID())
	})
}

// A follower sends clients to the leader and does nothing itself.
func TestNode_Acquire_OnFollower_NamesLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader, follower := c.Leader(), c.Follower()
		_, err := follower.Acquire(ctx, acquire("a", "h", "1", time.Second))
		var elsewhere *cluster.NotLeader
		if !errors.As(err, &elsewhere) || elsewhere.Leader.ID != leader.ID() {
			t.Fatalf("got %v, want NotLeader naming %s", err, leader.ID())
		}
	})
}
