package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/lease"
)

// stubborn gives one node timeouts so long that it goes on believing in its
// leadership when the others have long elected another.
func stubborn(id string) clustertest.Options {
	return clustertest.Options{Configure: func(cfg *cluster.Config) {
		if cfg.ID == id {
			cfg.HeartbeatTimeout, cfg.ElectionTimeout = 10*time.Second, 10*time.Second
		}
	}}
}

// deceive brings about the situation in which acknowledgements of an old leader
// (n1) are still under way to it when the others have elected a new one, which
// has released the lease and granted it anew. It returns the old leader, the new
// one, and when the first of those acknowledgements will arrive. What they send
// to n1 takes latency; what n1 sends does not reach them any more.
func deceive(t *testing.T, c *clustertest.Cluster, latency time.Duration) (old, leader *cluster.Node, arrival time.Time) {
	t.Helper()
	old = transfer(t, c, "n1")
	g := mustAcquire(t, old, acquire("job", "old holder", "1", time.Minute))
	time.Sleep(time.Second) // all is quiet
	c.Delay("n2", "n1", latency)
	c.Delay("n3", "n1", latency)
	arrival = time.Now().Add(latency)
	time.Sleep(300 * time.Millisecond) // they acknowledge some more entries and heartbeats
	c.Cut("n1", "n2")
	c.Cut("n1", "n3")
	leader = c.Leader("n2", "n3")
	mustRelease(t, leader, "job", g)
	mustAcquire(t, leader, acquire("job", "new holder", "2", time.Minute))
	if time.Now().After(arrival.Add(-100 * time.Millisecond)) {
		t.Fatalf("the election took too long; this test shows nothing")
	}
	if s := old.Status(); s.Role != cluster.Leader || s.Term >= leader.Status().Term {
		t.Fatalf("the old leader knows better: %+v", s)
	}
	return old, leader, arrival
}

// A leader that has been replaced without knowing never shows what the new
// leader has undone, whatever acknowledgements are still under way to it.
func TestNode_Lease_OnDeposedLeader_NeverShowsOldHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, stubborn("n1"))
		old, _, arrival := deceive(t, c, 4*time.Second)
		time.Sleep(time.Until(arrival.Add(-50 * time.Millisecond)))
		stale, _, err := old.Lease(ctx, "job", cluster.Stale)
		if err != nil || stale.Lease == nil || stale.Lease.Grant.Holder != "old holder" {
			t.Fatalf("the old leader's own state is %+v, %v; this test shows nothing", stale, err)
		}
		asked := 0
		c.Net.Heal("n1:8000", "n2:8000") // n1 may ask, so it must come to see
		c.Net.Heal("n1:8000", "n3:8000")
		for until := arrival.Add(time.Second); time.Now().Before(until); {
			errs, slowest := answers(10, func(i int) error {
				time.Sleep(time.Duration(i) * 3 * time.Millisecond)
				view, read, err := old.Lease(ctx, "job", cluster.Linearizable)
				if err == nil {
					t.Errorf("%v from the arrival the old leader answers %+v as of index %d", time.Since(arrival), view, read.Index)
				}
				return err
			})
			asked += len(errs)
			if slowest > 2*time.Second+30*time.Millisecond {
				t.Errorf("a read took %v", slowest)
			}
		}
		if asked < 10 {
			t.Errorf("only %d reads", asked)
		}
		c.DelayAll(0)
	})
}

// This is why reads are not confirmed by raft.VerifyLeader: in the same
// situation it is content with acknowledgements from before the question, and
// confirms a leader that has been replaced. If this test fails, the library has
// changed, and peers.confirm may have become unnecessary.
func TestRaft_VerifyLeader_ConfirmsDeposedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, stubborn("n1"))
		old, leader, arrival := deceive(t, c, 4*time.Second)
		time.Sleep(time.Until(arrival.Add(-50 * time.Millisecond)))
		asked := time.Now()
		err := old.Raft().VerifyLeader().Error()
		t.Logf("VerifyLeader on the leader of term %d, %v after it was asked: %v; term %d had begun by then", old.Status().Term, time.Since(asked), err, leader.Status().Term)
		if err != nil {
			t.Errorf("VerifyLeader noticed: %v", err)
		}
		c.DelayAll(0)
	})
}

