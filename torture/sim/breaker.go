package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/faults"
	"leasehold/faults/lab"
	"leasehold/torture/history"
	"leasehold/torture/work"
)

// restartAfter is how long after its end a node that has stopped by itself is started
// again, as a supervisor would do.
const restartAfter = 500 * time.Millisecond

// breaker plays a schedule: it does to the cluster what the steps say.
type breaker struct {
	cluster *clustertest.Cluster
	nodes   []string
	log     *work.Log

	steps sync.WaitGroup // that go on
	guard sync.WaitGroup // one supervisor for each start of a node

	mu      sync.Mutex      // guards what follows
	busy    map[string]bool // nodes that are being stopped, are down or are being started
	outages []outage
	skipped []string // steps that had nobody to be done to, and why
}

func newBreaker(c *clustertest.Cluster, nodes []string, log *work.Log) *breaker {
	return &breaker{cluster: c, nodes: nodes, log: log, busy: make(map[string]bool)}
}

// play returns when all steps are over.
func (b *breaker) play(ctx context.Context, s faults.Schedule) {
	for _, step := range s {
		timer := time.NewTimer(step.At() - b.log.Now())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		b.begin(ctx, step)
	}
	b.steps.Wait()
}

// begin does a step to the nodes that it is for.
func (b *breaker) begin(ctx context.Context, step faults.Step) {
	nodes, err := faults.Resolve(step.Node, b.leader(), b.nodes)
	if err != nil {
		b.skip(step, err.Error())
		return
	}
	for _, id := range nodes {
		b.steps.Go(func() { b.do(ctx, step, id) })
	}
}

func (b *breaker) skip(step faults.Step, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.skipped = append(b.skipped, fmt.Sprintf("%v %s %v: %s", step.At(), step.Node, step.Fault, why))
}

// leader is the node that leads in the highest term, empty if none does.
func (b *breaker) leader() (id string) {
	term := uint64(0)
	for _, n := range b.running() {
		if s := n.Status(); s.Role == cluster.Leader && s.Term > term {
			id, term = s.ID, s.Term
		}
	}
	return id
}

func (b *breaker) running() (nodes []*cluster.Node) {
	for _, id := range b.cluster.Running() {
		if n := b.cluster.Node(id); n != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// do does a step to one node, and returns when it is healed.
func (b *breaker) do(ctx context.Context, step faults.Step, id string) {
	from, done := b.log.Now(), false
	switch step.Kind {
	case faults.Kill:
		done = b.down(ctx, id, step.Duration(), b.cluster.Crash)
	case faults.Stop:
		done = b.down(ctx, id, step.Duration(), b.cluster.Stop)
	case faults.Pause:
		done = b.lab(ctx, id, pauseOf(step.Fault, b.nodes)...)
	default:
		done = b.lab(ctx, id, step.Fault)
	}
	if !done {
		b.skip(step, id+" was down")
		return
	}
	b.log.Add(history.Fault{
		From: from, To: b.log.Now(), Kind: string(step.Kind), Nodes: []string{id}, Peers: step.Peers, Detail: step.Fault.String(),
	})
}

// pauseOf is what others see of a process that is stopped, and what its lease clock
// does: a bubble has no signals.
func pauseOf(f faults.Fault, nodes []string) []faults.Fault {
	return []faults.Fault{
		{Kind: faults.Cut, Peers: everybody(nodes), DurationMillis: f.DurationMillis},
		{Kind: faults.ClockStall, DurationMillis: f.DurationMillis},
	}
}

// lab puts faults on the board of a node, and waits until they are over.
func (b *breaker) lab(ctx context.Context, id string, all ...faults.Fault) bool {
	board := b.cluster.Lab(id)
	if board == nil || b.cluster.Node(id) == nil {
		return false
	}
	var on []*lab.Active
	for _, f := range all {
		f.Peers = slices.DeleteFunc(slices.Clone(f.Peers), func(peer string) bool { return peer == id })
		if len(f.Peers) == 0 {
			f.Peers = nil
		}
		a, err := board.Begin(f)
		if err != nil {
			break // the node is on its way down
		}
		on = append(on, a)
	}
	from := b.log.Now()
	for _, a := range on {
		select {
		case <-a.Over():
		case <-ctx.Done():
			board.Heal(a.ID)
		}
		if a.Fault.Kind == faults.Cut {
			b.out(outage{from, b.log.Now(), id, a.Fault})
		}
	}
	return len(on) > 0
}

// down takes a node down, for some time.
func (b *breaker) down(ctx context.Context, id string, lasts time.Duration, how func(id string)) bool {
	if !b.claim(id) {
		return false
	}
	defer b.free(id)
	b.whileDown(ctx, id, lasts, how)
	return true
}

// whileDown takes a node down that the caller has claimed, and starts it again.
func (b *breaker) whileDown(ctx context.Context, id string, lasts time.Duration, how func(id string)) {
	how(id)
	from := b.log.Now()
	sleep(ctx, lasts)
	b.out(outage{from, b.log.Now(), id, faults.Fault{Kind: faults.Kill}})
	b.start(ctx, id)
}

func (b *breaker) out(o outage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outages = append(b.outages, o)
}

// report adds what only the whole of the faults tells.
func (b *breaker) report() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range quorumless(b.nodes, b.outages) {
		b.log.Add(f)
	}
}

// claim makes the caller the only one who stops and starts a node, if it runs.
func (b *breaker) claim(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy[id] || b.cluster.Node(id) == nil {
		return false
	}
	b.busy[id] = true
	return true
}

func (b *breaker) free(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.busy, id)
}

// start starts a node, and again as long as it cannot.
func (b *breaker) start(ctx context.Context, id string) {
	for {
		n, err := b.cluster.TryStart(id)
		if err == nil {
			b.supervise(ctx, n)
			return
		}
		b.log.Add(history.Fault{From: b.log.Now(), To: b.log.Now(), Kind: "no start", Nodes: []string{id}, Detail: err.Error()})
		time.Sleep(restartAfter)
	}
}

// supervise starts a node again when it stops by itself, as it does when its disk is
// full.
func (b *breaker) supervise(ctx context.Context, n *cluster.Node) {
	b.guard.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-n.Failed():
		}
		id := n.ID()
		for !b.claim(id) { // somebody else stops or starts it
			if sleep(ctx, restartAfter/5); ctx.Err() != nil {
				return
			}
		}
		defer b.free(id)
		if b.cluster.Node(id) != n {
			return // and has started it again
		}
		from := b.log.Now()
		b.whileDown(ctx, id, restartAfter, b.cluster.Crash)
		b.log.Add(history.Fault{From: from, To: b.log.Now(), Kind: "failed", Nodes: []string{id}, Detail: n.Err().Error()})
	})
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
