package sim

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/faults"
	"leasehold/faults/lab"
	"leasehold/httpapi"
	"leasehold/torture/history"
	"leasehold/torture/work"
)

// Config of one simulation.
type Config struct {
	Seed     uint64
	Nodes    int
	Duration time.Duration // virtual
	Schedule faults.Schedule
}

// healed is how long the cluster is left alone at the end.
const healed = 15 * time.Second

// latency of a link between two nodes.
const latency = 200 * time.Microsecond

// Outcome is what came of a simulation.
type Outcome struct {
	Config  Config
	History *history.History
	// Failures of the checks of package clustertest, and of the simulation itself.
	Failures []string
	// Skipped are the steps that had nobody to be done to, and why.
	Skipped   []string
	Snapshots int // that nodes took of themselves
}

// Run runs one simulation. It fails t only by a deadlock or a panic in the bubble.
func Run(t *testing.T, cfg Config) Outcome {
	out := Outcome{Config: cfg}
	synctest.Test(t, func(t *testing.T) {
		q := &quiet{TB: t}
		s := &simulation{cfg: cfg, log: work.NewLog(history.NewRecorder(nil)), boards: make(map[string]*lab.Board)}
		q.guard(func() { s.run(q) })
		q.finish()
		out.History, out.Failures = s.log.History(), q.failed()
		if s.breaker != nil {
			out.Skipped, out.Snapshots = s.breaker.skipped, int(s.watcher.snapshots)
		}
	})
	return out
}

// simulation is one run.
type simulation struct {
	cfg     Config
	log     *work.Log
	cluster *clustertest.Cluster
	watcher *watcher
	breaker *breaker

	mu     sync.Mutex            // guards what follows
	boards map[string]*lab.Board // of the nodes that were started last
}

func (s *simulation) run(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ids := NodeIDs(s.cfg.Nodes)
	s.watcher = newWatcher(s.log, ids)
	s.cluster = clustertest.Prepare(t, s.cfg.Nodes, clustertest.Options{Configure: s.configure, Serve: s.serve(t), Lab: true, Seed: s.cfg.Seed})
	s.watcher.cluster = s.cluster
	s.breaker = newBreaker(s.cluster, ids, s.log)
	for _, id := range ids {
		s.breaker.supervise(ctx, s.cluster.Start(id))
	}
	// Without it a loop that goes over the network would take no time, and never end: a
	// node whose log ends beyond the leader's snapshot is sent it until there is a newer.
	s.cluster.DelayAll(latency)
	s.cluster.Leader()
	s.log.Add(history.Run{Title: "simulation", Seed: s.cfg.Seed})

	var beside sync.WaitGroup
	beside.Go(func() { s.watcher.watch(ctx, ids) })
	beside.Go(func() { s.breaker.play(ctx, s.cfg.Schedule) })
	w := work.DefaultConfig()
	w.Seed, w.Log, w.Until = s.cfg.Seed, s.log, s.cfg.Duration
	w.Servers, w.Dial = servers(ids), s.dial
	if err := work.Run(ctx, w); err != nil {
		t.Error(err)
	}
	s.end(t, ids)
	cancel()
	beside.Wait()
	s.breaker.guard.Wait()
}

// end brings all nodes to the same entry and reads what has not been read of their
// logs.
func (s *simulation) end(t testing.TB, ids []string) {
	s.cluster.Leader()
	s.cluster.Until("all nodes have applied the same entries", func() bool { return s.watcher.sameIndex(ids) })
	for _, id := range ids {
		s.watcher.sample(id)
		if err := s.watcher.collect(id); err != nil {
			t.Errorf("the log of %s: %v", id, err)
		}
	}
	s.breaker.report()
	s.log.Add(history.End{At: s.log.Now(), LogComplete: true})
}

// configure makes snapshots frequent.
func (s *simulation) configure(c *cluster.Config) {
	c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = 64, 16, time.Second
	s.watcher.configure(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boards[c.ID] = c.Lab
}

// serve makes the API of a node as the program has it.
func (s *simulation) serve(t testing.TB) func(*cluster.Node) http.Handler {
	return func(n *cluster.Node) http.Handler {
		cfg := httpapi.DefaultConfig()
		s.mu.Lock()
		cfg.Backend, cfg.Lab = &backend{n, s.watcher}, s.boards[n.ID()]
		s.mu.Unlock()
		server, err := httpapi.New(cfg)
		if err != nil {
			t.Error(err)
		}
		return server
	}
}

// dial is the network as a client has it.
func (s *simulation) dial(player string) work.Dial {
	host := s.cluster.Net.Host(player + ":1")
	return func(ctx context.Context, _, address string) (net.Conn, error) { return host.Dial(ctx, address) }
}

// NodeIDs are the ids of so many nodes.
func NodeIDs(n int) []string { return []string{"n1", "n2", "n3", "n4", "n5"}[:n] }

func servers(ids []string) (all []string) {
	for _, id := range ids {
		all = append(all, clustertest.AddressOf(id))
	}
	return all
}
