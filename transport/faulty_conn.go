package transport

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"leasehold/faults"
)

// maxHeld is how many bytes of a direction are held back before its writer has to
// wait, as in a socket of TCP.
const maxHeld = 256 << 10

// faultyConn is a connection that holds back what the faults of its link do not let
// pass yet. It behaves as TCP does on a bad network: writes return before anything
// has arrived, until the buffer is full; nothing overtakes and nothing is lost; what
// was written before a Close arrives, and so does the end; deadlines hold.
//
// While no fault touches it, reads and writes go straight through. From the first
// fault of a direction on its bytes go by way of a queue and a goroutine:
//
//	Write ─▶ out ─▶ send    ─▶ the connection below     until out is empty again
//	Read  ◀─ in  ◀─ receive ◀─ the connection below     for good
//
// The connection below has the deadlines while the way is straight, and none while
// there is a queue.
type faultyConn struct {
	net.Conn // below
	links    *links
	born     time.Time

	mu      sync.Mutex // guards what follows; never held while waiting for the network
	changed *sync.Cond // signalled when any of it, or a fault, changes
	bound   bool       // to a peer
	peer    string     // its id, empty if that is not known

	in, out            queue
	receiving, sending bool // whose goroutine runs
	straight           int  // writes that go straight to the connection below
	sendError          error
	readDeadline       time.Time
	writeDeadline      time.Time
	halfClosed, closed bool // by its user
	aborted            bool // there is nothing below any more
}

var (
	_ net.Conn     = (*faultyConn)(nil)
	_ syscall.Conn = (*faultyConn)(nil)
)

// queue is what is held back of one direction.
type queue struct {
	parcels []*parcel
	bytes   int
}

func (q *queue) put(p *parcel) {
	q.parcels = append(q.parcels, p)
	q.bytes += len(p.bytes)
}

func (q *queue) first() *parcel {
	if len(q.parcels) == 0 {
		return nil
	}
	return q.parcels[0]
}

// bind says who is at the other end.
func (c *faultyConn) bind(peer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bound, c.peer = true, peer
}

func (c *faultyConn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed.Broadcast()
}

// touchedLocked says whether any fault is on for a direction.
func (c *faultyConn) touchedLocked(d faults.Direction) bool {
	if !c.bound || c.links.board.Quiet() {
		return false
	}
	for range c.links.board.OnLink(c.peer, d) {
		return true
	}
	return false
}

// parcelLocked is what is sent in a direction now.
func (c *faultyConn) parcelLocked(d faults.Direction, b []byte) *parcel {
	p := &parcel{bytes: bytes.Clone(b), sent: time.Now()}
	if c.bound {
		p.holds = c.links.holds(c.peer, d)
	}
	return p
}

// passesLocked says whether a parcel may pass now, and if not when to look again:
// the zero time stands for the next change.
func (c *faultyConn) passesLocked(p *parcel, d faults.Direction) (ok bool, look time.Time) {
	if c.bound && c.links.blocked(c.peer, d, c.born) != nil {
		return false, time.Time{}
	}
	due := p.due()
	return !time.Now().Before(due), due
}

