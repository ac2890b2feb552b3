package client_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/client"
)

// One client holds 10,000 leases, fewer under the race detector, through the death of the leader. None is lost, and
// each is still the grant that it was.
func TestClient_ManyLeases_LeaderCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	synctest.Test(t, func(t *testing.T) {
		const n, ttl = manyLeases, 10 * time.Second
		c, _ := newCluster(t)
		cl := holder(t, c, "a")
		leases := make([]*client.Lease, n)
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				for j := i; j < n; j += 100 {
					l, err := cl.Acquire(t.Context(), fmt.Sprint("jobs/", j), client.AcquireOptions{TTL: ttl})
					if err != nil {
						t.Error(err)
						return
					}
					leases[j] = l
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		term := c.Leader().Status().Term
		time.Sleep(5 * time.Second)
		leader := c.Leader().ID()
		c.Crash(leader)
		time.Sleep(10 * time.Second)
		c.Start(leader)
		time.Sleep(10 * time.Second)
		if now := c.Leader().Status().Term; now == term {
			t.Error("inconclusive: the leader is the same")
		}
		for _, l := range leases {
			if l.State() != client.Held {
				t.Fatalf("%s is %v: %v", l.Name(), l.State(), l.Err())
			}
		}
		tokens := make(map[string]uint64)
		for l, err := range cl.List(t.Context(), "jobs/") {
			if err != nil {
				t.Fatal(err)
			}
			tokens[l.Name] = l.Token
		}
		for _, l := range leases {
			if tokens[l.Name()] != l.Token() {
				t.Fatalf("the server has token %d for %s, not %d", tokens[l.Name()], l.Name(), l.Token())
			}
		}
	})
}
