package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/torture/history"
	"leasehold/torture/work"
)

// sampleEvery is how often nodes are asked what they say of themselves.
const sampleEvery = 250 * time.Millisecond

// watcher hears the witnesses beside the clients: the nodes, their logs, and the
// wire.
//
//	node ──▶ disk ── about to cut off its log ──▶ collector: reads it before
//	  │       └───── stores a snapshot that is ahead of it ──▶ it was installed
//	  ├────▶ network ── AppendEntries ──▶ leads in that term
//	  └────▶ asked now and then ──▶ samples, with hashes
type watcher struct {
	cluster *clustertest.Cluster
	log     *work.Log

	mu         sync.Mutex // guards what follows
	collectors map[string]*history.Collector
	installed  map[string]uint64 // snapshots since its start, by node
	foreign    map[string]uint64 // the index of the latest of them
	snapshots  uint64            // that nodes took of themselves
	marked     map[string]uint64 // up to which index there are hashes, by node
	led        map[history.Leadership]bool
	dropped    map[string]uint64
}

func newWatcher(log *work.Log, nodes []string) *watcher {
	w := &watcher{
		log: log, collectors: make(map[string]*history.Collector), installed: make(map[string]uint64),
		foreign: make(map[string]uint64), marked: make(map[string]uint64), led: make(map[history.Leadership]bool), dropped: make(map[string]uint64),
	}
	for _, id := range nodes {
		w.collectors[id] = &history.Collector{Node: id, To: log.Recorder, Fetch: w.fetch(id)}
	}
	return w
}

// configure puts the watcher between a node and its disk and network.
func (w *watcher) configure(c *cluster.Config) {
	c.Disk = &watchedDisk{c.Disk, c.ID, w}
	c.Network = &watchedNetwork{c.Network, c.ID, w}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.installed[c.ID], w.marked[c.ID] = 0, 0
}

// fetch reads the log of a node. Where the state came with a snapshot the log does
// not count: it may hold entries that were never committed, and were passed over.
func (w *watcher) fetch(id string) history.Fetch {
	return func(_ context.Context, from uint64, limit int) (history.Page, error) {
		n := w.cluster.Node(id)
		if n == nil {
			return history.Page{}, nil
		}
		page := history.Page{Applied: n.Applied().Index}
		log, err := n.Log(from, limit)
		page.First = max(log.First, w.foreign[id]+1)
		for _, e := range log.Entries {
			if e.Index < page.First {
				continue
			}
			page.Entries = append(page.Entries, history.Entry{Index: e.Index, Term: e.Term, At: e.At, Kind: e.Kind, Command: e.Command})
		}
		return page, err
	}
}

// collect reads what is new in the log of a node.
func (w *watcher) collect(id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.collectors[id].Collect(context.Background())
}

// watch samples all nodes until ctx ends.
func (w *watcher) watch(ctx context.Context, nodes []string) {
	for ctx.Err() == nil {
		for _, id := range nodes {
			w.sample(id)
		}
		sleep(ctx, sampleEvery)
	}
}

// sample asks a node what it says of itself, with a hash for each entry that it has
// applied since it was asked last.
func (w *watcher) sample(id string) {
	n := w.cluster.Node(id)
	if n == nil {
		return
	}
	s := n.Status()
	w.mu.Lock()
	defer w.mu.Unlock()
	sample := history.Sample{
		At: w.log.Now(), Node: id, Term: s.Term, Role: string(s.Role), Applied: s.AppliedIndex,
		Snapshot: s.SnapshotIndex, Installed: w.installed[id], Dropped: w.dropped[id],
	}
	for i := w.marked[id] + 1; i <= s.AppliedIndex; i++ {
		if hash, ok := n.Machine().HashAt(i); ok {
			sample.Marks = append(sample.Marks, history.Mark{Index: i, Hash: history.Hash(hash)})
		}
	}
	w.marked[id] = max(w.marked[id], s.AppliedIndex)
	w.log.Add(sample)
}

// leads notes that a node has sent AppendEntries.
func (w *watcher) leads(id string, term uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := history.Leadership{Node: id, Term: term}
	if !w.led[l] {
		w.led[l] = true
		l.At = w.log.Now()
		w.log.Add(l)
	}
}

// stored notes a snapshot, before it is. One of entries that the node has not applied
// comes from a leader.
func (w *watcher) stored(id string, index uint64) error {
	n := w.cluster.Node(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	const own = 8 // entries of Raft's own do not reach the state machine
	if n == nil || index <= n.Applied().Index+own {
		w.snapshots++
		return nil
	}
	err := w.collectors[id].Collect(context.Background())
	w.installed[id]++
	w.foreign[id] = index
	return err
}

// watchedDisk tells the watcher of what is about to happen to it.
type watchedDisk struct {
	cluster.Disk
	id string
	to *watcher
}

func (d *watchedDisk) Open() (*cluster.Stores, error) {
	below, err := d.Disk.Open()
	if err != nil {
		return nil, err
	}
	with := *below
	with.Log = &watchedLog{below.Log, d}
	with.Snapshots = &watchedSnapshots{below.Snapshots, d}
	return &with, nil
}

type watchedLog struct {
	raft.LogStore
	disk *watchedDisk
}

// DeleteRange lets the log be read before a part of it goes. That the node knows of
// it no better than its log is seen to by the collector.
func (l *watchedLog) DeleteRange(first, last uint64) error {
	if err := l.disk.to.collect(l.disk.id); err != nil {
		return err
	}
	return l.LogStore.DeleteRange(first, last)
}

type watchedSnapshots struct {
	raft.SnapshotStore
	disk *watchedDisk
}

func (s *watchedSnapshots) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, configIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	if err := s.disk.to.stored(s.disk.id, index); err != nil {
		return nil, err
	}
	return s.SnapshotStore.Create(v, index, term, c, configIndex, trans)
}

// sameIndex says whether all nodes run and have applied the same entries.
func (w *watcher) sameIndex(nodes []string) bool {
	var applied []uint64
	for _, id := range nodes {
		n := w.cluster.Node(id)
		if n == nil {
			return false
		}
		applied = append(applied, n.Applied().Index)
	}
	return slices.Min(applied) == slices.Max(applied)
}
