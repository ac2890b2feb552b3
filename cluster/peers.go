package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"leasehold/transport"
)

// Peers are the other nodes as seen from this one. Each is asked for its Hello
// every askInterval, which tells who can be reached, and whenever a read needs to
// know that no newer leader exists.
//
// # Read confirmation
//
// A leader may answer from its own state only if no other node had become
// leader when the request arrived: that one may have granted and released what
// this one still shows. A newer leader has the votes of a majority, and each
// voter has that newer term. So: ask every voter for its term, after the request
// has come; if a majority (this node included) has no newer term, no newer
// leader existed when the request arrived.
//
// The question must really be asked after the request has come. Raft's own
// VerifyLeader also counts an acknowledgement of a heartbeat that was sent
// before, and one that has waited in a socket while this process was paused may
// be older than another leader's whole reign. Rounds of questions are therefore
// numbered by their start: a request that finds one under way takes part in the
// next. However many reads wait, one round is under way at a time.
const (
	askInterval  = 200 * time.Millisecond
	askTimeout   = 500 * time.Millisecond
	roundTimeout = time.Second
	// reachableFor is how long an answer counts as a sign of life.
	reachableFor = askInterval + askTimeout + 100*time.Millisecond
)

type peers struct {
	node *Node

	mu    sync.Mutex // guards what follows
	links map[string]*link
	next  *round // the one that new requests join; nil if none waits
	now   *round // the one under way
}

// round is one round of questions. Its result is set before done is closed.
type round struct {
	done   chan struct{}
	err    error
	term   uint64
	need   int             // votes still missing
	voters map[string]bool // that have not answered yet
	timer  *time.Timer     // ends it when too few answer
}

// link is the connection to one peer.
type link struct {
	peer   Peer
	wake   chan struct{} // buffered 1: a round has begun
	cancel context.CancelFunc

	mu    sync.Mutex
	heard time.Time // of its last answer; zero if never
	// lastIndex is the peer's last log index by its latest answer, earlier that by
	// the one before; 0 if there is none.
	lastIndex, earlier uint64
}

func newPeers(n *Node) *peers {
	return &peers{node: n, links: make(map[string]*link)}
}

// run follows the configuration until ctx ends, then waits for every link.
func (p *peers) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(askInterval)
	defer tick.Stop()
	for {
		p.update(ctx, &wg)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// update makes the links match the latest configuration.
func (p *peers) update(ctx context.Context, wg *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := make(map[string]bool)
	for _, s := range p.node.servers() {
		peer := Peer{string(s.ID), string(s.Address)}
		if peer.ID == p.node.cfg.ID {
			continue
		}
		wanted[peer.ID] = true
		if l := p.links[peer.ID]; l != nil && l.peer == peer {
			continue
		} else if l != nil {
			l.cancel()
		}
		linkCtx, cancel := context.WithCancel(ctx)
		l := &link{peer: peer, wake: make(chan struct{}, 1), cancel: cancel}
		p.links[peer.ID] = l
		wg.Go(func() { p.runLink(linkCtx, l) })
	}
	for id, l := range p.links {
		if !wanted[id] {
			l.cancel()
			delete(p.links, id)
		}
	}
}

// runLink asks one peer again and again until ctx ends.
func (p *peers) runLink(ctx context.Context, l *link) {
	defer l.cancel()
	var probe *transport.Probe
	defer func() {
		if probe != nil {
			probe.Close()
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-l.wake:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		r := p.now // taken before the question, so the answer is good for it
		p.mu.Unlock()

		hello, err := p.ask(ctx, l, &probe)
		if err == nil {
			l.mu.Lock()
			l.heard = time.Now()
			l.earlier, l.lastIndex = l.lastIndex, hello.LastIndex
			l.mu.Unlock()
			if r != nil {
				p.vote(r, l.peer.ID, hello)
			}
		} else if ctx.Err() == nil {
			p.node.log.Debug("a peer does not answer", "node", l.peer.ID, "error", err)
		}
		timer.Reset(askInterval)
	}
}

// ask puts one question, on the open probe if there is one.
func (p *peers) ask(ctx context.Context, l *link, probe **transport.Probe) (transport.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if *probe == nil {
		fresh, err := p.node.transport.Probe(ctx, l.peer.Address)
		if err != nil {
			return transport.Hello{}, err
		}
		*probe = fresh
	}
	hello, err := (*probe).Ask(ctx)
	if err == nil && hello.ID != l.peer.ID {
		err = fmt.Errorf("%s answers as %s", l.peer.Address, hello.ID)
	}
	if err != nil {
		(*probe).Close()
		*probe = nil
	}
	return hello, err
}

// confirm returns nil if no leader of a later term than term existed when it was
// called.
func (p *peers) confirm(ctx context.Context, term uint64) error {
	p.mu.Lock()
	r := p.next
	if r != nil && r.term != term { // this node lost its leadership and won another
		if r.term > term {
			p.mu.Unlock()
			return newerTerm(p.node.cfg.ID, r.term, term)
		}
		r.err = newerTerm(p.node.cfg.ID, term, r.term)
		close(r.done)
		r = nil
	}
	if r == nil {
		r = &round{done: make(chan struct{}), term: term}
		p.next = r
	}
	if p.now == nil {
		p.startLocked()
	}
	p.mu.Unlock()

	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), errNoMajority) {
			return p.node.noQuorum()
		}
		return ctx.Err()
	}
}

