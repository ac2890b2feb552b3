package cluster_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/lease"
)

func mustRevoke(t *testing.T, n *cluster.Node, name string, token uint64, reason string) lease.Result {
	t.Helper()
	out, err := n.Revoke(ctx, lease.Revoke{Name: name, Token: token, Reason: reason})
	if err != nil {
		t.Fatalf("revoke %s with token %d: %v", name, token, err)
	}
	return out.Result
}

// What an operator takes away is free at once, and its former holder is told by
// whom, why and where in the log when it renews, releases or asks again.
func TestNode_Revoke_TellsTheFormerHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		g := mustAcquire(t, n, acquire("jobs/a", "h", "1", time.Minute))

		if _, err := n.Revoke(ctx, lease.Revoke{Name: "jobs/a", Token: g.Token + 1, Reason: "guessed"}); !errors.Is(err, lease.ErrLost) {
			t.Errorf("a revoke with another token: %v", err)
		}
		mustRenew(t, n, "jobs/a", g) // it did nothing
		r := mustRevoke(t, n, "jobs/a", g.Token, "stuck since noon")
		again := mustRevoke(t, n, "jobs/a", g.Token, "asked twice")
		if r.Already || !again.Already || again.Ended.Index != r.Entry.Index || again.Ended.Reason != "stuck since noon" {
			t.Errorf("first %+v, then %+v of the revoke at %d", r, again.Ended, r.Entry.Index)
		}

		for what, call := range map[string]func() error{
			"renew": func() error {
				_, err := n.Renew(ctx, lease.Renew{Name: "jobs/a", Holder: "h", Token: g.Token})
				return err
			},
			"release": func() error {
				_, err := n.Release(ctx, lease.Release{Name: "jobs/a", Holder: "h", Token: g.Token})
				return err
			},
			"acquire": func() error { _, err := n.Acquire(ctx, acquire("jobs/a", "h", "1", time.Minute)); return err },
		} {
			var refused *cluster.Refusal
			if err := call(); !errors.As(err, &refused) {
				t.Errorf("%s: %v, want a refusal", what, err)
				continue
			}
			ended := refused.Result.Ended
			if ended == nil || ended.How != lease.Revoked || ended.Reason != "stuck since noon" || ended.Index != r.Entry.Index {
				t.Errorf("%s: the refusal names %+v", what, ended)
			}
		}
		mustAcquire(t, n, acquire("jobs/a", "next", "1", time.Minute))
	})
}

// A revoked lease stays closed for its lock delay, which readers see, also after
// a change of leader; then it is free.
func TestNode_Revoke_LockDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		const delay = 20 * time.Second
		ask := acquire("jobs/a", "h", "1", time.Minute)
		ask.LockDelay = delay
		g := mustAcquire(t, n, ask)
		revoked := time.Now()
		r := mustRevoke(t, n, "jobs/a", g.Token, "its disk is full")

		cooling := func(n *cluster.Node) time.Duration {
			t.Helper()
			view, _, err := n.Lease(ctx, "jobs/a", cluster.Linearizable)
			if err != nil || view.Lease.State() != lease.Cooling || view.Last == nil {
				t.Fatalf("%+v, %v; want a cooling lease", view, err)
			}
			if cd := view.Lease.Cooldown; cd.Token != g.Token || cd.Since != r.Entry.Index || cd.Delay != delay || view.Last.Reason != "its disk is full" {
				t.Errorf("cooling %+v after %+v", cd, view.Last)
			}
			return view.Remaining
		}
		if left := cooling(n); left <= 0 || left > delay {
			t.Errorf("%v are left of a lock delay of %v", left, delay)
		}
		page, _, err := n.Leases(ctx, cluster.LeaseQuery{Limit: 10}, cluster.Linearizable)
		if err != nil || len(page.Leases) != 1 || page.Leases[0].Lease.State() != lease.Cooling {
			t.Errorf("the list has %+v, %v", page, err)
		}
		if _, err := n.Acquire(ctx, acquire("jobs/a", "next", "1", time.Minute)); !errors.Is(err, lease.ErrCooling) {
			t.Errorf("an acquire meanwhile: %v", err)
		}
		time.Sleep(delay / 2)
		c.Crash(n.ID())
		n2 := c.Leader()
		if left := cooling(n2); left <= 0 || left > delay {
			t.Errorf("%v are left at the next leader", left)
		}
		c.Until("it is free", func() bool {
			view, _, err := n2.Lease(ctx, "jobs/a", cluster.Linearizable)
			return err == nil && view.Lease == nil
		})
		if took := time.Since(revoked); took < delay {
			t.Errorf("it was free after %v, its lock delay is %v", took, delay)
		}
		mustAcquire(t, n2, acquire("jobs/a", "next", "1", time.Minute))
		c.Start(n.ID())
	})
}

// A request is found wherever it stands: granted, in a queue, ended.
func TestNode_Requests_FindsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		held := mustAcquire(t, n, acquire("busy", "first", "x", time.Minute))
		gone := mustAcquire(t, n, acquire("gone", "h", "id", time.Minute))
		mustRevoke(t, n, "gone", gone.Token, "a test")
		live := mustAcquire(t, n, acquire("live", "h", "id", time.Minute))
		ask := acquire("busy", "h", "id", time.Minute)
		ask.Wait = time.Minute
		done := make(chan error, 1)
		go func() { _, err := n.Acquire(ctx, ask); done <- err }()
		c.Until("it waits", func() bool { return n.Status().Waiters == 1 })

		known, read, err := n.Requests(ctx, "id", cluster.Linearizable)
		if err != nil || len(known) != 3 {
			t.Fatalf("%+v, %v; want three", known, err)
		}
		if r := known[0]; r.Name != "live" || r.Grant == nil || r.Grant.Token != live.Token {
			t.Errorf("first %+v", r)
		}
		if r := known[1]; r.Name != "busy" || r.Holder != "h" || r.Waiter == nil || r.Waiter.Place <= live.Token || r.Waiter.Place > read.Index {
			t.Errorf("second %+v", r)
		}
		if r := known[2]; r.Name != "gone" || r.Ended == nil || r.Ended.Reason != "a test" {
			t.Errorf("third %+v", r)
		}
		// A revoke hands on just as a release does.
		r := mustRevoke(t, n, "busy", held.Token, "make room")
		if err := <-done; err != nil {
			t.Errorf("the waiter: %v", err)
		}
		if got := token(n, "busy"); got != r.Entry.Index {
			t.Errorf("token %d, want that of the entry of the revoke, %d", got, r.Entry.Index)
		}
	})
}