// usableLocked says why its user can no longer read or write.
func (c *faultyConn) usableLocked(deadline time.Time) error {
	switch {
	case c.closed || c.aborted:
		return net.ErrClosed
	case !deadline.IsZero() && !time.Now().Before(deadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (c *faultyConn) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// Write returns when all of b is sent or held back. After an error some of it is.
func (c *faultyConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if !c.sending && !c.touchedLocked(faults.Out) {
		c.straight++
		c.mu.Unlock()
		n, err := c.Conn.Write(b)
		c.mu.Lock()
		c.straight--
		c.mu.Unlock()
		return n, err
	}
	defer c.mu.Unlock()
	written := 0
	for {
		err := c.usableLocked(c.writeDeadline)
		switch {
		case err != nil:
			return written, c.failed("write", err)
		case c.sendError != nil:
			return written, c.sendError
		case c.halfClosed:
			return written, c.failed("write", syscall.EPIPE)
		}
		if n := min(len(b)-written, maxHeld-c.out.bytes); n > 0 {
			c.sendLocked(c.parcelLocked(faults.Out, b[written:written+n]))
			written += n
		}
		if written == len(b) {
			return written, nil
		}
		waitUntil(c.changed, c.writeDeadline)
	}
}

// sendLocked puts something into the queue.
func (c *faultyConn) sendLocked(p *parcel) {
	c.out.put(p)
	c.changed.Broadcast()
	if !c.sending {
		_ = c.Conn.SetWriteDeadline(time.Time{}) // if it fails, so will the write
		c.sending = c.links.start(c.send)
	}
}

// send writes what is in the queue when it may pass, and ends when there is no more.
func (c *faultyConn) send() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.aborted {
		p := c.out.first()
		if p == nil {
			break
		}
		if ok, look := c.passesLocked(p, faults.Out); !ok {
			waitUntil(c.changed, look)
			continue
		}
		if c.closed {
			c.hurryLocked()
		}
		c.mu.Unlock()
		err := c.deliver(p)
		c.mu.Lock()
		c.out.parcels, c.out.bytes = c.out.parcels[1:], c.out.bytes-len(p.bytes)
		if err != nil && c.sendError == nil {
			c.sendError = err
		}
		if p.end == closes {
			c.aborted = true
		}
		c.changed.Broadcast()
	}
	c.sending = false
	_ = c.Conn.SetWriteDeadline(c.writeDeadline)
}

// hurryLocked bounds a write below whose user has gone: a peer that does not read
// must not keep it for ever.
func (c *faultyConn) hurryLocked() { _ = c.Conn.SetWriteDeadline(time.Now().Add(patience)) }

// deliver passes a parcel on.
func (c *faultyConn) deliver(p *parcel) error {
	switch p.end {
	case closes:
		c.links.gone(c)
		return c.Conn.Close()
	case closesWrite:
		return closeWrite(c.Conn)
	}
	_, err := c.Conn.Write(p.bytes)
	return err
}

// Read returns what has come through.
func (c *faultyConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	if !c.receiving && !c.touchedLocked(faults.In) {
		c.mu.Unlock()
		n, err := c.Conn.Read(b)
		c.mu.Lock()
		switch {
		case c.closed:
			c.mu.Unlock()
			return 0, c.failed("read", net.ErrClosed)
		case !c.touchedLocked(faults.In), n == 0 && errors.Is(err, os.ErrDeadlineExceeded):
			c.mu.Unlock()
			return n, err
		}
		// A fault has begun while it was waiting for this.
		c.receivedLocked(b[:n], err)
	}
	defer c.mu.Unlock()
	for {
		if err := c.usableLocked(c.readDeadline); err != nil {
			return 0, c.failed("read", err)
		}
		c.receiveLocked()
		look := time.Time{}
		if p := c.in.first(); p != nil {
			var ok bool
			if ok, look = c.passesLocked(p, faults.In); ok {
				return c.takeLocked(b)
			}
		}
		waitUntil(c.changed, earlier(c.readDeadline, look))
	}
}

// receiveLocked sees to it that the queue is filled from below.
func (c *faultyConn) receiveLocked() {
	if c.receiving || c.in.first() != nil && c.in.parcels[len(c.in.parcels)-1].end != goesOn {
		return
	}
	_ = c.Conn.SetReadDeadline(time.Time{})
	c.receiving = c.links.start(c.receive)
}

// receivedLocked puts what came from below into the queue.
func (c *faultyConn) receivedLocked(b []byte, err error) {
	if len(b) > 0 {
		c.in.put(c.parcelLocked(faults.In, b))
	}
	if err != nil {
		p := c.parcelLocked(faults.In, nil)
		p.end, p.err = closes, err
		c.in.put(p)
	}
	c.changed.Broadcast()
}

// takeLocked takes from the first parcel. The end stays where it is, for the next
// who reads.
func (c *faultyConn) takeLocked(b []byte) (int, error) {
	p := c.in.first()
	if p.end != goesOn {
		return 0, p.err
	}
	n := copy(b, p.bytes)
	p.bytes, c.in.bytes = p.bytes[n:], c.in.bytes-n
	if len(p.bytes) == 0 {
		c.in.parcels = c.in.parcels[1:]
	}
	c.changed.Broadcast() // there is room
	return n, nil
}

// receive reads from below until there is nothing more. After Close it goes on, so
// that what was written before still gets through, and keeps nothing.
func (c *faultyConn) receive() {
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.Conn.Read(buffer)
		c.mu.Lock()
		for c.in.bytes >= maxHeld && !c.closed && !c.aborted {
			c.changed.Wait()
		}
		if !c.closed {
			c.receivedLocked(buffer[:n], err)
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Close ends the connection for its user. What is held back, and the news of the
// end, follow when they may.
func (c *faultyConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.aborted {
		return c.failed("close", net.ErrClosed)
	}
	c.closed = true
	c.in = queue{}
	c.changed.Broadcast()
	if !c.sending && (c.straight > 0 || !c.touchedLocked(faults.Out)) {
		c.aborted = true
		c.links.gone(c)
		return c.Conn.Close()
	}
	p := c.parcelLocked(faults.Out, nil)
	p.end = closes
	c.sendLocked(p)
	c.hurryLocked() // what is being written now
	if !c.receiving {
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // frees who reads straight from below
	}
	return nil
}

// CloseWrite sends the end of this direction.
func (c *faultyConn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usableLocked(time.Time{}); err != nil {
		return c.failed("close", err)
	}
	if !c.sending && !c.touchedLocked(faults.Out) {
		return closeWrite(c.Conn)
	}
	c.halfClosed = true
	p := c.parcelLocked(faults.Out, nil)
	p.end = closesWrite
	c.sendLocked(p)
	return nil
}

// abort ends the connection below, whatever is held back.
func (c *faultyConn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.aborted {
		c.aborted = true
		_ = c.Conn.Close()
	}
	c.changed.Broadcast()
	c.links.gone(c)
}

func (c *faultyConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *faultyConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readDeadline = t
	c.changed.Broadcast()
	if c.receiving {
		return c.usableLocked(time.Time{})
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *faultyConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeDeadline = t
	c.changed.Broadcast()
	if c.sending {
		return c.usableLocked(time.Time{})
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetWriteBuffer is there for streams; see conn.
func (c *faultyConn) SetWriteBuffer(bytes int) error { return setWriteBuffer(c.Conn, bytes) }

// SyscallConn is for those who ask the kernel whether the other side is gone. While
// the news of that would be held back, the kernel is not asked.
func (c *faultyConn) SyscallConn() (syscall.RawConn, error) {
	below, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	raw, err := below.SyscallConn()
	if err != nil {
		return nil, err
	}
	return faultyRaw{raw, c}, nil
}

type faultyRaw struct {
	syscall.RawConn
	conn *faultyConn
}

func (r faultyRaw) Control(f func(fd uintptr)) error {
	r.conn.mu.Lock()
	touched := r.conn.touchedLocked(faults.In)
	r.conn.mu.Unlock()
	if touched {
		return nil
	}
	return r.RawConn.Control(f)
}