// startLocked begins the next round, if anybody waits for one.
func (p *peers) startLocked() {
	r := p.next
	p.now, p.next = r, nil
	if r == nil {
		return
	}
	// This node votes, too, and Raft may have made it follow a newer leader before
	// anybody here has noticed.
	if own := p.node.raft.CurrentTerm(); own > r.term {
		p.endLocked(r, newerTerm(p.node.cfg.ID, own, r.term))
		return
	}
	r.voters = make(map[string]bool)
	for _, s := range p.node.servers() {
		if s.Suffrage == raft.Voter {
			r.voters[string(s.ID)] = true
		}
	}
	r.need = len(r.voters)/2 + 1
	if r.voters[p.node.cfg.ID] {
		delete(r.voters, p.node.cfg.ID)
		r.need--
	}
	if r.need == 0 {
		p.endLocked(r, nil)
		return
	}
	for _, l := range p.links {
		select {
		case l.wake <- struct{}{}:
		default: // it has not woken since the last time and will see this round
		}
	}
	r.timer = time.AfterFunc(roundTimeout, func() {
		err := p.node.noQuorum()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.endLocked(r, err)
	})
}

// vote counts a peer's answer to a question that was asked during round r.
func (p *peers) vote(r *round, id string, hello transport.Hello) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.now != r || !r.voters[id] || !hello.Running:
		// Over, counted already, or its term is not to be had yet.
	case hello.Term > r.term:
		p.endLocked(r, newerTerm(id, hello.Term, r.term))
	default:
		delete(r.voters, id)
		if r.need--; r.need == 0 {
			p.endLocked(r, nil)
		}
	}
}

func newerTerm(id string, newer, term uint64) error {
	return &Unavailable{NoLeader, fmt.Sprintf("%s is in term %d: a newer leader than that of term %d may exist", id, newer, term)}
}

// endLocked ends the round under way, once, and begins the next.
func (p *peers) endLocked(r *round, err error) {
	if p.now != r {
		return
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	r.err = err
	close(r.done)
	p.startLocked()
}

// reachable returns the ids of the voters that answer, this node included, and
// how many voters there are.
func (p *peers) reachable() (ids []string, voters int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.node.servers() {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		id := string(s.ID)
		if id == p.node.cfg.ID {
			ids = append(ids, id)
		} else if l := p.links[id]; l != nil && l.reachable() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, voters
}

func (l *link) reachable() bool {
	heard := l.lastHeard()
	return heard >= 0 && heard < reachableFor
}

// lastHeard is how long ago the peer answered, -1 if it never has.
func (l *link) lastHeard() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard.IsZero() {
		return -1
	}
	return time.Since(l.heard)
}

// earlierIndex is the last log index that a peer had at least one question ago,
// 0 if that is not known.
func (p *peers) earlierIndex(id string) uint64 {
	p.mu.Lock()
	l := p.links[id]
	p.mu.Unlock()
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.earlier
}

// status lists the peers in the order of their ids.
func (p *peers) status() []PeerStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []PeerStatus
	for _, l := range p.links {
		all = append(all, PeerStatus{Peer: l.peer, Reachable: l.reachable(), LastHeard: l.lastHeard()})
	}
	slices.SortFunc(all, func(a, b PeerStatus) int { return strings.Compare(a.ID, b.ID) })
	return all
}
