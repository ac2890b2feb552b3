package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"leasehold/fsm"
	"leasehold/lease"
)

// Status is this node's own view of itself.
func (n *Node) Status() Status {
	s := Status{
		ID: n.cfg.ID, Address: n.cfg.Address, Role: Starting,
		Leader: n.knownLeader(), LastContact: n.lastContact(), Peers: n.peers.status(),
		Version: n.cfg.Version, Uptime: time.Since(n.opened), Waiting: n.waitingFor(),
	}
	n.machine.View(func(t *lease.Table) {
		s.AppliedIndex, s.StateHash = t.Applied().Index, t.Hash()
		s.Leases, s.Waiters, s.Registers = t.Len(), t.Waiters(), t.Registers()
		s.ClusterID = t.ClusterID()
	})
	if n.started() {
		s.Role = roleOf(n.raft.State())
		s.Term, s.LastIndex, s.CommitIndex = n.raft.CurrentTerm(), n.raft.LastIndex(), n.raft.CommitIndex()
		s.SnapshotIndex = n.snapshotIndex()
	}
	return s
}

// Applied is the entry that this node's state machine applied last.
func (n *Node) Applied() (e lease.Entry) {
	n.machine.View(func(t *lease.Table) { e = t.Applied() })
	return e
}

func roleOf(s raft.RaftState) Role {
	switch s {
	case raft.Leader:
		return Leader
	case raft.Candidate:
		return Candidate
	case raft.Shutdown:
		return Stopped
	default:
		return Follower
	}
}

func (n *Node) snapshotIndex() uint64 {
	snapshots, err := n.stores.Snapshots.List()
	if err != nil || len(snapshots) == 0 {
		return 0
	}
	return snapshots[0].Index
}

// Members is the latest configuration in this node's log.
func (n *Node) Members() Members {
	return Members{ClusterID: n.clusterID(), Leader: n.knownLeader(), Members: membersOf(n.servers())}
}

func membersOf(servers []raft.Server) []Member {
	members := make([]Member, 0, len(servers))
	for _, s := range servers {
		m := Member{Peer: Peer{string(s.ID), string(s.Address)}, Suffrage: "nonvoter"}
		if s.Suffrage == raft.Voter {
			m.Suffrage = "voter"
		}
		members = append(members, m)
	}
	return members
}

// Ready returns nil if this node leads, or knows a leader and has applied what
// that had a moment ago.
func (n *Node) Ready() error {
	if err := n.Err(); err != nil {
		return err
	}
	if !n.started() {
		return errors.New(n.waitingFor())
	}
	l, leader := n.leading.Load(), n.knownLeader()
	switch {
	case l.isServing():
		return nil
	case l != nil || leader.ID == n.cfg.ID: // Raft knows before we do
		return errors.New("this node has been elected and is taking over")
	case leader.ID == "":
		return n.noQuorum()
	}
	// How far this node is behind it cannot know by itself: it hears of committed
	// entries only as it gets them. So it compares itself with what the leader had a
	// moment ago, which under load it should have by now.
	had := n.peers.earlierIndex(leader.ID)
	switch applied := n.raft.AppliedIndex(); {
	case had == 0:
		return fmt.Errorf("this node has not heard yet how far %s, the leader, is", leader.ID)
	case applied < had:
		return fmt.Errorf("this node is catching up: it is at %d, the leader was at %d", applied, had)
	}
	return nil
}

// Log decodes up to limit entries of this node's Raft log from index from on.
// The end of it may not be committed yet.
func (n *Node) Log(from uint64, limit int) (LogPage, error) {
	return readLog(n.stores.Log, from, limit)
}

func readLog(log raft.LogStore, from uint64, limit int) (LogPage, error) {
	var page LogPage
	var err error
	if page.First, err = log.FirstIndex(); err != nil {
		return page, fmt.Errorf("the log cannot be read: %w", err)
	}
	if page.Last, err = log.LastIndex(); err != nil {
		return page, fmt.Errorf("the log cannot be read: %w", err)
	}
	for i := max(from, page.First); i <= page.Last && len(page.Entries) < limit && page.First > 0; i++ {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			if errors.Is(err, raft.ErrLogNotFound) {
				continue // compacted meanwhile
			}
			return page, fmt.Errorf("log entry %d cannot be read: %w", i, err)
		}
		page.Entries = append(page.Entries, decodeEntry(&l))
	}
	return page, nil
}

func decodeEntry(l *raft.Log) LogEntry {
	e := LogEntry{Index: l.Index, Term: l.Term}
	if !l.AppendedAt.IsZero() { // the first configuration has none
		e.At = l.AppendedAt.UnixMilli()
	}
	switch l.Type {
	case raft.LogCommand:
		e.Kind = fsm.KindName(l.Data)
		if c, err := fsm.DecodeCommand(l.Data); err == nil {
			e.Command = c
		}
	case raft.LogConfiguration:
		e.Kind, e.Members = "configuration", membersOf(raft.DecodeConfiguration(l.Data).Servers)
	case raft.LogNoop:
		e.Kind = "noop"
	case raft.LogBarrier:
		e.Kind = "barrier"
	default:
		e.Kind = fmt.Sprintf("raft type %d", l.Type)
	}
	return e
}
