package cluster_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/lease"
)

// A node that is closed under load answers every request, at once or nearly so,
// and nothing of it is left running. The bubble sees to the latter.
func TestNode_Close_UnderLoad(t *testing.T) {
	for name, stop := range map[string]func(*clustertest.Cluster, string){
		"close":               (*clustertest.Cluster).Close,
		"step down":           (*clustertest.Cluster).Stop,
		"crash":               (*clustertest.Cluster).Crash,
		"close while cut off": func(c *clustertest.Cluster, id string) { c.Isolate(id); c.Close(id); c.Heal() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { closeUnderLoad(t, stop, 0) })
		})
		t.Run(name+" with a slow disk", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { closeUnderLoad(t, stop, 30*time.Millisecond) })
		})
	}
}

func closeUnderLoad(t *testing.T, stop func(*clustertest.Cluster, string), slow time.Duration) {
	c := clustertest.Prepare(t, 3, clustertest.Options{})
	for _, id := range []string{"n1", "n2", "n3"} {
		c.Disk(id).Before = func(clustertest.Write) error {
			time.Sleep(slow)
			return nil
		}
		c.Start(id)
	}
	c.DelayAll(time.Millisecond)
	leader := c.Leader()
	var clients sync.WaitGroup
	var mu sync.Mutex
	results := make(map[string]int)
	over := make(chan struct{})
	for i := range 100 {
		name := fmt.Sprint("job/", i)
		clients.Go(func() {
			for n := 0; ; n++ {
				begun := time.Now()
				var err error
				switch n % 3 {
				case 0:
					_, err = leader.Acquire(ctx, acquire(name, "h", fmt.Sprint(n), 100*time.Millisecond))
				case 1:
					_, err = leader.Renew(ctx, lease.Renew{Name: name, Holder: "h", Token: token(leader, name)})
				case 2:
					_, _, err = leader.Lease(ctx, name, cluster.Linearizable)
				}
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("an answer took %v: %v", took, err)
				}
				mu.Lock()
				results[fmt.Sprintf("%T", err)]++
				mu.Unlock()
				select {
				case <-over:
					return
				case <-time.After(time.Duration(1+i%7) * time.Millisecond):
				}
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	stop(c, leader.ID())
	time.Sleep(time.Second)
	close(over)
	clients.Wait()
	t.Log(results)
	for result := range results {
		switch result {
		case "<nil>", "*cluster.Refusal", "*cluster.Unavailable", "*cluster.NotLeader", "*cluster.Unknown":
		default:
			t.Errorf("an answer was a %s", result)
		}
	}
	if results["<nil>"] == 0 {
		t.Error("nothing succeeded before")
	}
	c.DelayAll(0)
}

// A node may be closed at any moment of its start.
func TestNode_Close_WhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for wait := range 40 {
			c := clustertest.Prepare(t, 3, clustertest.Options{})
			c.DelayAll(time.Millisecond)
			for _, id := range []string{"n1", "n2", "n3"} {
				c.Start(id)
			}
			time.Sleep(time.Duration(wait) * 5 * time.Millisecond / 4)
			if wait > 20 { // an election is under way
				time.Sleep(time.Duration(wait) * 25 * time.Millisecond)
			}
			for _, id := range c.Running() {
				c.Close(id)
			}
		}
	})
}

// An entry that this version does not know stops every node with a plain reason
// and without any effect; nodes that do not know it are then closed in order.
func TestNode_UnknownEntry_Stops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		mustAcquire(t, leader, acquire("job", "h", "1", time.Minute))
		time.Sleep(time.Second)
		applied := leader.Status().AppliedIndex
		if err := leader.Raft().Apply([]byte{1, 77, 0}, time.Second).Error(); err != nil {
			t.Fatal(err)
		}
		for _, id := range c.Running() {
			n := c.Node(id)
			if err := failure(t, n); err == nil || n.Ready() == nil {
				t.Errorf("%s: %v, ready: %v", id, err, n.Ready())
			} else {
				t.Log(err)
			}
			if got := n.Status().AppliedIndex; got != applied {
				t.Errorf("%s has applied entry %d, want none after %d", id, got, applied)
			}
		}
		for _, id := range c.Running() {
			c.Close(id)
		}
	})
}

