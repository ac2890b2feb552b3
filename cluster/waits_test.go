package cluster_test

import (
	"context"
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

// waiting is an acquire that waits on a node, as an HTTP handler makes it.
type waiting struct {
	lease.Acquire
	hangUp context.CancelFunc // the client closes its connection
	done   chan struct{}
	out    cluster.Outcome
	err    error
}

// wait starts an acquire that waits and returns once nothing more happens in the
// bubble, so that it is in the queue if it is to get there.
func wait(n *cluster.Node, c lease.Acquire) *waiting {
	w := startWaiting(n, c, true)
	synctest.Wait()
	time.Sleep(10 * time.Millisecond)
	return w
}

// startWaiting starts an acquire and answers its client if that is there, unless
// the test does so itself.
func startWaiting(n *cluster.Node, c lease.Acquire, answer bool) *waiting {
	w := &waiting{Acquire: c, done: make(chan struct{})}
	var ctx context.Context
	ctx, w.hangUp = context.WithCancel(context.Background())
	go func() {
		defer close(w.done)
		w.out, w.err = n.Acquire(ctx, c)
		if w.err == nil && w.out.Answered != nil && answer {
			w.out.Answered(ctx.Err() == nil)
		}
	}()
	return w
}

// granted fails the test unless the acquire has been granted, and returns its
// grant.
func (w *waiting) granted(t *testing.T) *lease.Grant {
	t.Helper()
	synctest.Wait()
	select {
	case <-w.done:
	default:
		t.Fatalf("%s still waits for %s", w.Holder, w.Name)
	}
	if w.err != nil {
		t.Fatalf("%s waits for %s: %v", w.Holder, w.Name, w.err)
	}
	g := w.out.Result.Lease.Grant
	if g.Holder != w.Holder || g.RequestID != w.RequestID {
		t.Fatalf("%s was answered with the grant of %s (%s)", w.Holder, g.Holder, g.RequestID)
	}
	return g
}

// waits fails the test if the acquire has been answered.
func (w *waiting) waits(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case <-w.done:
		t.Fatalf("%s waits for %s no longer: %v, %v", w.Holder, w.Name, w.out.Result.Lease, w.err)
	default:
	}
}

// refused waits for the answer and fails the test unless it is that refusal.
func (w *waiting) refused(t *testing.T, want error) *cluster.Refusal {
	t.Helper()
	<-w.done
	var refusal *cluster.Refusal
	if !errors.As(w.err, &refusal) || !errors.Is(w.err, want) {
		t.Fatalf("%s waits for %s: got %v, want %v", w.Holder, w.Name, w.err, want)
	}
	return refusal
}

func waitFor(name, holder string, ttl, wait time.Duration) lease.Acquire {
	return lease.Acquire{Name: name, Holder: holder, RequestID: "q-" + holder, TTL: ttl, Wait: wait}
}

// queueOf lists the holders in the queue of a lease in a node's own state.
func queueOf(n *cluster.Node, name string) (holders []string) {
	n.Machine().View(func(t *lease.Table) {
		for w := range t.WaitersOf(name) {
			holders = append(holders, w.Holder)
		}
	})
	return holders
}

func holderOf(n *cluster.Node, name string) (holder string) {
	n.Machine().View(func(t *lease.Table) {
		if l := t.Get(name); l.State() == lease.Held {
			holder = l.Grant.Holder
		}
	})
	return holder
}

// Waiters are granted in the order in which they were queued, each in the entry
// that released the lease before.
func TestNode_Wait_FirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		g := mustAcquire(t, n, acquire("l", "first", "r", time.Hour))
		var queue []*waiting
		for i := range 100 {
			queue = append(queue, wait(n, waitFor("l", fmt.Sprint("w", i), time.Hour, 10*time.Minute)))
		}
		before := n.Status().AppliedIndex
		for i, w := range queue {
			w.waits(t)
			mustRelease(t, n, "l", g)
			g = w.granted(t)
			if want := before + uint64(i) + 1; g.Token != want {
				t.Fatalf("hand-over %d made token %d, want %d: one entry each", i, g.Token, want)
			}
		}
		if left := queueOf(n, "l"); len(left) != 0 {
			t.Errorf("still in the queue: %v", left)
		}
	})
}