// A read is confirmed only by answers to questions that were asked after it had
// come: it takes a whole round trip, however many answers are under way already.
func TestNode_Lease_ConfirmationTakesARoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		mustAcquire(t, leader, acquire("job", "h", "1", time.Minute))
		const roundTrip = 120 * time.Millisecond
		c.DelayAll(roundTrip / 2)
		time.Sleep(time.Second)
		errs, _ := answers(300, func(i int) error {
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			asked := time.Now()
			_, _, err := leader.Lease(ctx, "job", cluster.Linearizable)
			if took := time.Since(asked); err == nil && (took < roundTrip || took > 3*roundTrip) {
				return fmt.Errorf("read %d was confirmed after %v, a round trip takes %v", i, took, roundTrip)
			}
			return err
		})
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// The node's own term counts as well: one that has itself voted for another
// leader confirms nothing for the term before, even if the only other node that
// it reaches knows of no newer one.
func TestNode_Confirm_OwnTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, stubborn("n3"))
		old := transfer(t, c, "n1")
		term := old.Status().Term
		time.Sleep(time.Second)
		c.Net.Partition([]string{"n1:8000", "n2:8000"}, []string{"n3:8000"})
		transfer(t, c, "n2")
		c.Until("n1 follows", func() bool { return old.Status().Term > term })
		// From here on n1 reaches only n3, which has slept through the election.
		c.Net.Partition([]string{"n1:8000"}, []string{"n2:8000"})
		c.Net.Heal("n1:8000", "n3:8000")
		c.Net.Heal("n3:8000", "n1:8000")
		if got := c.Node("n3").Status().Term; got != term {
			t.Fatalf("n3 is in term %d; this test shows nothing", got)
		}
		if err := old.Confirm(ctx, term); err == nil {
			t.Errorf("confirmed that no leader after term %d exists, in term %d", term, old.Status().Term)
		}
	})
}

// Reads that wait on behalf of different terms do not keep each other waiting
// for ever, nor share an answer.
func TestNode_Confirm_DifferentTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		term := leader.Status().Term
		c.DelayAll(20 * time.Millisecond)
		time.Sleep(time.Second)
		errs, slowest := answers(40, func(i int) error {
			time.Sleep(time.Duration(i) * 5 * time.Millisecond)
			return leader.Confirm(ctx, term-uint64(i%2))
		})
		for i, err := range errs {
			if (err == nil) != (i%2 == 0) {
				t.Errorf("request %d for term %d: %v", i, term-uint64(i%2), err)
			}
		}
		if slowest > 500*time.Millisecond {
			t.Errorf("the slowest took %v", slowest)
		}
	})
}

