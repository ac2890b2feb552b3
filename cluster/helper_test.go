package cluster_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/lease"
)

var ctx = context.Background()

func acquire(name, holder, id string, ttl time.Duration) lease.Acquire {
	return lease.Acquire{Name: name, Holder: holder, RequestID: id, TTL: ttl}
}

// mustAcquire fails the test if the lease is not granted.
func mustAcquire(t *testing.T, n *cluster.Node, c lease.Acquire) *lease.Grant {
	t.Helper()
	out, err := n.Acquire(ctx, c)
	if err != nil {
		t.Fatalf("acquire %s for %s: %v", c.Name, c.Holder, err)
	}
	return out.Result.Lease.Grant
}

func mustRenew(t *testing.T, n *cluster.Node, name string, g *lease.Grant) {
	t.Helper()
	if _, err := n.Renew(ctx, lease.Renew{Name: name, Holder: g.Holder, Token: g.Token}); err != nil {
		t.Fatalf("renew %s with token %d: %v", name, g.Token, err)
	}
}

func mustRelease(t *testing.T, n *cluster.Node, name string, g *lease.Grant) {
	t.Helper()
	if _, err := n.Release(ctx, lease.Release{Name: name, Holder: g.Holder, Token: g.Token}); err != nil {
		t.Fatalf("release %s with token %d: %v", name, g.Token, err)
	}
}

// token is that of the live grant in a node's own state, 0 if there is none.
func token(n *cluster.Node, name string) (token uint64) {
	n.Machine().View(func(table *lease.Table) {
		if l := table.Get(name); l.State() == lease.Held {
			token = l.Grant.Token
		}
	})
	return token
}

// transfer hands leadership to a certain node and returns it once it serves.
func transfer(t *testing.T, c *clustertest.Cluster, to string) *cluster.Node {
	t.Helper()
	if leader := c.Leader(); leader.ID() != to {
		f := leader.Raft().LeadershipTransferToServer(raft.ServerID(to), raft.ServerAddress(clustertest.AddressOf(to)))
		if err := f.Error(); err != nil {
			t.Fatalf("transfer to %s: %v", to, err)
		}
	}
	return c.Leader(to)
}

// others are the ids of all running nodes but one.
func others(c *clustertest.Cluster, but string) []string {
	return slices.DeleteFunc(c.Running(), func(id string) bool { return id == but })
}

// isUnavailable says whether err is an Unavailable for that reason, or for any.
func isUnavailable(err error, reasons ...cluster.Reason) bool {
	var unavailable *cluster.Unavailable
	return errors.As(err, &unavailable) && (len(reasons) == 0 || slices.Contains(reasons, unavailable.Reason))
}

func isUnknown(err error) bool {
	var unknown *cluster.Unknown
	return errors.As(err, &unknown)
}

func isNotLeader(err error) bool {
	var elsewhere *cluster.NotLeader
	return errors.As(err, &elsewhere)
}

// answers runs f for 0 to n-1 at the same time, and returns the errors and how
// long the slowest took.
func answers(n int, f func(int) error) (errs []error, slowest time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs = make([]error, n)
	begun := time.Now()
	for i := range n {
		wg.Go(func() {
			err := f(i)
			mu.Lock()
			defer mu.Unlock()
			errs[i], slowest = err, max(slowest, time.Since(begun))
		})
	}
	wg.Wait()
	return errs, slowest
}

// asError is errors.As, for conditions with several parts.
func asError[T error](err error, target *T) bool { return errors.As(err, target) }
