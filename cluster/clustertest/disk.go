package clustertest

import (
	"errors"
	"sync"

	"github.com/hashicorp/raft"

	"leasehold/cluster"
)

// Disk is a cluster.Disk in memory. It outlives the node that has it open.
type Disk struct {
	// Before, if set, is called before each write, and may sleep as a slow disk
	// does. An error makes the write fail. Set it while no node has the disk open,
	// or from Before itself.
	Before func(Write) error

	store     *raft.InmemStore
	snapshots *raft.InmemSnapshotStore

	mu       sync.Mutex // guards what follows
	identity cluster.Identity
	open     bool
}

var _ cluster.Disk = (*Disk)(nil)

// Write is a step of a node that reaches the disk.
type Write string

// The steps, of which a first start takes the first six in this order.
const (
	WriteIncarnation Write = "incarnation" // a fresh disk becomes a node's
	WriteFounders    Write = "founders"
	WriteTerm        Write = "term" // Raft's; WriteVote is the other one
	WriteLog         Write = "log"
	WriteFormed      Write = "formed"
	WriteClusterID   Write = "cluster id"
	WriteVote        Write = "vote"
)

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	return &Disk{store: raft.NewInmemStore(), snapshots: raft.NewInmemSnapshotStore()}
}

// Open implements cluster.Disk.
func (d *Disk) Open() (*cluster.Stores, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open {
		return nil, errors.New("the disk is in use")
	}
	d.open = true
	store := watchedStore{d.store, d}
	return &cluster.Stores{
		Log: store, Stable: store, Snapshots: d.snapshots,
		Identity: d.identity, Save: d.save, Close: d.close,
	}, nil
}

func (d *Disk) save(id cluster.Identity) error {
	if err := d.before(stepOf(d.Identity(), id)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.identity = id
	return nil
}

// stepOf says what is new in an identity.
func stepOf(old, id cluster.Identity) Write {
	switch {
	case id.ClusterID != old.ClusterID:
		return WriteClusterID
	case id.Formed && !old.Formed:
		return WriteFormed
	case id.Founders != nil && old.Founders == nil:
		return WriteFounders
	default:
		return WriteIncarnation
	}
}

// Identity is what the disk says of itself.
func (d *Disk) Identity() cluster.Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.identity
}

func (d *Disk) before(w Write) error {
	if d.Before == nil {
		return nil
	}
	return d.Before(w)
}

func (d *Disk) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = false
	return nil
}

// watchedStore calls Before.
type watchedStore struct {
	*raft.InmemStore
	disk *Disk
}

func (s watchedStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

func (s watchedStore) StoreLogs(logs []*raft.Log) error {
	if err := s.disk.before(WriteLog); err != nil {
		return err
	}
	return s.InmemStore.StoreLogs(logs)
}

// DeleteRange deletes what there is of the range. The store in memory loses count of
// its entries when it is asked to delete others, as Raft does after a snapshot from
// the leader has replaced the log.
func (s watchedStore) DeleteRange(first, last uint64) error {
	low, _ := s.FirstIndex() // it never fails
	high, _ := s.LastIndex()
	first, last = max(first, low), min(last, high)
	if low == 0 || first > last {
		return nil
	}
	return s.InmemStore.DeleteRange(first, last)
}

func (s watchedStore) Set(key, value []byte) error {
	if err := s.disk.before(WriteVote); err != nil {
		return err
	}
	return s.InmemStore.Set(key, value)
}

func (s watchedStore) SetUint64(key []byte, value uint64) error {
	step := WriteVote
	if string(key) == "CurrentTerm" {
		step = WriteTerm
	}
	if err := s.disk.before(step); err != nil {
		return err
	}
	return s.InmemStore.SetUint64(key, value)
}

// LoseLog empties the log and Raft's term and vote, and keeps the identity.
func (d *Disk) LoseLog() { d.store = raft.NewInmemStore() }
