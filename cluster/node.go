package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"leasehold/fsm"
	"leasehold/lease"
	"leasehold/transport"
)

// Node is one process of the cluster.
type Node struct {
	cfg     Config
	log     hclog.Logger
	opened  time.Time
	closing context.Context // ends when Close begins
	close   context.CancelFunc
	leaving context.Context // ends when nobody should wait here any longer
	leave   context.CancelFunc
	tasks   sync.WaitGroup // this node's own goroutines

	stores        *Stores
	stable        raft.StableStore
	transport     *transport.Transport
	raftTransport *raft.NetworkTransport
	machine       *fsm.Machine
	raft          *raft.Raft    // set before ready is closed
	ready         chan struct{} // closed when Raft runs
	peers         *peers
	leading       atomic.Pointer[leadership]
	proposals     gate
	queue         chan *proposal // on their way to Raft

	mayKnowCluster chan struct{} // buffered 1

	failed  chan struct{} // closed when the node can go no further; failure is set then
	failure error

	saving sync.Mutex // held while the identity is written, so that mu need not be

	mu         sync.Mutex // guards what follows
	id         Identity
	waiting    string // why Raft does not run yet
	hasFailed  bool
	closeOnce  sync.Once
	closeError error
}

// Open starts a node. It returns an error if the node must not or cannot start;
// what is only known once other nodes have answered comes by [Node.Failed]. The
// node serves HTTP to nobody: the caller does, on [Node.HTTP].
func Open(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	stores, err := cfg.Disk.Open()
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, log: cfg.Logger, opened: time.Now(), stores: stores, id: stores.Identity,
		ready: make(chan struct{}), failed: make(chan struct{}), waiting: "this node is starting",
		mayKnowCluster: make(chan struct{}, 1), queue: make(chan *proposal, maxQueue),
	}
	if cfg.Lab != nil {
		stores = labDisk(stores, cfg.Lab, func() bool { return n.started() && n.raft.State() == raft.Leader })
		n.stores = stores
	}
	n.closing, n.close = context.WithCancel(context.Background())
	n.leaving, n.leave = context.WithCancel(n.closing)
	n.stable = &stableStore{stores.Stable, func(err error) {
		n.fail(fmt.Errorf("the term and vote of Raft cannot be saved: %w", err))
	}}
	n.stores.Log, err = raft.NewLogCache(logCacheSize, &logStore{stores.Log, func(err error) {
		n.fail(fmt.Errorf("the log cannot be written: %w", err))
	}})
	if err != nil {
		return nil, errors.Join(err, stores.Close())
	}
	n.machine = fsm.New(fsm.Config{Observe: n.observe, Restored: n.restored, Fail: n.fail})
	n.tasks.Go(func() { n.machine.AnnounceEvents(n.closing.Done()) })
	n.tasks.Go(n.watchDisk)
	n.peers = newPeers(n)
	if err := n.open(); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Node) open() error {
	formed, err := n.hasFormed()
	if err != nil {
		return fmt.Errorf("the data cannot be read: %w", err)
	}
	if err := n.claimIdentity(formed); err != nil {
		if n.stores.Name != "" {
			return fmt.Errorf("%s: %w", n.stores.Name, err)
		}
		return err
	}
	if !formed && len(n.cfg.Founders) == 0 {
		return fmt.Errorf("node %s has no data yet: its first start needs the list of the cluster's first members (--cluster)", n.cfg.ID)
	}
	n.transport, err = transport.Open(transport.Config{
		Address: n.cfg.Address, Bind: n.cfg.Bind, Network: n.cfg.Network,
		Self: n.hello, Admit: n.admit, Lab: n.cfg.Lab, Logger: n.log.Named("transport"),
	})
	if err != nil {
		return err
	}
	n.raftTransport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: n.transport.Raft(), MaxPool: 3, Timeout: rpcTimeout,
		// No pipelining. After a follower has answered no (its disk was full, a newer
		// term has begun), Raft's pipeline may block for good between a sender and a
		// reader that wait for each other: that follower is never sent an entry again,
		// while its heartbeats go on, and Shutdown never returns. Without it a round
		// of replication carries all that has gathered meanwhile, which is as fast.
		MaxRPCsInFlight: 1,
		Logger:          n.log.Named("raft-net"), MsgpackUseNewTimeFormat: true,
	})
	if formed {
		if err := n.checkPeers(n.closing); err != nil {
			return err
		}
		return n.startRaft()
	}
	n.tasks.Go(func() {
		err := n.form(n.closing)
		if err == nil {
			err = n.startRaft()
		}
		if err != nil && n.closing.Err() == nil {
			n.fail(err)
		}
	})
	return nil
}

