package cluster

import "leasehold/fsm"

// Events returns what this node's state machine has done after an index, at most
// limit entries of it. Every node answers for itself: the log is the same on all
// of them, but one may be further than the other.
func (n *Node) Events(after uint64, limit int) fsm.EventPage { return n.machine.Events(after, limit) }

// Leader is the leader and the term as this node knows them. The leader is zero
// while it knows none.
func (n *Node) Leader() (leader Peer, term uint64) {
	if !n.started() {
		return Peer{}, 0
	}
	return n.knownLeader(), n.raft.CurrentTerm()
}
