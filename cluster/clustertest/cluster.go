// Package clustertest runs whole clusters inside a testing/synctest bubble: real
// nodes, real Raft on its real network transport, over an in-memory network with
// faults, in virtual time. A failover that takes a second takes milliseconds, and
// a goroutine that is left behind fails the test.
//
// When the test ends the cluster is healed, every node is brought to the same
// entry, and what must hold in any history is checked (see check.go).
package clustertest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"leasehold/cluster"
	"leasehold/faults/lab"
	"leasehold/transport"
)

// Options of a [Cluster].
type Options struct {
	// Configure, if set, changes the configuration of every node.
	Configure func(*cluster.Config)
	// Serve, if set, makes the HTTP handler of a node.
	Serve func(*cluster.Node) http.Handler
	// Lab gives every node a board for faults; see [Cluster.Lab].
	Lab bool
	// Seed of what is random in the faults of a lab.
	Seed uint64
}

// Cluster is a set of nodes n1, n2, … on one in-memory network.
type Cluster struct {
	Net *transport.Memory

	t     testing.TB
	opts  Options
	ids   []string
	peers []cluster.Peer
	disks map[string]*Disk

	mu    sync.Mutex               // guards what follows
	nodes map[string]*cluster.Node // those that run
	labs  map[string]*lab.Board    // of those that ran last
	https map[string]*http.Server
}

// New starts size nodes. Call it inside a bubble.
func New(t testing.TB, size int, opts Options) *Cluster {
	t.Helper()
	c := Prepare(t, size, opts)
	for _, id := range c.ids {
		c.Start(id)
	}
	return c
}

// Prepare makes the disks of size nodes and starts none.
func Prepare(t testing.TB, size int, opts Options) *Cluster {
	c := &Cluster{
		Net: transport.NewMemory(), t: t, opts: opts,
		disks: make(map[string]*Disk),
		nodes: make(map[string]*cluster.Node),
		labs:  make(map[string]*lab.Board),
		https: make(map[string]*http.Server),
	}
	for i := range size {
		id := fmt.Sprintf("n%d", i+1)
		c.ids = append(c.ids, id)
		c.peers = append(c.peers, cluster.Peer{ID: id, Address: AddressOf(id)})
		c.disks[id] = NewDisk()
	}
	t.Cleanup(c.finish)
	return c
}

// AddressOf is where a node listens.
func AddressOf(id string) string { return id + ":8000" }

// Start starts a node on its disk and fails the test if it cannot.
func (c *Cluster) Start(id string) *cluster.Node {
	c.t.Helper()
	n, err := c.TryStart(id)
	if err != nil {
		c.t.Fatalf("start %s: %v", id, err)
	}
	return n
}

// TryStart starts a node on its disk.
func (c *Cluster) TryStart(id string) (*cluster.Node, error) {
	cfg := cluster.DefaultConfig()
	cfg.ID, cfg.Address, cfg.Founders = id, AddressOf(id), c.peers
	cfg.Disk, cfg.Network = c.disks[id], c.Net.Host(AddressOf(id))
	cfg.Logger = logger(id)
	if c.opts.Lab {
		cfg.Lab = lab.New(cfg.Logger, c.opts.Seed+uint64(slices.Index(c.ids, id)))
	}
	if c.opts.Configure != nil {
		c.opts.Configure(&cfg)
	}
	n, err := cluster.Open(cfg)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[id] = n
	c.labs[id] = cfg.Lab
	if c.opts.Serve != nil {
		server := &http.Server{Handler: c.opts.Serve(n)}
		c.https[id] = server
		go server.Serve(n.HTTP())
	}
	return n, nil
}

// Stop ends a node as SIGTERM does.
func (c *Cluster) Stop(id string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := c.Node(id).StepDown(ctx); err != nil {
		c.t.Logf("%s steps down: %v", id, err)
	}
	c.close(id)
}

// Crash ends a node as kill -9 does to all the others: nothing that it has not
// sent yet is ever sent. What it wrote stays on its disk.
func (c *Cluster) Crash(id string) {
	c.t.Helper()
	c.Net.Crash(AddressOf(id))
	c.close(id)
}