// A waiter behind a silent holder is granted when that one's TTL is over, and has
// its own full TTL from then on.
func TestNode_Wait_ExpiryHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		mustAcquire(t, n, acquire("l", "a", "r", 5*time.Second))
		begun := time.Now()
		b := wait(n, waitFor("l", "b", 3*time.Second, 20*time.Second))
		<-b.done
		b.granted(t)
		if after := time.Since(begun); after < 5*time.Second || after > 5*time.Second+60*time.Millisecond {
			t.Errorf("granted after %v, want 5s", after)
		}
		if left := b.out.Remaining; left < 2990*time.Millisecond || left > 3*time.Second {
			t.Errorf("the waited grant has %v left, want its full TTL of 3s", left)
		}
		time.Sleep(3*time.Second + 60*time.Millisecond)
		if h := holderOf(n, "l"); h != "" {
			t.Errorf("%s holds the lease without renewing it", h)
		}
	})
}

// A wait that is over is a refusal, and that request never holds the lease.
func TestNode_Wait_Timeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		a := mustAcquire(t, n, acquire("l", "a", "r", 30*time.Second))
		begun := time.Now()
		b := wait(n, waitFor("l", "b", time.Second, 2*time.Second))
		refusal := b.refused(t, cluster.ErrWaitTimeout)
		if after := time.Since(begun); after < 2*time.Second || after > 2*time.Second+60*time.Millisecond {
			t.Errorf("refused after %v, want 2s", after)
		}
		if g := refusal.Result.Lease.Grant; g.Holder != "a" || refusal.RetryAfter < 27*time.Second {
			t.Errorf("the refusal shows %v, to be asked again after %v", g, refusal.RetryAfter)
		}
		if q := queueOf(n, "l"); len(q) != 0 {
			t.Errorf("still queued: %v", q)
		}
		mustRelease(t, n, "l", a)
		time.Sleep(time.Minute)
		checkNeverHeld(t, n, "b")
	})
}

// checkNeverHeld fails the test if the log shows a grant to that holder.
func checkNeverHeld(t *testing.T, n *cluster.Node, holder string) {
	t.Helper()
	n.Machine().View(func(table *lease.Table) {
		for e := range table.Ended() {
			if e.Holder == holder {
				t.Errorf("%s held %s under token %d", holder, e.Name, e.Token)
			}
		}
		for l := range table.Ascend("") {
			if l.State() == lease.Held && l.Grant.Holder == holder {
				t.Errorf("%s holds %s", holder, l.Name)
			}
		}
	})
}

// A client that closes its connection is out of the queue after a commit, and the
// lease goes to the next.
func TestNode_Wait_ClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		a := mustAcquire(t, n, acquire("l", "a", "r", time.Hour))
		b := wait(n, waitFor("l", "b", time.Hour, time.Minute))
		d := wait(n, waitFor("l", "d", time.Hour, time.Minute))
		b.hangUp()
		time.Sleep(20 * time.Millisecond)
		if q := queueOf(n, "l"); !slices.Equal(q, []string{"d"}) {
			t.Fatalf("the queue is %v, want d alone", q)
		}
		mustRelease(t, n, "l", a)
		d.granted(t)
		checkNeverHeld(t, n, "b")
	})
}