// Under load, too, such an entry leaves no request without an answer, and no node
// that cannot be closed.
func TestNode_UnknownEntry_UnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		c.DelayAll(time.Millisecond)
		var load sync.WaitGroup
		unknown := 0
		load.Go(func() {
			errs, slowest := answers(1000, func(i int) error {
				time.Sleep(time.Duration(i) * time.Millisecond / 10)
				_, err := leader.Acquire(ctx, acquire(fmt.Sprint("job/", i), "h", "1", time.Minute))
				return err
			})
			if slowest > 2100*time.Millisecond {
				t.Errorf("the last answer came after %v", slowest)
			}
			for _, err := range errs {
				if isUnknown(err) {
					unknown++
				} else if err != nil && !isUnavailable(err) {
					t.Errorf("an answer was %v", err)
				}
			}
		})
		time.Sleep(50 * time.Millisecond)
		load.Go(func() { leader.Raft().Apply([]byte{1, 77, 0}, time.Second).Error() })
		load.Wait()
		if unknown == 0 {
			t.Error("nothing was in flight; this test shows nothing")
		}
		for _, id := range c.Running() {
			failure(t, c.Node(id))
			c.Close(id)
		}
	})
}

// A node that cannot save its term or its vote stops, instead of voting twice.
func TestNode_VoteNotSaved_Stops(t *testing.T) {
	for _, step := range []clustertest.Write{clustertest.WriteTerm, clustertest.WriteVote} {
		t.Run(string(step), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clustertest.New(t, 3, clustertest.Options{})
				var full atomic.Bool
				leader := c.Leader()
				follower := c.Follower()
				id := follower.ID()
				c.Close(id)
				c.Disk(id).Before = func(w clustertest.Write) error {
					if full.Load() && w == step {
						return errors.New("no space left on device")
					}
					return nil
				}
				n := c.Start(id)
				c.Leader()
				time.Sleep(time.Second)
				full.Store(true)
				c.Crash(leader.ID()) // an election, in which it can take no part
				err := failure(t, n)
				if err == nil || !asError(err, new(error)) {
					t.Errorf("%v", err)
				}
				t.Log(err)
				c.Close(id)
				full.Store(false)
				c.Start(id)
				c.Leader()
			})
		})
	}
}

// A disk that stalls for long costs answers, but each comes within 2 s.
func TestNode_SlowDisk_AnswersWithin2s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		id := leader.ID()
		c.Close(id)
		var stall atomic.Int64 // nanoseconds
		c.Disk(id).Before = func(w clustertest.Write) error {
			time.Sleep(time.Duration(stall.Load()))
			return nil
		}
		c.Start(id)
		time.Sleep(time.Second)
		leader = transfer(t, c, id)
		for i := range 20 { // their deadlines pass while the disk stalls
			mustAcquire(t, leader, acquire(fmt.Sprint("due/", i), "h", "1", 100*time.Millisecond+time.Duration(i)*time.Millisecond))
		}
		stall.Store(int64(1500 * time.Millisecond))
		errs, slowest := answers(2000, func(i int) error {
			time.Sleep(time.Duration(i) * time.Millisecond)
			begun := time.Now()
			_, err := leader.Acquire(ctx, acquire(fmt.Sprint("due/", i%40), fmt.Sprint(i), "1", time.Second))
			if took := time.Since(begun); took > 2*time.Second {
				return fmt.Errorf("request %d took %v: %v", i, took, err)
			}
			return nil
		})
		slow := 0
		for _, err := range errs {
			if err != nil {
				if slow++; slow < 4 {
					t.Error(err)
				}
			}
		}
		t.Logf("%d of %d took more than 2s, all together %v", slow, len(errs), slowest)
		stall.Store(0)
		time.Sleep(20 * time.Second)
	})
}

// A new leader whose first entry takes long answers within 2 s as well.
func TestNode_SlowTakeover_AnswersWithin2s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		leader := c.Leader()
		next := others(c, leader.ID())[0]
		c.DelayAll(170 * time.Millisecond)
		time.Sleep(time.Second)
		done := make(chan struct{})
		go func() {
			defer close(done)
			leader.Raft().LeadershipTransferToServer(raft.ServerID(next), raft.ServerAddress(clustertest.AddressOf(next))).Error()
		}()
		errs, _ := answers(150, func(i int) error {
			time.Sleep(time.Duration(i) * 20 * time.Millisecond)
			begun := time.Now()
			var err error
			if i%2 == 0 {
				_, err = c.Node(next).Acquire(ctx, acquire(fmt.Sprint(i), "h", "1", time.Minute))
			} else {
				_, _, err = c.Node(next).Lease(ctx, "x", cluster.Linearizable)
			}
			if took := time.Since(begun); took > 2*time.Second {
				return fmt.Errorf("request %d took %v: %v", i, took, err)
			}
			return nil
		})
		<-done
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	})
}
