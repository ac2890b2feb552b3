package transport

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// memoryWindow is how many bytes a direction of a connection holds before its
// writer has to wait.
const memoryWindow = 64 << 10

// memoryListener holds the connections that were made and not yet accepted.
type memoryListener struct {
	memory  *Memory
	host    *memoryHost
	addr    address
	changed *sync.Cond // signalled when the rest changes

	// Guarded by memory.mu.
	closed  bool
	backlog []*memoryConn
}

var _ net.Listener = (*memoryListener)(nil)

func (l *memoryListener) Accept() (net.Conn, error) {
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	for !l.closed && len(l.backlog) == 0 {
		l.changed.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: l.addr.network, Addr: l.addr, Err: net.ErrClosed}
	}
	c := l.backlog[0]
	l.backlog = l.backlog[1:]
	return c, nil
}

func (l *memoryListener) Close() error {
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	if l.closed {
		return &net.OpError{Op: "close", Net: l.addr.network, Addr: l.addr, Err: net.ErrClosed}
	}
	l.closeLocked()
	return nil
}

func (l *memoryListener) Addr() net.Addr { return l.addr }

func (l *memoryListener) offerLocked(c *memoryConn) {
	l.backlog = append(l.backlog, c)
	l.changed.Broadcast()
}

func (l *memoryListener) closeLocked() {
	l.closed = true
	l.host.listener = nil
	for _, c := range l.backlog {
		c.closeLocked()
	}
	l.backlog = nil
	l.changed.Broadcast()
}

// memoryConn is one end of a connection.
type memoryConn struct {
	memory        *Memory
	local, remote address
	changed       *sync.Cond // shared by both ends; signalled when the rest changes

	// Guarded by memory.mu. Each pipe is the in of one end and the out of the other.
	in, out                     *pipe
	closed                      bool
	readDeadline, writeDeadline time.Time
}

var _ net.Conn = (*memoryConn)(nil)

// connectLocked makes both ends of a connection.
func (m *Memory) connectLocked(from, to string) (near, far *memoryConn) {
	there := &pipe{link: m.linkLocked(from, to)}
	back := &pipe{link: m.linkLocked(to, from)}
	changed := sync.NewCond(&m.mu)
	near = &memoryConn{memory: m, local: memoryAddress(from), remote: memoryAddress(to), changed: changed, in: back, out: there}
	far = &memoryConn{memory: m, local: near.remote, remote: near.local, changed: changed, in: there, out: back}
	m.connected[near], m.connected[far] = struct{}{}, struct{}{}
	return near, far
}

func (c *memoryConn) Read(b []byte) (int, error) {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	for {
		now := time.Now()
		if err := c.usable(now, c.readDeadline); err != nil {
			return 0, c.failed("read", err)
		}
		c.in.settle(now)
		if n := c.in.take(b); n > 0 || len(b) == 0 {
			c.changed.Broadcast() // there is room for the writer
			return n, nil
		}
		if c.in.ended {
			return 0, io.EOF
		}
		waitUntil(c.changed, earlier(c.readDeadline, c.in.next()))
	}
}

// Write returns when all of b is on its way. After an error some of it is.
func (c *memoryConn) Write(b []byte) (int, error) {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	written := 0
	for {
		now := time.Now()
		if err := c.usable(now, c.writeDeadline); err != nil {
			return written, c.failed("write", err)
		}
		// That the peer closed is learned when its end has come through.
		if c.in.settle(now); c.in.ended {
			return written, c.failed("write", syscall.EPIPE)
		}
		if n := c.out.put(b[written:], now); n > 0 {
			written += n
			c.changed.Broadcast()
		}
		if written == len(b) {
			return written, nil
		}
		waitUntil(c.changed, earlier(c.writeDeadline, c.in.next()))
	}
}

func (c *memoryConn) Close() error {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if c.closed {
		return c.failed("close", net.ErrClosed)
	}
	c.closeLocked()
	return nil
}

// closeLocked sends the end after what was written. The other end, if it is
// open, goes on reading until it gets there.
func (c *memoryConn) closeLocked() {
	if c.closed {
		return
	}
	c.closed = true
	c.out.end(time.Now())
	delete(c.memory.connected, c)
	c.changed.Broadcast()
}

func (c *memoryConn) LocalAddr() net.Addr  { return c.local }
func (c *memoryConn) RemoteAddr() net.Addr { return c.remote }

func (c *memoryConn) SetDeadline(t time.Time) error {
	return c.set(func() { c.readDeadline, c.writeDeadline = t, t })
}

func (c *memoryConn) SetReadDeadline(t time.Time) error {
	return c.set(func() { c.readDeadline = t })
}

func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	return c.set(func() { c.writeDeadline = t })
}

func (c *memoryConn) set(change func()) error {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if c.closed {
		return c.failed("set", net.ErrClosed)
	}
	change()
	c.changed.Broadcast() // who waits must wait for the new moment
	return nil
}

func (c *memoryConn) usable(now, deadline time.Time) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case !deadline.IsZero() && !now.Before(deadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (c *memoryConn) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: c.local.network, Source: c.local, Addr: c.remote, Err: err}
}

// pipe is one direction of a connection. Guarded by the mutex of its Memory.
type pipe struct {
	link    *link
	arrived []byte  // ready to be read
	ended   bool    // all that was sent has arrived, and so has the end
	flying  []chunk // in the order of sending
	held    int     // bytes in both
}

// chunk is what one write sent, or the end of the connection.
type chunk struct {
	bytes []byte // nil for the end
	at    time.Time
}

// put sends as much of b as there is room for, and returns how much that was.
func (p *pipe) put(b []byte, now time.Time) int {
	b = b[:min(len(b), memoryWindow-p.held)]
	if len(b) > 0 {
		p.held += len(b)
		p.flying = append(p.flying, chunk{append([]byte(nil), b...), now.Add(p.link.delay)})
	}
	return len(b)
}

func (p *pipe) end(now time.Time) {
	p.flying = append(p.flying, chunk{nil, now.Add(p.link.delay)})
}

// settle moves what is due to the other side, unless the link is cut. Nothing
// overtakes: a chunk sent after a delay was shortened waits for those before.
func (p *pipe) settle(now time.Time) {
	for !p.link.cut && len(p.flying) > 0 && !now.Before(p.flying[0].at) {
		p.arrived = append(p.arrived, p.flying[0].bytes...)
		p.ended = p.flying[0].bytes == nil
		p.flying = p.flying[1:]
	}
}

func (p *pipe) take(b []byte) int {
	n := copy(b, p.arrived)
	p.arrived = p.arrived[n:]
	p.held -= n
	return n
}

// next is when something will arrive that has not yet; zero if that cannot be
// told.
func (p *pipe) next() time.Time {
	if p.link.cut || len(p.flying) == 0 {
		return time.Time{}
	}
	return p.flying[0].at
}

// earlier of two moments, of which the zero time never comes.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