// Whenever its client hangs up around the grant, no lease stays held by a client
// that was gone before it was answered.
func TestNode_Wait_ClientGone_AroundTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		c.DelayAll(time.Millisecond)
		rounds, answered := 300, 0
		for i := range rounds {
			name := fmt.Sprint("l/", i)
			a := mustAcquire(t, n, acquire(name, "a", "r", time.Hour))
			b := wait(n, waitFor(name, "b", time.Hour, time.Minute))
			var both sync.WaitGroup
			both.Go(func() {
				time.Sleep(rand.N(6 * time.Millisecond))
				mustRelease(t, n, name, a)
			})
			both.Go(func() {
				time.Sleep(rand.N(12 * time.Millisecond))
				b.hangUp()
			})
			both.Wait()
			<-b.done
			time.Sleep(20 * time.Millisecond)
			gone := b.err != nil || b.out.Result.Lease == nil
			held := holderOf(n, name) == "b"
			if gone && held {
				t.Fatalf("round %d: b was not answered (%v) and holds the lease", i, b.err)
			}
			if !gone {
				answered++
			}
		}
		if answered == 0 || answered == rounds {
			t.Errorf("%d of %d were answered; the race did not happen", answered, rounds)
		}
	})
}

// A grant that its only connection could not deliver is released at once; one
// that another connection of the same request has got is not.
func TestNode_Wait_GrantNotDelivered(t *testing.T) {
	for _, second := range []bool{false, true} {
		t.Run(fmt.Sprint("second connection ", second), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clustertest.New(t, 3, clustertest.Options{})
				n := c.Leader()
				a := mustAcquire(t, n, acquire("l", "a", "r", time.Hour))
				ask := waitFor("l", "b", time.Hour, time.Minute)
				one := startWaiting(n, ask, false)
				time.Sleep(20 * time.Millisecond)
				two := one
				if second {
					two = startWaiting(n, ask, false)
					time.Sleep(20 * time.Millisecond)
				}
				mustRelease(t, n, "l", a)
				one.granted(t)
				two.granted(t)
				one.out.Answered(false)
				if second {
					two.out.Answered(true)
				}
				time.Sleep(20 * time.Millisecond)
				want := ""
				if second {
					want = "b"
				}
				if h := holderOf(n, "l"); h != want {
					t.Errorf("the lease is held by %q, want %q", h, want)
				}
			})
		})
	}
}

// A client that comes back before its grant was taken gets it, and the connection
// that was half dead does not take it away again.
func TestNode_Wait_BackBeforeTheGrantWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		a := mustAcquire(t, n, acquire("l", "a", "r", time.Hour))
		ask := waitFor("l", "b", time.Hour, time.Minute)
		one := startWaiting(n, ask, false)
		time.Sleep(20 * time.Millisecond)
		mustRelease(t, n, "l", a)
		g := one.granted(t)
		two := wait(n, ask)
		if again := two.granted(t); again.Token != g.Token || !two.out.Result.Replayed {
			t.Errorf("the second connection got token %d, want %d again", again.Token, g.Token)
		}
		one.out.Answered(false)
		time.Sleep(time.Minute)
		if h := holderOf(n, "l"); h != "b" {
			t.Errorf("the lease is held by %q, want b", h)
		}
	})
}

// Two connections of one queued request are both answered, and it waits for as
// long as the more patient of them.
func TestNode_Wait_TwoConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		a := mustAcquire(t, n, acquire("l", "a", "r", time.Hour))
		hasty, patient := waitFor("l", "b", time.Hour, time.Second), waitFor("l", "b", time.Hour, 5*time.Second)
		one, two := wait(n, hasty), wait(n, patient)
		if q := queueOf(n, "l"); len(q) != 1 {
			t.Fatalf("the queue is %v, want b once", q)
		}
		time.Sleep(2 * time.Second)
		two.waits(t)
		mustRelease(t, n, "l", a)
		if x, y := one.granted(t), two.granted(t); x.Token != y.Token {
			t.Errorf("the two got tokens %d and %d", x.Token, y.Token)
		}
	})
}

