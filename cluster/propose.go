package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"leasehold/fsm"
	"leasehold/lease"
)

// A request is answered within 2 s, whatever happens. It may be held up by a
// leader that does not serve yet, and twice on the way into Raft's queue: by the
// Expire that goes before it, and by itself. What is left of answerTimeout is for
// the outcome.
const (
	servingTimeout = 800 * time.Millisecond
	enqueueTimeout = 500 * time.Millisecond
	answerTimeout  = 1900 * time.Millisecond
)

const (
	maxBatch = 512  // entries that go to Raft, to disk and to a follower at once
	maxQueue = 4096 // proposals that wait for their turn
)

var errNoMajority = fmt.Errorf("no majority has confirmed the entry within %v", answerTimeout)

// inTime bounds the answering of a request.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, answerTimeout, errNoMajority)
}

// errNothing marks an error of Raft after which the entry is surely not in the
// log, and never will be.
var errNothing = errors.New("nothing happened")

// proposal is a command on its way through Raft.
type proposal struct {
	command lease.Command
	after   func(*proposal) // called when the outcome is known; may be nil
	done    chan struct{}   // closed when what follows is set
	result  lease.Result
	err     error
}

// propose puts a command into the queue to Raft; proposals get into the log in
// the order in which they were put there. The outcome is known when done is
// closed, which may be long after a caller has stopped waiting.
//
//	queue ──▶ Raft ──▶ leader's log ──▶ a majority ──▶ applied
//	  │         │           │                            │
//	  │ full    │ not the   │ leadership lost            │ result
//	  ▼         ▼ leader    ▼                            ▼
//	  nothing   nothing     unknown                      known
func (n *Node) propose(c lease.Command, after func(*proposal)) *proposal {
	p := &proposal{command: c, after: after, done: make(chan struct{})}
	if !n.proposals.enter() {
		p.finish(lease.Result{}, fmt.Errorf("%w: %w", errNothing, raft.ErrLeadershipTransferInProgress))
		return p
	}
	select {
	case n.queue <- p:
		return p
	default:
	}
	timer := time.NewTimer(enqueueTimeout)
	defer timer.Stop()
	select {
	case n.queue <- p:
	case <-timer.C:
		p.finish(lease.Result{}, fmt.Errorf("%w: %w", errNothing, raft.ErrEnqueueTimeout))
		n.proposals.leave()
	}
	return p
}

// handOver takes proposals off the queue and hands them to Raft, a batch at a
// time, until the node closes.
//
// What costs is not the entry but the flush to disk, so entries should share
// flushes. Raft by itself takes whatever is there when it has time, which under
// load is a few entries at a time, each few with flushes of their own. Holding
// proposals back until the batch before is through makes batches large when there
// are many, and costs nothing when there are few.
func (n *Node) handOver() {
	for {
		select {
		case p := <-n.queue:
			select {
			case <-n.send(n.fill(p)):
			case <-n.closing.Done(): // Raft may have stopped without an answer
				return
			}
		case <-n.closing.Done():
			return
		}
	}
}

// fill makes a batch of the first proposal and those that wait behind it.
func (n *Node) fill(first *proposal) []*proposal {
	batch := []*proposal{first}
	for len(batch) < maxBatch {
		select {
		case p := <-n.queue:
			batch = append(batch, p)
		default:
			return batch
		}
	}
	return batch
}

// send hands a batch to Raft. The channel is closed when every outcome is known.
func (n *Node) send(batch []*proposal) (through <-chan struct{}) {
	futures := make([]raft.ApplyFuture, len(batch))
	deadline := time.Now().Add(enqueueTimeout) // for all of them together
	for i, p := range batch {
		futures[i] = n.raft.Apply(fsm.EncodeCommand(p.command), max(time.Until(deadline), time.Microsecond))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i, p := range batch {
			p.await(futures[i])
			n.proposals.leave()
		}
	}()
	return done
}

func (p *proposal) await(future raft.ApplyFuture) {
	err := outcome(future.Error())
	result, applied := future.Response().(lease.Result)
	if err == nil && !applied {
		// The state machine stopped at or before this entry.
		err = &Unknown{errors.New("this node stopped before the entry was applied")}
	}
	p.finish(result, err)
}

func (p *proposal) finish(r lease.Result, err error) {
	p.result, p.err = r, err
	close(p.done)
	if p.after != nil {
		p.after(p)
	}
}

// outcome sorts the errors of raft.ApplyFuture: does the entry exist?
func outcome(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrEnqueueTimeout), // it did not get into the queue
		errors.Is(err, raft.ErrNotLeader), // it was taken off the queue by a follower
		errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", errNothing, err)
	case errors.Is(err, raft.ErrLeadershipLost), // it is in this node's log and perhaps in others
		errors.Is(err, raft.ErrRaftShutdown): // perhaps committed, not applied here
		return &Unknown{err}
	default:
		// Of the log store, perhaps on disk all the same. Raft logs what it is; it
		// names files of this machine, which are not for clients.
		return &Unknown{errors.New("this node could not write its log")}
	}
}

// settle waits for a proposal on behalf of a request.
func (n *Node) settle(ctx context.Context, p *proposal) (lease.Result, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if errors.Is(cause, context.Canceled) {
			cause = errors.New("the connection of the request was closed meanwhile")
		}
		return lease.Result{}, &Unknown{cause}
	}
	if errors.Is(p.err, raft.ErrLeadershipTransferInProgress) {
		return lease.Result{}, n.transferring()
	}
	if errors.Is(p.err, errNothing) {
		return lease.Result{}, n.elsewhere()
	}
	return p.result, p.err
}

// elsewhere says why this node cannot take a request now, and who can.
func (n *Node) elsewhere() error {
	if leader := n.knownLeader(); leader.ID != "" && leader.ID != n.cfg.ID {
		return &NotLeader{leader}
	}
	if err := n.noQuorum(); err.Reason == NoQuorum {
		return err
	}
	return n.noLeader()
}

func (n *Node) transferring() *Unavailable {
	return &Unavailable{Transferring, fmt.Sprintf("%s is handing its leadership over", n.cfg.ID)}
}

func (n *Node) noLeader() *Unavailable {
	if waiting := n.waitingFor(); waiting != "" {
		return &Unavailable{NoLeader, "there is no cluster yet: " + waiting}
	}
	return &Unavailable{NoLeader, "no leader is known, an election is under way"}
}

// noQuorum says which voters this node reaches, if they are too few.
func (n *Node) noQuorum() *Unavailable {
	ids, voters := n.peers.reachable()
	if len(ids) > voters/2 || voters == 0 {
		return n.noLeader()
	}
	return &Unavailable{NoQuorum, fmt.Sprintf("%s reaches %d of %d voters %v, a majority is %d; nothing is granted, renewed, released or expired until more are back",
		n.cfg.ID, len(ids), voters, ids, voters/2+1)}
}
