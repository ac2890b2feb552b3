package torture

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"leasehold/httpapi/wire"
	"leasehold/torture/history"
	"leasehold/torture/work"
)

// How often nodes are asked: for what is new in their logs, which snapshots cut off
// soon, and how many of the answers to what they say of themselves are kept.
const (
	lookEvery   = 25 * time.Millisecond
	sampleEvery = 100 * time.Millisecond
)

// witness hears the nodes themselves: their logs, and what they say of themselves.
type witness struct {
	cluster *cluster
	log     *work.Log
	all     []*watcher
}

// watcher is the witness of one node.
type watcher struct {
	*witness
	node      *node
	collector history.Collector

	mu      sync.Mutex // guards what follows; also one look at a time
	last    wire.Status
	at      time.Duration // of last
	sampled time.Duration
	held    uint64 // back by its link faults
	// foreign is the index up to which the state came with a snapshot of a leader. The
	// log does not count there: it may hold entries that were never committed and were
	// passed over.
	foreign uint64
	known   uint64        // of the snapshots that arrived, so many are accounted for
	unclear time.Duration // since when it has not been known where a snapshot came from
}

func newWitness(c *cluster, log *work.Log) *witness {
	w := &witness{cluster: c, log: log}
	for _, n := range c.nodes {
		one := &watcher{witness: w, node: n}
		one.collector = history.Collector{Node: n.id, To: log.Recorder, Fetch: one.fetch}
		w.all = append(w.all, one)
	}
	return w
}

// watch asks all nodes until ctx ends.
func (w *witness) watch(ctx context.Context) {
	var all sync.WaitGroup
	for _, one := range w.all {
		all.Go(func() {
			for sleep(ctx, lookEvery) {
				_ = one.look(ctx) // a node may well be down
			}
		})
	}
	all.Wait()
}

// leader is the node that led when it was asked last, in the highest term; empty if
// nobody has said so for a while.
func (w *witness) leader() (id string) {
	const fresh = 500 * time.Millisecond
	term := uint64(0)
	for _, one := range w.all {
		one.mu.Lock()
		if s := one.last; s.Role == "leader" && s.Term > term && w.log.Now()-one.at < fresh {
			id, term = s.ID, s.Term
		}
		one.mu.Unlock()
	}
	return id
}

// term is the highest that a node has spoken of.
func (w *witness) term() (highest uint64) {
	for _, one := range w.all {
		one.mu.Lock()
		highest = max(highest, one.last.Term)
		one.mu.Unlock()
	}
	return highest
}

// look asks a node for what is new.
func (w *watcher) look(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.collector.Collect(ctx)
}

// errUnclear: it is not yet known where a snapshot came from.
var errUnclear = errors.New("unclear where a snapshot came from")

// fetch implements history.Fetch. The lock is held.
func (w *watcher) fetch(ctx context.Context, from uint64, limit int) (history.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, err := w.cluster.api.Status(ctx, w.node.address)
	if err != nil {
		return history.Page{}, err
	}
	w.heard(ctx, status)
	page := history.Page{Applied: status.AppliedIndex}
	if status.AppliedIndex < from {
		return page, nil
	}
	log, err := w.cluster.api.Log(ctx, w.node.address, from, limit)
	if err != nil {
		return history.Page{}, err
	}
	if err := w.trust(status, from); err != nil {
		return history.Page{}, err
	}
	page.First = max(log.First, w.foreign+1)
	for _, e := range log.Entries {
		if e.Index < page.First || e.Index > page.Applied {
			continue
		}
		entry, err := history.FromWire(e)
		if err != nil {
			return history.Page{}, err
		}
		page.Entries = append(page.Entries, entry)
	}
	return page, nil
}

// trust finds out whether unread entries may be of the time before a snapshot that the
// node got from a leader.
func (w *watcher) trust(status wire.Status, from uint64) error {
	const patience = 2 * time.Second
	own, arrived, _ := w.node.output.snapshots(status.SnapshotIndex)
	switch {
	case status.SnapshotIndex < from || own && arrived == w.known:
		w.unclear = 0
		return nil
	case arrived == w.known && w.unclear == 0:
		w.unclear = w.at
		return errUnclear
	case arrived == w.known && w.at-w.unclear < patience:
		return errUnclear // a line of the node's output will tell
	}
	w.known, w.foreign, w.unclear = arrived, status.SnapshotIndex, 0
	return nil
}

// heard keeps what a node says of itself.
func (w *watcher) heard(ctx context.Context, s wire.Status) {
	now := w.log.Now()
	w.last, w.at = s, now
	if now-w.sampled < sampleEvery {
		return
	}
	w.sampled = now
	if f, err := w.cluster.api.Faults(ctx, w.node.address); err == nil {
		w.held = f.HeldBack
	}
	hash, err := strconv.ParseUint(s.StateHash, 16, 64)
	if err != nil {
		return
	}
	_, _, installed := w.node.output.snapshots(s.SnapshotIndex)
	w.log.Add(history.Sample{
		At: now, Node: s.ID, Term: s.Term, Role: s.Role, Applied: s.AppliedIndex, Snapshot: s.SnapshotIndex,
		Marks: []history.Mark{{Index: s.AppliedIndex, Hash: history.Hash(hash)}}, Installed: installed, Dropped: w.held,
	})
}

// finish reads what has not been read of the logs.
func (w *witness) finish(ctx context.Context) error {
	var failed []error
	for _, one := range w.all {
		one.sampled = 0
		failed = append(failed, one.look(ctx))
	}
	return errors.Join(failed...)
}