// Close ends a node without any warning to the others.
func (c *Cluster) Close(id string) {
	c.t.Helper()
	c.close(id)
}

// Wipe replaces the disk of a node that does not run by a fresh one.
func (c *Cluster) Wipe(id string) { c.disks[id] = NewDisk() }

// Disk returns the disk of a node.
func (c *Cluster) Disk(id string) *Disk { return c.disks[id] }

// SetDisk puts another disk into a node that does not run.
func (c *Cluster) SetDisk(id string, d *Disk) { c.disks[id] = d }

func (c *Cluster) close(id string) {
	c.t.Helper()
	c.mu.Lock()
	n, server := c.nodes[id], c.https[id]
	delete(c.nodes, id)
	delete(c.https, id)
	c.mu.Unlock()
	if server != nil {
		server.Close()
	}
	if err := n.Close(); err != nil {
		c.t.Errorf("close %s: %v", id, err)
	}
}

// Node returns a node that runs, nil otherwise.
func (c *Cluster) Node(id string) *cluster.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[id]
}

// Lab returns the board of a node, which is new with each start.
func (c *Cluster) Lab(id string) *lab.Board {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.labs[id]
}

// Running returns the ids of the nodes that run, in order.
func (c *Cluster) Running() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for _, id := range c.ids {
		if c.nodes[id] != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// Leader waits until exactly one of the running nodes, and of those given, if
// any are, serves as leader, and returns it. It fails the test after 30 virtual
// seconds.
func (c *Cluster) Leader(among ...string) *cluster.Node {
	c.t.Helper()
	var leader *cluster.Node
	c.Until("a leader serves", func() bool {
		leader = nil
		for _, id := range c.Running() {
			if len(among) > 0 && !slices.Contains(among, id) {
				continue
			}
			n := c.Node(id)
			if n == nil {
				continue // crashed meanwhile
			}
			if n.Status().Role == cluster.Leader && n.Ready() == nil {
				if leader != nil {
					return false
				}
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

// Follower returns a running node that is not the leader.
func (c *Cluster) Follower() *cluster.Node {
	c.t.Helper()
	leader := c.Leader()
	for _, id := range c.Running() {
		if n := c.Node(id); n != leader {
			return n
		}
	}
	c.t.Fatal("no follower runs")
	return nil
}

// Isolate cuts a node off from all the others.
func (c *Cluster) Isolate(id string) { c.Net.Isolate(AddressOf(id)) }

// Cut stalls what one node sends to the other.
func (c *Cluster) Cut(from, to string) { c.Net.Cut(AddressOf(from), AddressOf(to)) }

// Delay makes what one node sends to the other from now on take that long.
func (c *Cluster) Delay(from, to string, d time.Duration) {
	c.Net.Delay(AddressOf(from), AddressOf(to), d)
}

// DelayAll delays every link between two nodes.
func (c *Cluster) DelayAll(d time.Duration) {
	for _, from := range c.ids {
		for _, to := range c.ids {
			if from != to {
				c.Delay(from, to, d)
			}
		}
	}
}

// Heal mends every link, and ends all faults of a lab.
func (c *Cluster) Heal() {
	c.Net.HealAll()
	if !c.opts.Lab {
		return
	}
	for _, id := range c.Running() {
		c.Lab(id).HealAll()
	}
}

// Until waits in virtual time until ok. It fails the test after 30 s.
func (c *Cluster) Until(what string, ok func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			for _, id := range c.Running() {
				c.t.Logf("%s: %+v", id, c.Node(id).Status())
			}
			c.t.Fatalf("after 30 s still not: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// logger writes to standard error if LEASEHOLD_TEST_LOG is set to a level.
func logger(id string) hclog.Logger {
	level := os.Getenv("LEASEHOLD_TEST_LOG")
	if level == "" {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Name: id, Level: hclog.LevelFromString(level), Output: os.Stderr})
}
