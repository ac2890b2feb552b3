package cluster_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/lease"
)

// Many leases of one holder are kept alive by one entry for all of them, through
// a change of leader; one that is over is refused by itself.
func TestNode_RenewMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		many := lease.RenewMany{Holder: "h"}
		for i := range lease.MaxRenewals {
			name := fmt.Sprint("l/", i)
			g := mustAcquire(t, n, acquire(name, "h", fmt.Sprint("r", i), 5*time.Second))
			many.Renewals = append(many.Renewals, lease.Renewal{Name: name, Token: g.Token})
		}
		mustRelease(t, n, "l/7", &lease.Grant{Holder: "h", Token: many.Renewals[7].Token})
		for round := range 10 {
			time.Sleep(2 * time.Second)
			if round == 5 {
				c.Crash(n.ID())
				n = c.Leader()
			}
			before := n.Status().AppliedIndex
			entry, each, err := n.RenewMany(ctx, many)
			if err != nil {
				t.Fatal(err)
			}
			if entry.Index != before+1 || len(each) != len(many.Renewals) {
				t.Fatalf("%d renewals came to %d results at index %d after %d", len(many.Renewals), len(each), entry.Index, before)
			}
			for i, one := range each {
				if i == 7 {
					var refusal *cluster.Refusal
					if !errors.As(one.Err, &refusal) || !errors.Is(one.Err, lease.ErrLost) {
						t.Fatalf("the one that was released: got %v", one.Err)
					}
				} else if one.Err != nil || one.Result.Lease.Grant.Renewal != entry.Index || one.Remaining != 5*time.Second {
					t.Fatalf("%s: got %v, renewed at %d, %v left", one.Result.Name, one.Err, one.Result.Lease.Grant.Renewal, one.Remaining)
				}
			}
		}
		time.Sleep(5*time.Second + 60*time.Millisecond)
		if left := n.Status().Leases; left != 0 {
			t.Errorf("%d leases are left although nobody renews them", left)
		}
	})
}

// Renewals in a batch that is in flight when their deadlines pass are in time, as
// single ones are.
func TestNode_RenewMany_InFlightAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		many := lease.RenewMany{Holder: "h"}
		for i := range 50 {
			name := fmt.Sprint("l/", i)
			g := mustAcquire(t, n, acquire(name, "h", fmt.Sprint("r", i), time.Second))
			many.Renewals = append(many.Renewals, lease.Renewal{Name: name, Token: g.Token})
		}
		time.Sleep(990 * time.Millisecond)
		c.DelayAll(100 * time.Millisecond)
		_, each, err := n.RenewMany(ctx, many)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range each {
			if one.Err != nil {
				t.Errorf("%s: %v", one.Result.Name, one.Err)
			}
		}
	})
}
