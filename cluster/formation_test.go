package cluster_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
)

// isWiped says whether a node has stopped because its disk was lost.
func isWiped(err error) bool {
	var wiped *cluster.WipedError
	return errors.As(err, &wiped)
}

// failure waits until a node has stopped by itself, and returns why.
func failure(t *testing.T, n *cluster.Node) error {
	t.Helper()
	select {
	case <-n.Failed():
		return n.Err()
	case <-time.After(10 * time.Second):
		t.Fatalf("%s goes on: %+v", n.ID(), n.Status())
		return nil
	}
}

// A cluster forms only when the last founder has been up, and says whom it is
// waiting for.
func TestFormation_WaitsForTheLastFounder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.Prepare(t, 3, clustertest.Options{})
		c.Start("n1")
		c.Start("n3")
		time.Sleep(time.Minute)
		for _, id := range []string{"n1", "n3"} {
			s := c.Node(id).Status()
			if s.Role != cluster.Starting || s.Leader.ID != "" || !strings.Contains(s.Waiting, "n2 (n2:8000)") || strings.Contains(s.Waiting, id+" ") {
				t.Errorf("%s is %+v, want it to wait for n2", id, s)
			}
			if err := c.Node(id).Ready(); err == nil || err.Error() != s.Waiting {
				t.Errorf("%s is ready: %v", id, err)
			}
			_, err := c.Node(id).Acquire(ctx, acquire("a", "h", "1", time.Second))
			if !isUnavailable(err, cluster.NoLeader) || !strings.Contains(err.Error(), "n2") {
				t.Errorf("%s answers %v, want that there is no cluster yet", id, err)
			}
		}
		c.Start("n2")
		mustAcquire(t, c.Leader(), acquire("a", "h", "1", time.Minute))
		for _, id := range c.Running() {
			if s := c.Node(id).Status(); s.Waiting != "" || len(c.Disk(id).Identity().Founders) != 3 {
				t.Errorf("%s: waiting %q, identity %+v", id, s.Waiting, c.Disk(id).Identity())
			}
		}
	})
}

// A founder that was up once, and was away while the others formed, joins when
// it comes back.
func TestFormation_LateFounder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.Prepare(t, 3, clustertest.Options{})
		// It is gone before it has noted that it is a founder.
		c.Disk("n3").Before = func(w clustertest.Write) error {
			if w == clustertest.WriteFounders {
				return errors.New("the power is out")
			}
			return nil
		}
		for _, id := range []string{"n1", "n2", "n3"} {
			c.Start(id)
		}
		failure(t, c.Node("n3"))
		leader := c.Leader("n1", "n2") // they have seen it
		c.Close("n3")
		g := mustAcquire(t, leader, acquire("a", "h", "1", time.Minute))
		time.Sleep(10 * time.Second)
		c.Disk("n3").Before = nil
		late := c.Start("n3")
		c.Until("it has caught up", func() bool { return token(late, "a") == g.Token })
		// It is a member in its own right.
		for _, id := range []string{"n1", "n2"} {
			if c.Leader().ID() == id {
				c.Crash(id)
				break
			}
		}
		mustRenew(t, c.Leader(), "a", g)
	})
}

// A node that is no founder yet may be given another address, as after a slip,
// and the cluster forms with the new one.
func TestFormation_AddressChanged_BeforeItForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		address := "elsewhere:8000"
		c := clustertest.Prepare(t, 3, clustertest.Options{Configure: func(cfg *cluster.Config) {
			cfg.Founders = append([]cluster.Peer(nil), cfg.Founders...)
			cfg.Founders[2].Address = address
			if cfg.ID == "n3" {
				cfg.Address, cfg.Bind = address, clustertest.AddressOf("n3")
			}
		}})
		c.Start("n1")
		c.Start("n3")
		time.Sleep(time.Second)
		before := c.Disk("n3").Identity()
		c.Close("n1")
		c.Close("n3")
		address = clustertest.AddressOf("n3")
		for _, id := range []string{"n1", "n2", "n3"} {
			c.Start(id)
		}
		mustAcquire(t, c.Leader(), acquire("a", "h", "1", time.Minute))
		after := c.Disk("n3").Identity()
		if before.Address != "elsewhere:8000" || after.Address != address || after.Incarnation != before.Incarnation {
			t.Errorf("n3 was %+v, is %+v", before, after)
		}
	})
}