// A list is cut into pages in the order of names, each of which says where the
// next begins; together they hold every lease under the prefix once.
func TestNode_Leases_Pages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		var names []string
		for i := range 25 {
			names = append(names, fmt.Sprintf("b/%d", i), fmt.Sprintf("b%d", i))
		}
		names = append(names, "a", "b", "b/", "c", "b.")
		names = slices.DeleteFunc(names, func(n string) bool { return lease.CheckName(n) != nil })
		slices.Sort(names)
		for _, name := range names {
			mustAcquire(t, leader, acquire(name, "h", "1", time.Hour))
		}
		gone := mustAcquire(t, leader, acquire("b/gone", "h", "1", time.Hour))
		mustRelease(t, leader, "b/gone", gone)

		for _, prefix := range []string{"", "b", "b/", "b/1", "c", "d", "\x00"} {
			want := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, prefix) })
			for _, limit := range []int{1, 2, 7, len(want), cluster.MaxPage} {
				if limit == 0 {
					continue
				}
				var got []string
				query := cluster.LeaseQuery{Prefix: prefix, Limit: limit}
				for pages := 1; ; pages++ {
					page, _, err := leader.Leases(ctx, query, cluster.Stale)
					if err != nil || len(page.Leases) > limit || pages > len(names)+1 {
						t.Fatalf("prefix %q, limit %d, page %d: %d leases, %v", prefix, limit, pages, len(page.Leases), err)
					}
					for _, v := range page.Leases {
						if v.Lease == nil || v.Remaining <= 0 || v.Remaining > time.Hour {
							t.Errorf("%+v is no held lease with its time", v)
						}
						got = append(got, v.Name)
					}
					if page.Next == "" {
						break
					}
					query.After = page.Next
				}
				if !slices.Equal(got, want) {
					t.Errorf("prefix %q, limit %d: got %v, want %v", prefix, limit, got, want)
				}
			}
		}
		// After need be no lease, nor lie under the prefix.
		for after, want := range map[string]int{"a": 2, "b/gone": 0, "b/24": 0, "b/10x": 2, "zz": 0} {
			page, _, err := leader.Leases(ctx, cluster.LeaseQuery{Prefix: "b/2", After: after, Limit: 2}, cluster.Linearizable)
			if err != nil || len(page.Leases) != want {
				t.Errorf("after %q: %d leases, %v, want %d", after, len(page.Leases), err, want)
			}
		}
	})
}

// What a request id has come to can be asked: live grants and ended ones, for
// every lease and holder that used it.
func TestNode_Requests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		live := mustAcquire(t, leader, acquire("live", "h", "r", time.Hour))
		gone := mustAcquire(t, leader, acquire("gone", "other", "r", time.Hour))
		mustAcquire(t, leader, acquire("unrelated", "h", "r2", time.Hour))
		mustRelease(t, leader, "gone", gone)
		leader.Acquire(ctx, acquire("live", "late", "refused", time.Hour))

		known, read, err := leader.Requests(ctx, "r", cluster.Linearizable)
		if err != nil || len(known) != 2 || read.Index == 0 {
			t.Fatalf("%+v, %+v, %v, want two", known, read, err)
		}
		if r := known[0]; r.Name != "live" || r.Holder != "h" || r.Grant == nil || r.Grant.Token != live.Token || r.Ended != nil {
			t.Errorf("the live one is %+v", r)
		}
		if r := known[1]; r.Name != "gone" || r.Holder != "other" || r.Ended == nil || r.Ended.Token != gone.Token || r.Ended.How != lease.Released || r.Grant != nil {
			t.Errorf("the ended one is %+v", r)
		}
		for _, id := range []string{"refused", "never seen", ""} {
			if known, _, err := leader.Requests(ctx, id, cluster.Linearizable); err != nil || len(known) != 0 {
				t.Errorf("%q: %+v, %v, want nothing", id, known, err)
			}
		}
		if _, _, err := c.Follower().Requests(ctx, "r", cluster.Linearizable); !isNotLeader(err) {
			t.Errorf("a follower says %v, want who leads", err)
		}
	})
}

// A follower refuses linearizable reads by naming the leader, and labels stale
// ones with what they were made from.
func TestNode_Lease_OnFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader, follower := c.Leader(), c.Follower()
		g := mustAcquire(t, leader, acquire("job", "h", "1", time.Minute))
		time.Sleep(time.Second)
		if _, _, err := follower.Lease(ctx, "job", cluster.Linearizable); !isNotLeader(err) {
			t.Errorf("got %v, want NotLeader", err)
		}
		view, read, err := follower.Lease(ctx, "job", cluster.Stale)
		if err != nil || view.Lease == nil || view.Lease.Grant.Token != g.Token || view.Remaining >= 0 {
			t.Errorf("%+v, %v, want token %d and no remaining time", view, err, g.Token)
		}
		if read.Index != g.Token || read.Leader.ID != leader.ID() || read.LastContact <= 0 || read.LastContact > time.Second || read.ClusterID != leader.Status().ClusterID {
			t.Errorf("the read is labelled %+v", read)
		}
		view, read, err = leader.Lease(ctx, "job", cluster.Stale)
		if err != nil || view.Remaining != 59*time.Second || read.LastContact != 0 {
			t.Errorf("on the leader: %+v, %+v, %v", view, read, err)
		}
	})
}

