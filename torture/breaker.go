package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"leasehold/client"
	"leasehold/faults"
	"leasehold/httpapi/wire"
	"leasehold/torture/history"
	"leasehold/torture/work"
)

// restartAfter is how long after its end a node that has stopped by itself, as it does
// when its disk is full, is started again.
const restartAfter = 500 * time.Millisecond

// breaker plays a schedule: it does to the cluster what the steps say.
type breaker struct {
	cluster *cluster
	witness *witness
	log     *work.Log

	steps sync.WaitGroup // that go on
	guard sync.WaitGroup // one for each start of a node

	mu      sync.Mutex      // guards what follows
	applied faults.Schedule // with the nodes that were found
	skipped []string        // steps that could not be done, and why
	on      map[string]int  // what is on now, in words
	err     error           // the first that ends the run
	failed  chan struct{}   // closed with err
}

func newBreaker(c *cluster, w *witness, log *work.Log) *breaker {
	return &breaker{cluster: c, witness: w, log: log, on: make(map[string]int), failed: make(chan struct{})}
}

// play returns when all steps are over.
func (b *breaker) play(ctx context.Context, s faults.Schedule) {
	for _, step := range s {
		if !sleep(ctx, step.At()-b.log.Now()) {
			break
		}
		b.begin(ctx, step)
	}
	b.steps.Wait()
}

// begin does a step to the nodes that it is for.
func (b *breaker) begin(ctx context.Context, step faults.Step) {
	ids, err := faults.Resolve(step.Node, b.witness.leader(), b.cluster.ids())
	if err != nil {
		b.skip(step, err)
		return
	}
	group := &group{down: len(ids)}
	if majority := len(b.cluster.nodes)/2 + 1; len(ids) < majority || step.Kind != faults.Kill && step.Kind != faults.Stop {
		group = nil
	}
	for _, id := range ids {
		one := step
		one.Node, one.AtMillis = id, b.log.Now().Milliseconds()
		if slices.Contains(one.Peers, faults.Clients) || len(one.Peers) > 0 {
			one.Peers = b.others(id, one.Peers)
		}
		b.steps.Go(func() { b.do(ctx, one, group) })
	}
}

// others are the peers that there are, without the node itself.
func (b *breaker) others(id string, peers []string) []string {
	return slices.DeleteFunc(slices.Clone(peers), func(peer string) bool {
		return peer == id || peer != faults.Clients && b.cluster.node(peer) == nil
	})
}

// do does a step to one node, and returns when it is healed.
func (b *breaker) do(ctx context.Context, step faults.Step, g *group) {
	n, from := b.cluster.node(step.Node), b.log.Now()
	told := step.Node + " " + step.Fault.String()
	b.count(told, 1)
	defer b.count(told, -1)
	var err error
	switch step.Kind {
	case faults.Kill:
		err = b.down(ctx, step, n, n.kill, g)
	case faults.Stop:
		err = b.down(ctx, step, n, n.stop, g)
	case faults.Pause:
		err = b.pause(ctx, step, n)
	default:
		err = b.lab(ctx, step, n)
	}
	if err != nil {
		b.skip(step, err)
		return
	}
	b.log.Add(history.Fault{
		From: from, To: b.log.Now(), Kind: string(step.Kind), Nodes: []string{n.id}, Peers: step.Peers, Detail: step.Fault.String(),
	})
}

var errDown = errors.New("the node was down")

// down takes a node down for some time.
func (b *breaker) down(ctx context.Context, step faults.Step, n *node, how func(), g *group) error {
	if !n.claim() {
		g.left()
		return errDown
	}
	defer n.free()
	b.note(step)
	how()
	g.isDown(b.log.Now())
	sleep(ctx, step.Duration())
	if from, ok := g.comesBack(); ok {
		b.log.Add(history.Fault{From: from, To: b.log.Now(), Kind: "no quorum", NoQuorum: true})
	}
	b.start(ctx, n)
	return nil
}

