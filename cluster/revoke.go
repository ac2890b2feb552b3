package cluster

import (
	"context"

	"leasehold/lease"
)

// Revoke breaks a grant at the wish of an operator.
func (n *Node) Revoke(ctx context.Context, c lease.Revoke) (Outcome, error) {
	if err := c.Check(); err != nil {
		return Outcome{}, err
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	l, err := n.serve(ctx)
	if err != nil {
		return Outcome{}, err
	}
	return l.write(ctx, c, nil)
}
