package fsm

import (
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"leasehold/lease"
)

// Config of a [Machine].
type Config struct {
	// Observe, if set, is called after every entry, on Raft's thread: it must be
	// quick and must not call back into Raft.
	Observe func(lease.Result)
	// Restored, if set, is called when a snapshot has replaced the state.
	Restored func()
	// Fail is called once when the machine can go no further, on Raft's thread. It
	// must see to it that the node stops; no entry takes effect after it.
	Fail func(error)
}

// Machine is the state machine of one node.
type Machine struct {
	cfg Config

	// mu guards the table: Raft's thread writes, everybody reads.
	mu    sync.RWMutex
	table *lease.Table
	marks hashMarks

	events *eventLog

	failed error // of Raft's thread alone
}

var _ raft.FSM = (*Machine)(nil)

// New returns a machine with an empty state.
func New(cfg Config) *Machine {
	return &Machine{cfg: cfg, table: new(lease.Table), events: newEventLog()}
}

// Apply implements raft.FSM. The response is a lease.Result, or an error if this
// entry, or one before it, could not be read.
//
// The machine stands still from such an entry on, while Raft goes on until it is
// shut down. To end Raft's thread here instead would leave those who wait for
// later entries without an answer for ever.
func (m *Machine) Apply(l *raft.Log) any {
	if m.failed != nil {
		return m.failed
	}
	c, err := DecodeCommand(l.Data)
	if err != nil {
		m.failed = fmt.Errorf("log entry %d cannot be applied: %w", l.Index, err)
		m.cfg.Fail(m.failed)
		return m.failed
	}
	e := lease.Entry{Index: l.Index, Term: l.Term, At: l.AppendedAt.UnixMilli()}

	m.mu.Lock()
	r := m.table.Apply(e, c)
	m.marks.add(e.Index, m.table.Hash())
	m.mu.Unlock()

	m.events.add(r)
	if m.cfg.Observe != nil {
		m.cfg.Observe(r)
	}
	return r
}

// Snapshot implements raft.FSM in constant time. A machine that stands still has
// none to give: Raft would take it for the state at a later entry.
func (m *Machine) Snapshot() (raft.FSMSnapshot, error) {
	if m.failed != nil {
		return nil, m.failed
	}
	return &snapshot{m.Freeze()}, nil
}

// Restore implements raft.FSM.
func (m *Machine) Restore(in io.ReadCloser) error {
	defer in.Close()
	if m.failed != nil {
		return m.failed
	}
	table, err := ReadSnapshot(in)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.table = table
	m.marks.add(table.Applied().Index, table.Hash())
	m.mu.Unlock()
	m.events.restart(table.Applied())
	if m.cfg.Restored != nil {
		m.cfg.Restored()
	}
	return nil
}

// View calls f with the table, which f must neither change nor keep. Entries
// wait until f returns.
func (m *Machine) View(f func(*lease.Table)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f(m.table)
}

// Freeze returns the state as it is now, for reading at leisure.
func (m *Machine) Freeze() *lease.Snapshot {
	m.mu.Lock() // sharing the tree marks it, which is a write
	defer m.mu.Unlock()
	return m.table.Snapshot()
}

// HashAt returns the state hash after the entry of that index, if this node
// applied it recently.
func (m *Machine) HashAt(index uint64) (hash uint64, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.marks.at(index)
}

// hashMarks remembers the state hash after each of the latest entries, so that
// nodes can be compared at an index that all of them have passed.
type hashMarks [1024]struct{ index, hash uint64 }

func (h *hashMarks) add(index, hash uint64) {
	mark := &h[index%uint64(len(h))]
	mark.index, mark.hash = index, hash
}

func (h *hashMarks) at(index uint64) (uint64, bool) {
	mark := h[index%uint64(len(h))]
	return mark.hash, index != 0 && mark.index == index
}

// snapshot implements raft.FSMSnapshot.
type snapshot struct{ state *lease.Snapshot }

func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := WriteSnapshot(sink, s.state); err != nil {
		sink.Cancel()
		return err
	}
	return sink.Close()
}

func (s *snapshot) Release() {}
