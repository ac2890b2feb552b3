package transport

import (
	"errors"
	"net"
	"sync"
	"time"
)

// subListener is a listener that is handed its connections by the transport.
type subListener struct {
	addr   net.Addr
	conns  chan net.Conn // unbuffered, so that none is stranded by Close
	closed chan struct{}
	once   sync.Once
}

var _ net.Listener = (*subListener)(nil)

func newSubListener(addr net.Addr) *subListener {
	return &subListener{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept returns the next connection; net.ErrClosed once the listener, or its
// transport, is closed.
func (l *subListener) Accept() (net.Conn, error) {
	if l.isClosed() {
		return nil, net.ErrClosed
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. Connections that were accepted stay open; the transport
// and its other listener go on.
func (l *subListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *subListener) Addr() net.Addr { return l.addr }

func (l *subListener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// hand passes a connection on, free of the deadlines that it was received
// under. It fails if nobody accepts it in time; the connection is then the
// caller's to close.
func (l *subListener) hand(c net.Conn) error {
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case l.conns <- c:
		return nil
	case <-l.closed:
		return net.ErrClosed
	case <-timer.C:
		return errors.New("nobody accepted it for " + patience.String())
	}
}
