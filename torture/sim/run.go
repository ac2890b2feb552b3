package sim

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/faults"
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

// Outcome is what came of a simulation.
type Outcome struct {
	Config   Config
	History  *history.History
	Failures []string // of the checks of package clustertest, and of the simulation
}

// Run runs one simulation.
func Run(t *testing.T, cfg Config) Outcome {
	out := Outcome{Config: cfg}
	synctest.Test(t, func(t *testing.T) {
		q := &quiet{TB: t}
		s := &simulation{cfg: cfg, log: work.NewLog(history.NewRecorder(nil))}
		q.guard(func() { s.run(q) })
		q.finish()
		out.History, out.Failures = s.log.History(), q.failed()
	})
	return out
}

// simulation is one run.
type simulation struct {
	cfg     Config
	cluster *clustertest.Cluster
	log     *work.Log
}

func (s *simulation) run(t testing.TB) {
	s.cluster = clustertest.New(t, s.cfg.Nodes, clustertest.Options{Configure: configure, Serve: serve(t), Lab: true, Seed: s.cfg.Seed})
	s.cluster.Leader()
	w := work.DefaultConfig()
	w.Seed, w.Log, w.Until = s.cfg.Seed, s.log, s.cfg.Duration
	w.Servers, w.Dial = s.servers(), s.dial
	if err := work.Run(context.Background(), w); err != nil {
		t.Fatal(err)
	}
	s.log.Add(history.End{At: s.log.Now()})
}

func configure(c *cluster.Config) {
	c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = 64, 16, time.Second
}

// serve makes the API of a node as the program has it.
func serve(t testing.TB) func(*cluster.Node) http.Handler {
	return func(n *cluster.Node) http.Handler {
		cfg := httpapi.DefaultConfig()
		cfg.Backend = n
		server, err := httpapi.New(cfg)
		if err != nil {
			t.Error(err)
		}
		return server
	}
}

func (s *simulation) servers() (all []string) {
	for _, id := range s.ids() {
		all = append(all, clustertest.AddressOf(id))
	}
	return all
}

// ids of all nodes.
func (s *simulation) ids() []string { return []string{"n1", "n2", "n3", "n4", "n5"}[:s.cfg.Nodes] }

// dial is the network as a client has it.
func (s *simulation) dial(player string) work.Dial {
	host := s.cluster.Net.Host(player + ":1")
	return func(ctx context.Context, _, address string) (net.Conn, error) { return host.Dial(ctx, address) }
}