// An acquire that does not wait says how things stand if the same request waits
// elsewhere, and gives up the place if it does not.
func TestNode_Wait_ThenAskWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		mustAcquire(t, n, acquire("l", "a", "r", time.Hour))
		ask := waitFor("l", "b", time.Hour, time.Minute)
		b := wait(n, ask)
		ask.Wait = 0
		if _, err := n.Acquire(ctx, ask); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("beside the one that waits: got %v, want held", err)
		}
		b.waits(t)

		// Nobody is attached after a change of leader.
		n = transfer(t, c, others(c, n.ID())[0])
		<-b.done
		if q := queueOf(n, "l"); !slices.Equal(q, []string{"b"}) {
			t.Fatalf("after the transfer the queue is %v", q)
		}
		if _, err := n.Acquire(ctx, ask); !errors.Is(err, cluster.ErrWaitTimeout) && !errors.Is(err, lease.ErrHeld) {
			t.Errorf("alone: got %v, want the wait to be over", err)
		}
		time.Sleep(20 * time.Millisecond)
		if q := queueOf(n, "l"); len(q) != 0 {
			t.Errorf("the queue is %v, want it empty", q)
		}
	})
}

// Whoever waits on a node that loses leadership is told at once who leads now,
// keeps its place there, and is granted in its turn. Who does not come back
// within the grace is taken out of the queue.
func TestCluster_Wait_LeaderChange(t *testing.T) {
	for _, how := range []string{"crash", "transfer", "stop", "isolate"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clustertest.New(t, 3, clustertest.Options{})
				old := c.Leader()
				g := mustAcquire(t, old, acquire("l", "a", "r", time.Hour))
				var queue []*waiting
				for i := range 10 {
					queue = append(queue, wait(old, waitFor("l", fmt.Sprint("w", i), time.Hour, 10*time.Minute)))
				}
				rest := others(c, old.ID())
				lost := time.Now()
				var n *cluster.Node
				switch how {
				case "crash":
					c.Crash(old.ID())
				case "isolate":
					c.Isolate(old.ID())
				case "stop":
					c.Stop(old.ID())
				case "transfer":
					n = transfer(t, c, rest[0])
				}
				if n == nil {
					n = c.Leader(rest...)
				}
				for _, w := range queue {
					<-w.done
					var queued *cluster.Queued
					if how == "crash" || isUnknown(w.err) {
						continue // its client has got no answer at all
					}
					if !errors.As(w.err, &queued) {
						t.Fatalf("%s: got %v, want to be told that its place is kept", w.Holder, w.err)
					}
					if how == "transfer" && !isNotLeader(w.err) { // the others had no time to hear of it
						t.Errorf("%s was not told who leads now: %v", w.Holder, w.err)
					}
				}
				if told := time.Since(lost); told > 4*time.Second {
					t.Errorf("told after %v", told)
				}

				// The odd ones come back, last first, which does not matter.
				back := make(map[int]*waiting)
				for i := 9; i > 0; i -= 2 {
					back[i] = wait(n, queue[i].Acquire)
				}
				time.Sleep(5 * time.Second)
				if q := queueOf(n, "l"); !slices.Equal(q, []string{"w1", "w3", "w5", "w7", "w9"}) {
					t.Fatalf("5 s after the change the queue is %v", q)
				}
				for i := 1; i < 10; i += 2 {
					mustRelease(t, n, "l", g)
					g = back[i].granted(t)
				}
			})
		})
	}
}

// A grant to a waiter that has not come back yet is kept for it for as long as
// its place would have been.
func TestCluster_Wait_GrantedBeforeItIsBack(t *testing.T) {
	for _, comes := range []bool{true, false} {
		t.Run(fmt.Sprint("comes back ", comes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clustertest.New(t, 3, clustertest.Options{})
				old := c.Leader()
				a := mustAcquire(t, old, acquire("l", "a", "r", time.Hour))
				b := wait(old, waitFor("l", "b", time.Hour, time.Minute))
				c.Crash(old.ID())
				n := c.Leader()
				mustRelease(t, n, "l", a)
				time.Sleep(3 * time.Second)
				if h := holderOf(n, "l"); h != "b" {
					t.Fatalf("the lease is held by %q, want b", h)
				}
				want := ""
				if comes {
					wait(n, b.Acquire).granted(t)
					want = "b"
				}
				time.Sleep(3 * time.Second)
				if h := holderOf(n, "l"); h != want {
					t.Errorf("after the grace the lease is held by %q, want %q", h, want)
				}
			})
		})
	}
}