// A page of the log holds what was asked for and is there, and nothing panics on
// bounds that nobody should ask for.
func TestNode_Log_Bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		mustAcquire(t, leader, acquire("job", "h", "1", time.Minute))
		all, err := leader.Log(0, 1000)
		if err != nil || all.First != 1 || all.Last != uint64(len(all.Entries)) || all.Last < 4 {
			t.Fatalf("%+v, %v", all, err)
		}
		var kinds []string
		for i, e := range all.Entries {
			kinds = append(kinds, e.Kind)
			if e.Index != uint64(i+1) || e.Term == 0 {
				t.Errorf("entry %d is %+v", i+1, e)
			}
		}
		for _, kind := range []string{"configuration", "noop", "lead", "acquire"} {
			if !slices.Contains(kinds, kind) {
				t.Errorf("kinds are %v, want %s among them", kinds, kind)
			}
		}
		if members := all.Entries[0].Members; len(members) != 3 || members[0].Suffrage != "voter" {
			t.Errorf("the first configuration is %+v", members)
		}
		last := all.Last
		for _, q := range []struct {
			from        uint64
			limit, want int
		}{
			{0, 1, 1},
			{1, 1, 1},
			{2, 2, 2},
			{last, 10, 1},
			{last + 1, 10, 0},
			{last + 100, 1, 0},
			{1, 0, 0},
			{0, 0, 0},
			{1 << 63, 1000, 0},
			{^uint64(0), 1000, 0},
			{^uint64(0), 1, 0},
		} {
			page, err := leader.Log(q.from, q.limit)
			if err != nil || len(page.Entries) != q.want || page.First != 1 || page.Last != last {
				t.Errorf("from %d limit %d: %d entries of %d to %d, %v, want %d", q.from, q.limit, len(page.Entries), page.First, page.Last, err, q.want)
			}
			if q.want > 0 && page.Entries[0].Index != max(q.from, 1) {
				t.Errorf("from %d it begins at %d", q.from, page.Entries[0].Index)
			}
		}
	})
}

// The leader refuses what would pass its bounds before anything gets into the
// log; leases that are held already are not affected.
func TestNode_Limits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{Configure: func(cfg *cluster.Config) { cfg.MaxLeases = 2 }})
		leader := c.Leader()
		a := mustAcquire(t, leader, acquire("a", "h", "1", time.Hour))
		mustAcquire(t, leader, acquire("b", "h", "1", time.Hour))
		before := leader.Status().LastIndex
		_, err := leader.Acquire(ctx, acquire("c", "h", "1", time.Hour))
		var limit *cluster.LimitError
		if !asError(err, &limit) || limit.Code != "too_many_leases" {
			t.Errorf("a third lease: %v", err)
		}
		for _, ttl := range []time.Duration{-1, 0, 99 * time.Millisecond, 24*time.Hour + time.Millisecond} {
			var field *lease.FieldError
			if _, err := leader.Acquire(ctx, acquire("a", "h", "1", ttl)); !asError(err, &field) || field.Field != "ttl_ms" {
				t.Errorf("acquire with a TTL of %v: %v", ttl, err)
			}
			if ttl == 0 {
				continue // for a renewal: as before
			}
			if _, err := leader.Renew(ctx, lease.Renew{Name: "a", Holder: "h", Token: a.Token, TTL: ttl}); !asError(err, &field) {
				t.Errorf("renew with a TTL of %v: %v", ttl, err)
			}
		}
		if after := leader.Status().LastIndex; after != before {
			t.Errorf("%d entries came of refused requests", after-before)
		}
		mustAcquire(t, leader, acquire("a", "h", "1", time.Hour)) // a replay
		mustRenew(t, leader, "a", a)
		mustRelease(t, leader, "a", a)
		mustAcquire(t, leader, acquire("c", "h", "2", time.Hour))
	})
}