// A late founder whose address, and with it its list, is not the one that the
// others have formed the cluster with refuses, and can come back with the right
// one.
func TestFormation_LateFounder_AddressChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moved := false
		c := clustertest.Prepare(t, 3, clustertest.Options{Configure: func(cfg *cluster.Config) {
			if cfg.ID != "n3" && moved {
				cfg.Founders = nil // they no longer need it, and still know it
			}
			if cfg.ID == "n3" && moved {
				cfg.Founders = append([]cluster.Peer(nil), cfg.Founders...)
				cfg.Address, cfg.Founders[2].Address = "moved:8000", "moved:8000"
				cfg.Bind = clustertest.AddressOf("n3")
			}
		}})
		c.Disk("n3").Before = func(w clustertest.Write) error {
			if w == clustertest.WriteFounders {
				return errors.New("the power is out")
			}
			return nil
		}
		for _, id := range []string{"n1", "n2", "n3"} {
			c.Start(id)
		}
		failure(t, c.Node("n3"))
		g := mustAcquire(t, c.Leader("n1", "n2"), acquire("a", "h", "1", time.Hour))
		c.Close("n3")
		c.Disk("n3").Before = nil
		moved = true
		for _, id := range []string{"n1", "n2"} {
			c.Stop(id)
			c.Start(id)
			c.Leader("n1", "n2")
		}
		err := failure(t, c.Start("n3"))
		for _, part := range []string{"the cluster was formed", "n3=n3:8000", "n3=moved:8000"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("n3 stops with %q, want %q in it", err, part)
			}
		}
		if s := c.Node("n3").Status(); s.Role != cluster.Starting {
			t.Errorf("it has taken part: %+v", s)
		}
		c.Close("n3")
		moved = false
		late := c.Start("n3")
		c.Until("it has caught up", func() bool { return token(late, "a") == g.Token })
	})
}

// A founder may die before or after each of its steps on disk: when it is
// started again the cluster forms all the same.
func TestFormation_CrashBetweenSteps(t *testing.T) {
	steps := []clustertest.Write{
		clustertest.WriteIncarnation, clustertest.WriteFounders, clustertest.WriteTerm,
		clustertest.WriteLog, clustertest.WriteFormed, clustertest.WriteClusterID,
	}
	for _, size := range []int{1, 3} {
		for _, step := range steps {
			for _, all := range []bool{false, true} {
				name := map[bool]string{false: "one", true: "all"}[all] + " of " + string(rune('0'+size)) + " before " + string(step)
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { crashAt(t, size, step, all) })
				})
			}
		}
	}
}

func crashAt(t *testing.T, size int, step clustertest.Write, all bool) {
	c := clustertest.Prepare(t, size, clustertest.Options{})
	ids := []string{"n1", "n2", "n3"}[:size]
	dying := ids[:1]
	if all {
		dying = ids
	}
	reached := make(map[string]*atomic.Bool)
	for _, id := range dying {
		dead := new(atomic.Bool)
		reached[id] = dead
		c.Disk(id).Before = func(w clustertest.Write) error {
			if dead.Load() || w == step {
				dead.Store(true) // from here on nothing is written
				return errors.New("the power is out")
			}
			return nil
		}
	}
	for _, id := range ids {
		if _, err := c.TryStart(id); err != nil && step != clustertest.WriteIncarnation {
			t.Fatalf("start %s: %v", id, err)
		}
	}
	time.Sleep(5 * time.Second)
	for _, id := range dying {
		if !reached[id].Load() {
			t.Errorf("%s never got to that step; this test shows nothing", id)
		}
		if c.Node(id) != nil {
			c.Crash(id)
		}
		c.Disk(id).Before = nil
	}
	for _, id := range dying {
		c.Start(id)
	}
	leader := c.Leader()
	mustAcquire(t, leader, acquire("a", "h", "1", time.Minute))
	c.Until("every founder has noted that it is one", func() bool {
		for _, id := range ids {
			if identity := c.Disk(id).Identity(); !identity.Formed || len(identity.Founders) != size {
				return false
			}
		}
		return true
	})
}

// A founder that has lost its disk does not come back as if nothing had
// happened: it refuses while the others run.
func TestFormation_WipedFounder_Refuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		g := mustAcquire(t, c.Leader(), acquire("a", "h", "1", time.Hour))
		wiped := c.Leader().ID()
		c.Crash(wiped)
		c.Wipe(wiped)
		if err := failure(t, c.Start(wiped)); !isWiped(err) || !strings.Contains(err.Error(), "remove "+wiped) {
			t.Errorf("it stops with %v, want that its disk was lost and what to do", err)
		}
		if s := c.Node(wiped).Status(); s.Role != cluster.Starting || s.Term != 0 {
			t.Errorf("it has taken part: %+v", s)
		}
		c.Close(wiped)
		mustRenew(t, c.Leader(), "a", g)
	})
}

// With all the others down it cannot know; it waits, and refuses when one of
// them is back. Nor can it form a cluster with others that were wiped too.
func TestFormation_WipedFounder_OthersDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		mustAcquire(t, c.Leader(), acquire("a", "h", "1", time.Hour))
		for _, id := range []string{"n1", "n2", "n3"} {
			c.Crash(id)
		}
		c.Wipe("n1")
		c.Wipe("n2")
		c.Start("n1")
		c.Start("n2")
		time.Sleep(time.Minute)
		for _, id := range []string{"n1", "n2"} {
			if s := c.Node(id).Status(); s.Role != cluster.Starting || !strings.Contains(s.Waiting, "n3") {
				t.Errorf("%s: %+v, want it to wait for n3", id, s)
			}
		}
		c.Start("n3")
		for _, id := range []string{"n1", "n2"} {
			if err := failure(t, c.Node(id)); !isWiped(err) {
				t.Errorf("%s stops with %v", id, err)
			}
			c.Close(id)
		}
		time.Sleep(10 * time.Second)
		if s := c.Node("n3").Status(); s.Role == cluster.Leader {
			t.Errorf("one of three leads: %+v", s)
		}
	})
}