// pause stops a process as a busy machine or a debugger may.
func (b *breaker) pause(ctx context.Context, step faults.Step, n *node) error {
	if !n.claim() {
		return errDown
	}
	defer n.free()
	p, _ := n.process()
	if p == nil {
		return errDown
	}
	if err := suspend(p); err != nil {
		return err
	}
	b.note(step)
	sleep(ctx, step.Duration())
	return resume(p)
}

// lab asks a node to do it to itself, and waits until it is over.
func (b *breaker) lab(ctx context.Context, step faults.Step, n *node) error {
	ask, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	begun, err := b.cluster.api.BeginFault(ask, n.address, wire.FaultRequest{Fault: step.Fault})
	if errors.Is(err, client.ErrUnknown) {
		b.note(step)
		b.outlast(ctx, step, n)
		return nil
	}
	if err != nil {
		return err
	}
	b.note(step)
	if !sleep(ctx, step.Duration()) {
		heal, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = b.cluster.api.HealFault(heal, n.address, begun.ID) // it heals by itself
	}
	return nil
}

// outlast waits until a fault is over of which it is not known whether it has begun:
// an earlier one may keep the request back, and let it through at its end.
func (b *breaker) outlast(ctx context.Context, step faults.Step, n *node) {
	for sleep(ctx, step.Duration()) {
		ask, cancel := context.WithTimeout(ctx, time.Second)
		on, err := b.cluster.api.Faults(ask, n.address)
		cancel()
		if p, _ := n.process(); p == nil || err == nil && len(on.Faults) == 0 {
			return
		}
	}
}

// start starts a node, and again as long as it cannot. One that never can ends the run.
func (b *breaker) start(ctx context.Context, n *node) {
	var err error
	for range 10 {
		if err = b.cluster.bring(ctx, n); err == nil {
			b.supervise(ctx, n)
			return
		}
		if ctx.Err() != nil || errors.Is(err, errStopped) {
			return
		}
		n.kill()
		b.log.Add(history.Fault{From: b.log.Now(), To: b.log.Now(), Kind: "no start", Nodes: []string{n.id}, Detail: err.Error()})
		sleep(ctx, restartAfter)
	}
	b.fail(fmt.Errorf("node %s does not start any more: %w", n.id, err))
}

// supervise starts a node again that stops by itself.
func (b *breaker) supervise(ctx context.Context, n *node) {
	_, ended := n.process()
	b.guard.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-ended:
		}
		n.mu.Lock()
		if n.busy || n.cmd != nil {
			n.mu.Unlock()
			return // it was stopped by us
		}
		n.busy = true
		n.mu.Unlock()
		defer n.free()
		from, why := b.log.Now(), n.output.lastLine()
		if sleep(ctx, restartAfter) {
			b.start(ctx, n)
		}
		b.log.Add(history.Fault{From: from, To: b.log.Now(), Kind: "failed", Nodes: []string{n.id}, Detail: why})
	})
}

func (b *breaker) note(step faults.Step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.applied = append(b.applied, step)
}

func (b *breaker) skip(step faults.Step, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.skipped = append(b.skipped, fmt.Sprintf("%v %s %v: %v", step.At(), step.Node, step.Fault, why))
}

func (b *breaker) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
		close(b.failed)
	}
}

func (b *breaker) count(what string, by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.on[what] += by; b.on[what] == 0 {
		delete(b.on, what)
	}
}

// active is what is on now, in words.
func (b *breaker) active() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for what := range b.on {
		all = append(all, what)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// group is nodes that go down together and leave no quorum. It knows from when until
// when all of them are down. A nil group knows nothing.
type group struct {
	mu      sync.Mutex
	down    int // how many are to go down yet
	from    time.Duration
	over    bool
	partial bool // one of them was not ours to take down
}

func (g *group) left() {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.partial = true
	}
}

func (g *group) isDown(at time.Duration) {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.down--
		g.from = max(g.from, at)
	}
}

// comesBack is called before one of them is started. The first call tells since when
// all have been down.
func (g *group) comesBack() (from time.Duration, ok bool) {
	if g == nil {
		return 0, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.over
	g.over = true
	return g.from, first && g.down == 0 && !g.partial
}

// sleep returns false if ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