// A client that has found out about its grant, by asking for it without waiting or
// by renewing it, keeps it: a grant that was answered with 200 is not given back,
// although no connection that waited was ever answered.
func TestCluster_Wait_TakenOtherwise(t *testing.T) {
	for _, how := range []string{"asked", "renewed"} {
		for _, gone := range []string{"failover", "hung up"} {
			t.Run(how+" after "+gone, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := clustertest.New(t, 3, clustertest.Options{})
					n := c.Leader()
					a := mustAcquire(t, n, acquire("l", "a", "r", time.Hour))
					b := startWaiting(n, waitFor("l", "b", time.Hour, time.Minute), false)
					time.Sleep(20 * time.Millisecond)
					next := startWaiting(n, waitFor("l", "next", time.Hour, time.Minute), true)
					time.Sleep(20 * time.Millisecond)
					if gone == "failover" {
						c.Crash(n.ID())
						n = c.Leader()
						next = wait(n, next.Acquire)
					}
					mustRelease(t, n, "l", a)
					synctest.Wait()
					again := b.Acquire
					again.Wait = 0
					if how == "asked" {
						mustAcquire(t, n, again)
					} else {
						mustRenew(t, n, "l", &lease.Grant{Holder: "b", Token: token(n, "l")})
					}
					if gone == "hung up" {
						<-b.done
						b.out.Answered(false)
					}
					time.Sleep(10 * time.Second)
					if h := holderOf(n, "l"); h != "b" {
						t.Errorf("the lease is held by %q although b was told that it holds it", h)
					}
					next.waits(t)
					next.hangUp()
				})
			})
		}
	}
}

// Whatever a client that hangs up does on another connection meanwhile: after it
// was told that it holds the lease, nobody takes it away.
func TestCluster_Wait_TakenOtherwise_AroundTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		c.DelayAll(time.Millisecond)
		told, givenBack := 0, 0
		for i := range 300 {
			name := fmt.Sprint("l/", i)
			a := mustAcquire(t, n, acquire(name, "a", "r", time.Hour))
			b := wait(n, waitFor(name, "b", time.Hour, time.Minute))
			var all sync.WaitGroup
			all.Go(func() {
				time.Sleep(rand.N(4 * time.Millisecond))
				mustRelease(t, n, name, a)
			})
			all.Go(func() {
				time.Sleep(rand.N(8 * time.Millisecond))
				b.hangUp()
			})
			var err error
			all.Go(func() {
				time.Sleep(rand.N(12 * time.Millisecond))
				again := b.Acquire
				again.Wait = 0
				_, err = n.Acquire(ctx, again)
			})
			all.Wait()
			<-b.done
			time.Sleep(20 * time.Millisecond)
			switch h := holderOf(n, name); {
			case err == nil:
				told++
				if h != "b" {
					t.Fatalf("round %d: b was told that it holds the lease, and %q holds it", i, h)
				}
			case h == "":
				givenBack++
			}
		}
		if told < 30 || givenBack < 30 {
			t.Errorf("%d were told and %d given back; the race did not happen", told, givenBack)
		}
	})
}