// Founders that were started with different lists refuse, and say both.
func TestFormation_DifferentLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.Prepare(t, 3, clustertest.Options{Configure: func(cfg *cluster.Config) {
			if cfg.ID == "n1" {
				cfg.Founders = append([]cluster.Peer(nil), cfg.Founders...)
				cfg.Founders[2].Address = "elsewhere:8000"
			}
		}})
		for _, id := range []string{"n1", "n2"} {
			c.Start(id)
		}
		one, two := failure(t, c.Node("n1")), failure(t, c.Node("n2"))
		for id, err := range map[string]error{"n1": one, "n2": two} {
			for _, part := range []string{"another list", "n3=n3:8000", "n3=elsewhere:8000"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s stops with %q, want %q in it", id, err, part)
				}
			}
			c.Close(id)
		}
	})
}

// The same list in another order is the same list.
func TestFormation_OrderOfTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{Configure: func(cfg *cluster.Config) {
			p := cfg.Founders
			if cfg.ID == "n2" {
				cfg.Founders = []cluster.Peer{p[2], p[0], p[1]}
			}
		}})
		mustAcquire(t, c.Leader(), acquire("a", "h", "1", time.Minute))
	})
}

// The disk of another node, or of this one at another address, is refused at
// once and left as it was.
func TestOpen_DiskOfAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moved := false
		c := clustertest.New(t, 3, clustertest.Options{Configure: func(cfg *cluster.Config) {
			if cfg.ID == "n3" && moved {
				cfg.Address, cfg.Founders = "moved:8000", nil
			}
		}})
		c.Leader()
		c.Stop("n3")
		own := c.Disk("n3")
		c.Stop("n2")
		c.SetDisk("n3", c.Disk("n2"))
		before := c.Disk("n2").Identity()
		if _, err := c.TryStart("n3"); err == nil || err.Error() != "the data is that of node n2, this is node n3" {
			t.Errorf("with the disk of n2: %v", err)
		}
		if after := c.Disk("n2").Identity(); after.ID != before.ID || after.Incarnation != before.Incarnation {
			t.Errorf("the disk is %+v, was %+v", after, before)
		}
		c.Start("n2") // and can be used as before
		c.SetDisk("n3", own)
		moved = true
		if _, err := c.TryStart("n3"); err == nil || !strings.Contains(err.Error(), "n3 at n3:8000") || !strings.Contains(err.Error(), "moved:8000") {
			t.Errorf("with another address: %v", err)
		}
		moved = false
		c.Start("n3")
		c.Leader()
	})
}

// A disk that is open already is refused.
func TestOpen_DiskInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, clustertest.Options{})
		n := c.Leader()
		if _, err := c.TryStart("n1"); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("a second start: %v", err)
		}
		mustAcquire(t, n, acquire("a", "h", "1", time.Minute))
	})
}

// A node whose disk belongs to another cluster refuses to start when it hears of
// it, although that cluster has the same ids and addresses.
func TestOpen_DiskOfAnotherCluster(t *testing.T) {
	var foreign *clustertest.Disk
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		c.Leader()
		c.Until("n3 knows the cluster", func() bool { return c.Disk("n3").Identity().ClusterID != "" })
		c.Stop("n3")
		foreign = c.Disk("n3")
	})
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		c.Leader()
		c.Until("n1 knows the cluster", func() bool { return c.Disk("n1").Identity().ClusterID != "" })
		c.Stop("n3")
		own := c.Disk("n3")
		c.SetDisk("n3", foreign)
		if n, err := c.TryStart("n3"); err == nil {
			t.Errorf("it starts: %+v", n.Status())
			c.Close("n3")
		} else if !strings.Contains(err.Error(), foreign.Identity().ClusterID) || !strings.Contains(err.Error(), own.Identity().ClusterID) {
			t.Errorf("it refuses with %q, want both cluster ids in it", err)
		}
		c.SetDisk("n3", own)
		c.Start("n3")
		c.Leader()
	})
}

// A node that took part in a cluster and has lost its log refuses, whoever else
// is up.
func TestOpen_LogLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, clustertest.Options{})
		c.Leader()
		c.Stop("n3")
		c.Disk("n3").LoseLog()
		if _, err := c.TryStart("n3"); err == nil || !strings.Contains(err.Error(), "its log is empty") {
			t.Errorf("it starts without its log: %v", err)
		}
	})
}

// A cluster of one forms at once, serves, and starts again.
func TestFormation_SingleNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, clustertest.Options{})
		g := mustAcquire(t, c.Leader(), acquire("a", "h", "1", time.Second))
		if view, _, err := c.Leader().Lease(ctx, "a", cluster.Linearizable); err != nil || view.Lease.Grant.Token != g.Token {
			t.Errorf("%+v, %v", view, err)
		}
		c.Stop("n1")
		c.Start("n1")
		mustRenew(t, c.Leader(), "a", g)
		untilFree(t, c.Leader(), "a")
	})
}
