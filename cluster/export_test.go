package cluster

import (
	"context"

	"github.com/hashicorp/raft"
)

// Raft lets tests do what no client can: put any entry into the log, hand
// leadership to a certain node.
func (n *Node) Raft() *raft.Raft { return n.raft }

// Confirm is the confirmation of a read that this node would answer as the
// leader of that term.
func (n *Node) Confirm(ctx context.Context, term uint64) error { return n.peers.confirm(ctx, term) }
