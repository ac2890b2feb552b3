package transport

import (
	"context"
	"net"
	"sync"
	"time"

	"leasehold/faults"
	"leasehold/faults/lab"
)

// links are all the connections of a lab's node, with the faults that are on for the
// peers at their other ends. Nothing of this file and the next exists without a lab.
//
//	Raft, probes, HTTP ─▶ conn ─▶ faultyConn ─▶ TCP or Memory
//	                                 │ holds back what may not pass yet
//	                                 ▼
//	                               links ─▶ lab.Board: what is on
//
// A peer is known by the id in its Hello, and before that, when it is dialled, by
// its address: from the list of founders, or from an earlier Hello. Whoever speaks
// HTTP is faults.Clients.
type links struct {
	board  *lab.Board
	listed func() map[string]string // addresses of nodes by their ids
	forget func()                   // of the board

	mu    sync.Mutex // guards what follows
	conns map[*faultyConn]struct{}
	ids   map[string]string // of nodes, by address, from their Hellos
	ended bool
	wg    sync.WaitGroup // the goroutines of conns
}

// newLinks is nil without a board.
func newLinks(board *lab.Board, listed func() map[string]string) *links {
	if board == nil {
		return nil
	}
	l := &links{board: board, listed: listed, conns: make(map[*faultyConn]struct{}), ids: make(map[string]string)}
	l.forget = board.Watch(l.wake)
	return l
}

// wrap puts a connection under the faults. They pass it by until it is bound to a
// peer.
func (l *links) wrap(below net.Conn) *faultyConn {
	c := &faultyConn{Conn: below, links: l, born: time.Now()}
	c.changed = sync.NewCond(&c.mu)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return c
}

// gone is told by a connection that is closed below.
func (l *links) gone(c *faultyConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// start runs a goroutine of a connection, unless all of them are to end.
func (l *links) start(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.wg.Go(f)
	}
	return !l.ended
}

// wake makes every connection look at the faults again.
func (l *links) wake() {
	for _, c := range l.all() {
		c.wake()
	}
}

func (l *links) all() (list []*faultyConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		list = append(list, c)
	}
	return list
}

// close, of a lab, breaks what is left of every connection, and waits for their goroutines.
func (l *links) close() {
	if l == nil {
		return
	}
	l.forget()
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	for _, c := range l.all() {
		c.abort()
	}
	l.wg.Wait()
}

// met notes which node is at an address.
func (l *links) met(address, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[address] = id
}

// peerAt is the id of the node at an address, empty if that is not known: then only
// faults for all nodes touch it.
func (l *links) peerAt(address string) string {
	l.mu.Lock()
	id := l.ids[address]
	l.mu.Unlock()
	if id != "" {
		return id
	}
	for id, at := range l.listed() {
		if at == address {
			return id
		}
	}
	return ""
}

// dialling keeps a new connection to an address waiting as the packets of a handshake
// would have to, and says who is thought to be there.
func (l *links) dialling(ctx context.Context, address string) (peer string, err error) {
	if l == nil {
		return "", nil
	}
	peer = l.peerAt(address)
	if err := l.pass(ctx, peer, faults.Out); err != nil {
		return "", err
	}
	return peer, l.pass(ctx, peer, faults.In)
}

// pass waits until something that is sent now on a new connection has passed, or ctx
// ends.
func (l *links) pass(ctx context.Context, peer string, d faults.Direction) error {
	sent := parcel{sent: time.Now(), holds: l.holds(peer, d)}
	for {
		held, left := l.blocked(peer, d, time.Now()), time.Duration(faults.MaxDuration)
		if held == nil {
			if left = time.Until(sent.due()); left <= 0 {
				return nil
			}
			held = sent.heldBy()
		}
		timer := time.NewTimer(left)
		select {
		case <-held.Over():
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// blocked is a fault by which nothing passes now on a connection that is as old as
// that, nil if there is none. Only connections older than a jam are in it.
func (l *links) blocked(peer string, d faults.Direction, born time.Time) *lab.Active {
	for a := range l.board.OnLink(peer, d) {
		switch a.Fault.Kind {
		case faults.Cut:
			return a
		case faults.Jam:
			if !born.After(a.Begun) {
				return a
			}
		}
	}
	return nil
}

// retransmission is how long TCP waits before it sends again what was lost, at first.
// Each further time it waits twice as long, but no longer than maxRetransmission.
const (
	retransmission    = 200 * time.Millisecond
	maxRetransmission = 32 * retransmission
)

// holds are the delays of something that is sent now.
func (l *links) holds(peer string, d faults.Direction) (all []hold) {
	for a := range l.board.OnLink(peer, d) {
		by := time.Duration(0)
		switch f := a.Fault; f.Kind {
		case faults.Delay:
			by = f.Delay()
			if f.JitterMillis > 0 {
				by += time.Duration(l.board.Roll(int64(f.Jitter()) + 1))
			}
		case faults.Loss:
			// What is sent again after the fault has ended is not lost.
			for again := retransmission; l.board.Roll(100) < f.Percent && by < a.Remaining(); again = min(2*again, maxRetransmission) {
				by += again
			}
		}
		if by > 0 {
			all = append(all, hold{a, by})
		}
	}
	return all
}

// hold is why something comes later than it was sent, and by how much. One whose
// fault has healed does not count any more.
type hold struct {
	fault *lab.Active
	by    time.Duration
}

// parcel is what one write sent, or one read received: or the end of a connection.
type parcel struct {
	bytes []byte
	end   ending
	err   error // what the reader is told at the end
	sent  time.Time
	holds []hold
}

// ending says whether a parcel is the last.
type ending int

const (
	goesOn ending = iota
	closesWrite
	closes
)

// heldBy is the first fault that holds a parcel and has not healed.
func (p *parcel) heldBy() *lab.Active {
	for _, h := range p.holds {
		if !h.fault.Healed() {
			return h.fault
		}
	}
	return nil
}

// due is when a parcel may pass, by the faults that have not healed.
func (p *parcel) due() time.Time {
	due := p.sent
	for _, h := range p.holds {
		if !h.fault.Healed() {
			due = due.Add(h.by)
		}
	}
	return due
}