// logCacheSize is how many entries are kept in memory for followers.
const logCacheSize = 4096

// rpcTimeout bounds one exchange between nodes. It is long enough for a slow
// disk under a full batch; a dead peer is noticed by its heartbeats, not by this.
const rpcTimeout = 5 * time.Second

func (n *Node) startRaft() error {
	changes := make(chan bool, 1)
	cfg := n.raftConfig()
	cfg.NotifyCh = changes
	r, err := raft.NewRaft(cfg, n.machine, n.stores.Log, n.stable, n.stores.Snapshots, n.raftTransport)
	if err != nil {
		return fmt.Errorf("the log and state cannot be loaded: %w", err)
	}
	n.raft = r
	n.setWaiting("")
	close(n.ready)
	n.tasks.Go(func() { n.followLeadership(changes) })
	n.tasks.Go(func() { n.peers.run(n.closing) })
	n.tasks.Go(n.rememberCluster)
	n.tasks.Go(n.handOver)
	return nil
}

func (n *Node) raftConfig() *raft.Config {
	cfg := raft.DefaultConfig()
	cfg.LocalID = raft.ServerID(n.cfg.ID)
	cfg.Logger = n.log.Named("raft")
	cfg.HeartbeatTimeout = n.cfg.HeartbeatTimeout
	cfg.LeaderLeaseTimeout = n.cfg.HeartbeatTimeout
	cfg.ElectionTimeout = n.cfg.ElectionTimeout
	cfg.SnapshotInterval = n.cfg.SnapshotInterval
	cfg.SnapshotThreshold = n.cfg.SnapshotThreshold
	cfg.TrailingLogs = n.cfg.TrailingLogs
	cfg.ShutdownOnRemove = false
	cfg.NoLegacyTelemetry = true
	// Raft shall find a whole batch when it looks; see handOver.
	cfg.BatchApplyCh = true
	cfg.MaxAppendEntries = maxBatch
	return cfg
}

// observe is called by the state machine for every entry, on Raft's thread.
func (n *Node) observe(r lease.Result) {
	if l := n.leading.Load(); l != nil {
		l.keeper.observe(r)
	}
	if r.Name == "" && r.Register == nil && r.Each == nil { // a Lead: it may have named the cluster
		n.restored()
	}
}

// HTTP is where clients connect. The caller serves it; Close closes it.
func (n *Node) HTTP() net.Listener { return n.transport.HTTP() }

// ID is the node's id.
func (n *Node) ID() string { return n.cfg.ID }

// Machine is the node's state machine, for tests and tools that compare states.
func (n *Node) Machine() *fsm.Machine { return n.machine }

// Failed is closed when the node has stopped by itself, with the reason in Err.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Err is why the node stopped by itself; nil while it has not.
func (n *Node) Err() error {
	select {
	case <-n.failed:
		return n.failure
	default:
		return nil
	}
}

// fail notes that the node can go no further. The process should end.
func (n *Node) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hasFailed {
		return
	}
	n.hasFailed, n.failure = true, err
	close(n.failed)
}

func (n *Node) started() bool {
	select {
	case <-n.ready:
		return true
	default:
		return false
	}
}

func (n *Node) setWaiting(why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if why != n.waiting && why != "" {
		n.log.Info(why)
	}
	n.waiting = why
}

func (n *Node) waitingFor() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waiting
}

// servers is the latest configuration in this node's log.
func (n *Node) servers() []raft.Server {
	if !n.started() {
		return nil
	}
	future := n.raft.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

func (n *Node) knownLeader() Peer {
	if !n.started() {
		return Peer{}
	}
	address, id := n.raft.LeaderWithID()
	return Peer{string(id), string(address)}
}
