package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

// connKey is where the context of a request has its connection, a *clientConn.
type connKey struct{}

// clientConn is the connection of a client. It can be told to look, in the last
// moment before it sends something, whether the client still listens.
type clientConn struct {
	net.Conn
	raw    syscall.RawConn // nil where there is no kernel to ask
	ifHere atomic.Bool
}

var errHungUp = errors.New("the client has hung up")

// clientListener makes its connections clientConns.
type clientListener struct{ net.Listener }

func (l clientListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &clientConn{Conn: conn}
	if asker, ok := conn.(syscall.Conn); ok {
		c.raw, _ = asker.SyscallConn() // without it the context of a request must do
	}
	return c, nil
}

// Write sends p whole or, in the mode that sendIfHere sets, fails without having
// sent anything if the client has hung up.
func (c *clientConn) Write(p []byte) (int, error) {
	if c.ifHere.Load() && c.hasHungUp() {
		return 0, errHungUp
	}
	return c.Conn.Write(p)
}

// hasHungUp says whether the client has closed its direction of the connection.
func (c *clientConn) hasHungUp() bool {
	if c.raw == nil {
		return false
	}
	hungUp, _ := otherSide(c.raw)
	return hungUp
}

// isReset says whether the client takes nothing any more.
func (c *clientConn) isReset() bool {
	if c.raw == nil {
		return false
	}
	_, reset := otherSide(c.raw)
	return reset
}

// sendIfHere sets the mode of Write until restore is called.
func (c *clientConn) sendIfHere() (restore func()) {
	c.ifHere.Store(true)
	return func() { c.ifHere.Store(false) }
}

// lookEvery is how often a connection is looked at on which a client waits. Usually
// net/http tells at once that the client is gone, but not when bytes that nobody
// reads yet, such as another request, came before.
const lookEvery = time.Second

// whileHere gives the context of a request that waits. It also ends when the
// client is found to have hung up. The caller calls stop.
func whileHere(r *http.Request) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	c, ok := ctx.Value(connKey{}).(*clientConn)
	if !ok || c.raw == nil {
		return ctx, cancel
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
			if c.hasHungUp() {
				cancel()
				return
			}
		}
	}()
	return ctx, func() { cancel(); <-done }
}

// CloseWrite is there for net/http, which ends a connection with it so that the
// client can still read the answer.
func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// limitBuffer bounds what waits in the kernel. Without it a client that does not
// read is merely noticed later.
func (c *clientConn) limitBuffer(bytes int) {
	if sized, ok := c.Conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = sized.SetWriteBuffer(bytes)
	}
}
