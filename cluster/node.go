package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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
	n.closing, n.close = context.WithCancel(context.Background())
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
		return fmt.Errorf("node %s has no data yet: its first start needs the list of the cluster's first members", n.cfg.ID)
	}
	n.transport, err = transport.Open(transport.Config{
		Address: n.cfg.Address, Bind: n.cfg.Bind, Network: n.cfg.Network,
		Self: n.hello, Admit: n.admit, Logger: n.log.Named("transport"),
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

// claimIdentity makes sure that the disk is this node's.
func (n *Node) claimIdentity(formed bool) error {
	id := n.identity()
	switch {
	case id.ID == "":
		id = Identity{ID: n.cfg.ID, Address: n.cfg.Address, Incarnation: randomID()}
	case id.ID != n.cfg.ID:
		return fmt.Errorf("the data is that of node %s, this is node %s", id.ID, n.cfg.ID)
	case id.Address != n.cfg.Address:
		return fmt.Errorf("the data is that of node %s at %s, but it was started with the address %s; the other nodes know it by the old one", id.ID, id.Address, n.cfg.Address)
	case id.Formed && !formed:
		return errors.New("this node has taken part in a cluster, but its log is empty; starting so could undo what the cluster has promised")
	}
	id.Formed = formed
	return n.updateIdentity(func(current *Identity) { *current = id })
}

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
	// Raft shall find a whole batch when it looks; see batchesInFlight.
	cfg.BatchApplyCh = true
	cfg.MaxAppendEntries = maxBatch
	return cfg
}

// observe is called by the state machine for every entry, on Raft's thread.
func (n *Node) observe(r lease.Result) {
	if l := n.leading.Load(); l != nil {
		l.keeper.observe(r)
	}
	if r.Name == "" { // a Lead: it may have named the cluster
		n.restored()
	}
}

func (n *Node) restored() {
	select {
	case n.mayKnowCluster <- struct{}{}:
	default:
	}
}

// rememberCluster notes on disk which cluster this node belongs to, once the
// state machine knows. It does so off Raft's thread.
func (n *Node) rememberCluster() {
	for {
		select {
		case <-n.mayKnowCluster:
		case <-n.closing.Done():
			return
		}
		id := n.clusterID()
		if id == "" || n.identity().ClusterID == id {
			continue
		}
		if err := n.updateIdentity(func(me *Identity) { me.ClusterID = id }); err != nil {
			n.log.Error("the cluster id cannot be saved", "error", err)
		}
	}
}

// hello is what this node tells others of itself.
func (n *Node) hello() transport.Hello {
	id := n.identity()
	h := transport.Hello{
		ID: id.ID, Address: id.Address, Incarnation: id.Incarnation, ClusterID: id.ClusterID,
		Founders: id.Founders, Formed: id.Formed, Listed: n.listed(),
	}
	if n.started() {
		// The term last: whoever asks relies on its being no older than that.
		h.Running, h.LastIndex, h.Term = true, n.raft.LastIndex(), n.raft.CurrentTerm()
	}
	return h
}

// admit refuses peers of another cluster.
func (n *Node) admit(channel string, from transport.Hello) error {
	me := n.identity()
	switch {
	case from.ID == me.ID:
		return fmt.Errorf("this node is %s itself (%s), and so is the one that connects (%s)", me.ID, me.Address, from.Address)
	case me.ClusterID != "" && from.ClusterID != "" && me.ClusterID != from.ClusterID:
		return fmt.Errorf("%s belongs to cluster %s, this is cluster %s", from.ID, from.ClusterID, me.ClusterID)
	case channel == transport.ChannelRaft && !n.started():
		return fmt.Errorf("%s does not take part in a cluster yet: %s", me.ID, n.waitingFor())
	}
	return nil
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

// StepDown lets what is in flight finish, refuses what is new, and hands
// leadership over if this node has it. The node is to be closed afterwards.
func (n *Node) StepDown(ctx context.Context) error {
	n.proposals.shut()
	if err := n.proposals.wait(ctx); err != nil {
		return err
	}
	if !n.started() || n.raft.State() != raft.Leader || len(n.servers()) < 2 {
		return nil
	}
	return n.raft.LeadershipTransfer().Error() // bounded by the election timeout
}

// Close stops the node and waits until nothing of it is left. What is in flight
// ends as Raft lets it end.
func (n *Node) Close() error {
	n.closeOnce.Do(func() { n.closeError = n.closeAll() })
	return n.closeError
}

func (n *Node) closeAll() error {
	n.proposals.shut()
	// Every proposal ends once a quorum confirms it or leadership is lost for
	// want of one. If Raft's thread had to end (see stableStore), they never do.
	drain, cancel := context.WithTimeout(context.Background(), 2*n.cfg.HeartbeatTimeout+time.Second)
	if n.Err() == nil {
		n.proposals.wait(drain)
	}
	cancel()
	n.close()
	var down raft.Future
	if n.raftTransport != nil {
		if n.started() {
			down = n.raft.Shutdown()
		}
		n.raftTransport.Close()
		n.raftTransport.CloseStreams()
	}
	var errs []error
	if n.transport != nil {
		errs = append(errs, n.transport.Close())
	}
	n.tasks.Wait()
	if down == nil && n.started() { // Raft started while we were closing
		down = n.raft.Shutdown()
	}
	if down != nil {
		errs = append(errs, down.Error())
	}
	return errors.Join(append(errs, n.stores.Close())...)
}

func (n *Node) started() bool {
	select {
	case <-n.ready:
		return true
	default:
		return false
	}
}

func (n *Node) identity() Identity {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// updateIdentity changes the identity in memory once it is on disk.
func (n *Node) updateIdentity(change func(*Identity)) error {
	n.saving.Lock()
	defer n.saving.Unlock()
	id := n.identity()
	change(&id)
	if err := n.stores.Save(id); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.id = id
	return nil
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

func (n *Node) clusterID() (id string) {
	n.machine.View(func(t *lease.Table) { id = t.ClusterID() })
	return id
}

// randomID is 16 hex digits that nobody else draws.
func randomID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// gate counts who is inside and can be shut.
type gate struct {
	mu     sync.Mutex
	inside int
	isShut bool
	empty  chan struct{} // non-nil while somebody waits; closed when nobody is inside
}

// enter reports whether the gate was open; the caller must leave then.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isShut {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut = true
}

// wait returns when nobody is inside; it is for a gate that is shut.
func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	if g.inside == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
