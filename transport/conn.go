package transport

import (
	"container/list"
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"leasehold/faults"
)

// conn is a connection that ends with its transport, if not before.
type conn struct {
	net.Conn
	transport *Transport
	// first was read to find out what the connection is, and is still its
	// reader's to read. Only the goroutine that reads touches it.
	first []byte
	// place in the list of undecided connections, nil when not there. Guarded by
	// the transport's mutex.
	place *list.Element
	since time.Time // it came in
	// faulty is the Conn of a lab, else nil.
	faulty *faultyConn
}

// newConn takes charge of a connection of the network.
func (t *Transport) newConn(raw net.Conn) *conn {
	c := &conn{Conn: raw, transport: t, since: time.Now()}
	if t.links != nil {
		c.faulty = t.links.wrap(raw)
		c.Conn = c.faulty
	}
	return c
}

// isTo puts a connection that was dialled under the faults of its link.
func (c *conn) isTo(peer string) {
	if c.faulty != nil {
		c.faulty.bind(peer)
	}
}

// isFrom does the same when it is known who has sent what was read so far, and waits
// until that may pass.
func (c *conn) isFrom(ctx context.Context, peer string) error {
	if c.faulty == nil {
		return nil
	}
	c.faulty.bind(peer)
	if err := c.transport.links.pass(ctx, peer, faults.In); err != nil {
		return err
	}
	return c.SetDeadline(time.Now().Add(patience))
}

func (c *conn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite is there for net/http, which ends a connection with it so that the
// client can still read the answer.
func (c *conn) CloseWrite() error {
	return closeWrite(c.Conn)
}

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetWriteBuffer is there for streams that must notice when nobody reads them. A
// network without such a buffer notices anyway.
func (c *conn) SetWriteBuffer(bytes int) error {
	return setWriteBuffer(c.Conn, bytes)
}

func setWriteBuffer(c net.Conn, bytes int) error {
	if sized, ok := c.(interface{ SetWriteBuffer(bytes int) error }); ok {
		return sized.SetWriteBuffer(bytes)
	}
	return errors.ErrUnsupported
}

// SyscallConn is there for those who must know whether the other side is gone.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := c.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

func (c *conn) Close() error {
	c.transport.forget(c)
	return c.Conn.Close()
}

// during runs f, which reads from and writes to c, and closes c under it when
// ctx ends. If that happened the error is the cause of ctx, whatever f came to:
// the connection is gone. A deadline on c is neither needed nor left behind.
func during(ctx context.Context, c net.Conn, f func() error) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	err := f()
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// address is a net.Addr for an address that may be known by name only.
type address struct{ network, text string }

var _ net.Addr = address{}

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.text }
