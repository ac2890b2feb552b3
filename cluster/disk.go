package cluster

import (
	"fmt"
	"runtime"
	"time"

	"github.com/hashicorp/raft"
)

// Disk is where a node keeps what must survive it.
type Disk interface {
	// Open takes sole possession of the disk and checks that what is on it is
	// whole. It fails, and changes nothing, if it is in use, damaged or foreign.
	Open() (*Stores, error)
}

// Stores are the parts of an open [Disk].
type Stores struct {
	// Name of the disk, for messages. May be empty.
	Name      string
	Log       raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
	// Identity says whose disk this is; its ID is empty on a fresh disk.
	Identity Identity
	// Save makes an identity durable.
	Save func(Identity) error
	// Missing, unless nil, says whether the disk has been taken away from under the
	// node. See watchDisk.
	Missing func() error
	// Close gives the disk back.
	Close func() error
}

// diskCheck is how often a node looks whether its disk is still there.
const diskCheck = time.Second

// watchDisk stops the node when its disk is gone. A process goes on writing into
// files that were deleted, without an error, until it ends; then all that it has
// acknowledged is lost. To look once a second bounds how much that is.
func (n *Node) watchDisk() {
	if n.stores.Missing == nil {
		return
	}
	tick := time.NewTicker(diskCheck)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-n.closing.Done():
			return
		}
		if err := n.stores.Missing(); err != nil {
			n.fail(fmt.Errorf("%s: %w", n.stores.Name, err))
			return
		}
	}
}

// stableStore stands before the stable store, where Raft keeps its term and its
// vote. Raft panics when it cannot save a term: a node that forgets its vote can
// elect two leaders. Here it stops the node instead, with a plain reason.
type stableStore struct {
	raft.StableStore
	fail func(error)
}

func (s *stableStore) Set(key, value []byte) error {
	return s.check(s.StableStore.Set(key, value))
}

func (s *stableStore) SetUint64(key []byte, value uint64) error {
	return s.check(s.StableStore.SetUint64(key, value))
}

func (s *stableStore) check(err error) error {
	if err != nil {
		s.fail(err)
		runtime.Goexit() // ends Raft's goroutine in an orderly way; see fail
	}
	return nil
}

// logStore stands before the log. A node that could not write an entry stops:
// what the disk holds after a failed write is not known for sure, and a leader
// that stayed would be elected, fail and step down again and again.
type logStore struct {
	raft.LogStore
	fail func(error)
}

// IsMonotonic implements raft.MonotonicLogStore. It makes Raft empty the log when a
// snapshot from the leader takes its place. Otherwise Raft leaves the old entries
// before a gap, also those that were never committed: as the leader, this node would
// send them to a follower that is still further behind, which takes them for
// committed and applies them.
func (s *logStore) IsMonotonic() bool { return true }

func (s *logStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

func (s *logStore) StoreLogs(logs []*raft.Log) error {
	err := s.LogStore.StoreLogs(logs)
	if err != nil {
		s.fail(err)
	}
	return err
}