// When the more patient connection leaves, the request waits no longer than the
// one that stays.
func TestNode_Wait_PatientConnectionLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		mustAcquire(t, n, acquire("l", "a", "r", time.Hour))
		begun := time.Now()
		patient := wait(n, waitFor("l", "b", time.Hour, time.Minute))
		hasty := wait(n, waitFor("l", "b", time.Hour, 2*time.Second))
		time.Sleep(time.Second)
		patient.hangUp()
		hasty.refused(t, cluster.ErrWaitTimeout)
		if took := time.Since(begun); took > 2200*time.Millisecond {
			t.Errorf("answered after %v", took)
		}
	})
}

// A client that hangs up and comes back with the same request starts afresh: it
// has the place that it has then, and is granted once.
func TestNode_Wait_BackWhileBeingAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		n := c.Leader()
		c.DelayAll(2 * time.Millisecond)
		for i := range 200 {
			name := fmt.Sprint("l/", i)
			a := mustAcquire(t, n, acquire(name, "a", "r", time.Hour))
			ask := waitFor(name, "b", time.Hour, time.Minute)
			one := wait(n, ask)
			one.hangUp()
			time.Sleep(rand.N(10 * time.Millisecond))
			two := wait(n, ask)
			two.waits(t)
			if rand.N(2) == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			mustRelease(t, n, name, a)
			time.Sleep(10 * time.Millisecond)
			g := two.granted(t)
			mustRelease(t, n, name, g)
			if h := holderOf(n, name); h != "" {
				t.Fatalf("round %d: the lease is held by %q", i, h)
			}
		}
	})
}

// Queues are bounded, and repeating a request that waits needs no room.
func TestNode_Wait_TooManyWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, clustertest.Options{Configure: func(cfg *cluster.Config) { cfg.MaxWaiters = 2 }})
		n := c.Leader()
		mustAcquire(t, n, acquire("l", "a", "r", time.Hour))
		b, d := wait(n, waitFor("l", "b", time.Hour, time.Minute)), wait(n, waitFor("l", "d", time.Hour, time.Minute))
		_, err := n.Acquire(ctx, waitFor("l", "e", time.Hour, time.Minute))
		var limit *cluster.LimitError
		if !errors.As(err, &limit) || limit.Code != "too_many_waiters" {
			t.Errorf("the third waiter: got %v", err)
		}
		again := wait(n, d.Acquire)
		again.waits(t)
		for _, w := range []*waiting{b, d, again} {
			w.hangUp()
			<-w.done
		}
	})
}

// A node that stops without a successor answers those who wait.
func TestNode_Wait_StopsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, clustertest.Options{})
		n := c.Leader()
		mustAcquire(t, n, acquire("l", "a", "r", time.Hour))
		b := wait(n, waitFor("l", "b", time.Hour, time.Minute))
		if err := n.StepDown(ctx); err != nil {
			t.Fatal(err)
		}
		<-b.done
		if !isUnavailable(b.err, cluster.Transferring) {
			t.Errorf("got %v", b.err)
		}
	})
}

// After a lock delay grant has expired nobody is granted until the delay is over,
// whoever waits and whoever leads; then the first waiter is.
func TestCluster_LockDelay(t *testing.T) {
	const delay = 3 * time.Second
	ask := acquire("l", "a", "r", time.Second)
	ask.LockDelay = delay
	for _, meanwhile := range []string{"", "failover", "restart"} {
		t.Run("meanwhile "+meanwhile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clustertest.New(t, 3, clustertest.Options{})
				n := c.Leader()
				mustAcquire(t, n, ask)
				b := wait(n, waitFor("l", "b", time.Hour, time.Minute))
				time.Sleep(time.Second + 50*time.Millisecond)
				closed := time.Now()
				_, err := n.Acquire(ctx, acquire("l", "d", "r", time.Second))
				var refusal *cluster.Refusal
				if !errors.As(err, &refusal) || !errors.Is(err, lease.ErrCooling) {
					t.Fatalf("while it cools: got %v", err)
				}
				if after := refusal.RetryAfter; after < 2800*time.Millisecond || after > delay {
					t.Errorf("to be asked again after %v", after)
				}
				switch meanwhile {
				case "failover":
					time.Sleep(time.Second)
					c.Crash(n.ID())
					n = c.Leader()
				case "restart":
					for _, id := range c.Running() {
						c.Crash(id)
					}
					for _, id := range []string{"n1", "n2", "n3"} {
						c.Start(id)
					}
					n = c.Leader()
				}
				if meanwhile != "" {
					<-b.done
					b = wait(n, b.Acquire)
				}
				b.waits(t)
				if q := queueOf(n, "l"); !slices.Equal(q, []string{"b"}) {
					t.Fatalf("the queue is %v", q)
				}
				<-b.done
				b.granted(t)
				if after := time.Since(closed); after < delay-100*time.Millisecond || after > 2*delay+3*time.Second {
					t.Errorf("granted %v after it closed", after)
				}
			})
		})
	}
}

