package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// StepDown lets what is in flight finish, refuses what is new, and hands
// leadership over if this node has it. The node is to be closed afterwards. In a lab
// its faults are healed first.
func (n *Node) StepDown(ctx context.Context) error {
	n.cfg.Lab.Close()
	defer n.leave() // those who wait in queues are told of the next leader, if there is one
	n.proposals.shut()
	if err := n.proposals.wait(ctx); err != nil {
		return err
	}
	if !n.started() || n.raft.State() != raft.Leader || len(n.servers()) < 2 {
		return nil
	}
	return n.raft.LeadershipTransfer().Error() // bounded by the election timeout
}

// Close stops the node and waits until nothing of it is left. What is in flight
// ends as Raft lets it end.
func (n *Node) Close() error {
	n.closeOnce.Do(func() { n.closeError = n.closeAll() })
	return n.closeError
}

func (n *Node) closeAll() error {
	n.cfg.Lab.Close() // what a fault holds up ends now
	n.proposals.shut()
	// Every proposal ends once a quorum confirms it or leadership is lost for
	// want of one. If Raft's thread had to end (see stableStore), they never do.
	drain, cancel := context.WithTimeout(context.Background(), 2*n.cfg.HeartbeatTimeout+time.Second)
	if n.Err() == nil {
		n.proposals.wait(drain)
	}
	cancel()
	n.close()
	var down raft.Future
	if n.raftTransport != nil {
		if n.started() {
			down = n.raft.Shutdown()
		}
		n.raftTransport.Close()
		n.raftTransport.CloseStreams()
	}
	var errs []error
	if n.transport != nil {
		errs = append(errs, n.transport.Close())
	}
	n.tasks.Wait()
	if down == nil && n.started() { // Raft started while we were closing
		down = n.raft.Shutdown()
	}
	if down != nil {
		errs = append(errs, down.Error())
	}
	return errors.Join(append(errs, n.stores.Close())...)
}
