package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"leasehold/lease"
)

// leadership is this node's leading of one term.
//
//	elected ──▶ propose Lead ──applied──▶ arm every lease ──▶ serving
//	   │              │                          │               │
//	   └──────────────┴──── deposed: stop ───────┴───────────────┘
//
// Until Lead is applied this node may not have applied all that earlier leaders
// have answered, so it serves nothing.
type leadership struct {
	node    *Node
	ctx     context.Context // ends with the leadership
	cancel  context.CancelFunc
	ended   chan struct{} // closed when its goroutines are gone
	serving chan struct{} // closed when it may serve
	term    uint64        // valid once serving
	keeper  *keeper
}

// followLeadership starts a leadership each time Raft says that this node leads
// and stops it when Raft says that it no longer does. Raft reports every change on
// this channel, in order, and waits until it is taken.
func (n *Node) followLeadership(changes <-chan bool) {
	for {
		select {
		case leads := <-changes:
			n.endLeadership()
			if leads {
				// The keeper must be in place before the first entry of the term is
				// applied: what is applied behind its back it never expires.
				l := n.newLeadership()
				n.leading.Store(l)
				l.start()
			}
		case <-n.closing.Done():
			n.endLeadership()
			return
		}
	}
}

func (n *Node) endLeadership() {
	if l := n.leading.Swap(nil); l != nil {
		l.cancel()
		<-l.ended
		if l.term != 0 { // it did serve
			n.log.Info("no longer the leader", "term", l.term)
		}
	}
}

func (n *Node) newLeadership() *leadership {
	l := &leadership{node: n, ended: make(chan struct{}), serving: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(n.closing)
	l.keeper = newKeeper(newLeaseClock(n.cfg.Lab), l.propose)
	return l
}

func (l *leadership) start() {
	var clock sync.WaitGroup
	clock.Go(func() { l.keeper.clock.run(l.ctx) })
	go func() {
		defer close(l.ended)
		defer clock.Wait()
		defer l.cancel()
		l.run()
	}()
}

// run leads until the leadership ends.
func (l *leadership) run() {
	started := time.Now()
	lead, err := l.proposeLead()
	if err != nil {
		return // deposed before it began
	}
	l.term = lead.Entry.Term
	state := l.node.machine.Freeze()
	l.keeper.begin(l.term, state)
	close(l.serving)
	l.node.log.Info("leader", "term", l.term, "leases", state.Leases, "took", time.Since(started).Round(time.Millisecond))
	l.keeper.run(l.ctx)
}

// proposeLead proposes the Lead of this term until it is applied or the
// leadership has ended. A second one in the same term does no harm.
func (l *leadership) proposeLead() (lease.Result, error) {
	clusterID := l.node.identity().ClusterID
	if clusterID == "" {
		clusterID = randomID()
	}
	lead := lease.Lead{Node: l.node.cfg.ID, Address: l.node.cfg.Address, ClusterID: clusterID}
	for {
		p := l.node.propose(lead, nil)
		select {
		case <-p.done:
		case <-l.ctx.Done():
			return lease.Result{}, l.ctx.Err()
		}
		if p.err == nil {
			return p.result, nil
		}
		if !errors.Is(p.err, errNothing) {
			l.node.log.Warn("the first entry of the term may be lost, proposing it again", "error", p.err)
		}
		select {
		case <-time.After(proposalRetry):
		case <-l.ctx.Done():
			return lease.Result{}, l.ctx.Err()
		}
	}
}

// propose is how the keeper proposes.
func (l *leadership) propose(c lease.Command, done func(applied bool)) {
	l.node.propose(c, func(p *proposal) { done(p.err == nil) })
}

// serve returns the leadership under which this node may serve a request, or
// says who can serve it. Just after an election it waits a moment, since the
// request would otherwise come back at once.
func (n *Node) serve(ctx context.Context) (*leadership, error) {
	l := n.leading.Load()
	if l == nil {
		return nil, n.elsewhere()
	}
	select {
	case <-l.serving:
		return l, nil
	default:
	}
	timer := time.NewTimer(servingTimeout)
	defer timer.Stop()
	select {
	case <-l.serving:
		return l, nil
	case <-l.ctx.Done():
		return nil, n.elsewhere()
	case <-timer.C:
		return nil, n.noQuorum()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