// A release opens the lease at once, whatever the lock delay.
func TestNode_LockDelay_NotAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, clustertest.Options{})
		n := c.Leader()
		ask := acquire("l", "a", "r", time.Second)
		ask.LockDelay = time.Minute
		mustRelease(t, n, "l", mustAcquire(t, n, ask))
		mustAcquire(t, n, acquire("l", "b", "r", time.Second))
	})
}

// Queues in random traffic with crashes: nobody is forgotten, nobody is granted
// twice, and grants follow the order of the queue entries.
func TestCluster_Wait_Storm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		c.Leader()
		const clients, rounds = 30, 5
		var all sync.WaitGroup
		served := make([]atomic.Int64, clients)
		stop := make(chan struct{})
		for i := range clients {
			all.Go(func() {
				for r := range rounds {
					ask := waitFor("l", fmt.Sprint("w", i), 2*time.Second, 5*time.Minute)
					ask.RequestID = fmt.Sprint(i, "-", r)
					g := persist(t, c, ask)
					if g == nil {
						return
					}
					time.Sleep(rand.N(100 * time.Millisecond))
					release(c, "l", g)
					served[i].Add(1)
				}
			})
		}
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Second):
				}
				id := c.Leader().ID()
				c.Crash(id)
				time.Sleep(2 * time.Second)
				c.Start(id)
			}
		})
		go func() {
			for range 3600 {
				time.Sleep(100 * time.Millisecond)
				done := 0
				for i := range served {
					done += int(served[i].Load())
				}
				if done == clients*rounds {
					break
				}
			}
			close(stop)
		}()
		all.Wait()
		for i := range served {
			if s := served[i].Load(); s != rounds {
				t.Errorf("client %d was served %d times, want %d", i, s, rounds)
			}
		}
	})
}

// persist asks whoever leads, with the same request id, until it is granted.
func persist(t *testing.T, c *clustertest.Cluster, ask lease.Acquire) *lease.Grant {
	deadline := time.Now().Add(6 * time.Minute)
	for time.Now().Before(deadline) {
		for _, id := range []string{"n1", "n2", "n3"} {
			n := c.Node(id)
			if n == nil || n.Status().Role != cluster.Leader {
				continue
			}
			out, err := n.Acquire(ctx, ask)
			switch {
			case err == nil:
				if out.Answered != nil {
					out.Answered(true)
				}
				return out.Result.Lease.Grant
			case errors.Is(err, lease.ErrRequestEnded):
				// The leader died with the answer, and the grant ran out meanwhile.
				ask.RequestID += "+"
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%s was never granted", ask.Holder)
	return nil
}

// release tries until somebody has released the grant or says that it is over.
func release(c *clustertest.Cluster, name string, g *lease.Grant) {
	for range 500 {
		for _, id := range []string{"n1", "n2", "n3"} {
			n := c.Node(id)
			if n == nil {
				continue
			}
			_, err := n.Release(ctx, lease.Release{Name: name, Holder: g.Holder, Token: g.Token})
			var refusal *cluster.Refusal
			if err == nil || errors.As(err, &refusal) {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}
