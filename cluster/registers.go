package cluster

import (
	"context"
	"fmt"

	"leasehold/lease"
)

// Write writes to a register on behalf of a client. Unlike the other writes it
// is not the same when it is repeated: the second one is another write, which may
// undo what came between.
func (n *Node) Write(ctx context.Context, c lease.Write) (Outcome, error) {
	if err := c.Check(); err != nil {
		return Outcome{}, err
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	l, err := n.serve(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if err := n.checkRegisterRoom(c.Register); err != nil {
		return Outcome{}, err
	}
	return l.write(ctx, c, nil)
}

// Register reads a register. It is nil if it was never written to.
func (n *Node) Register(ctx context.Context, name string, c Consistency) (*lease.Register, Read, error) {
	var reg *lease.Register
	read, err := n.read(ctx, c, func(t *lease.Table, _ *leadership) { reg = t.Register(name) })
	return reg, read, err
}

// checkRegisterRoom keeps the number of registers within bounds, for they stay
// for good. As with leases, the writes on their way are not counted.
func (n *Node) checkRegisterRoom(name string) error {
	var full bool
	n.machine.View(func(t *lease.Table) { full = t.Registers() >= n.cfg.MaxRegisters && t.Register(name) == nil })
	if full {
		return &LimitError{TooManyRegisters, fmt.Sprintf("there are %d registers, and this server allows no more; a register stays for good", n.cfg.MaxRegisters)}
	}
	return nil
}
