package work

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
)

// Dial makes a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// gate is where all connections of a player pass. While it is shut nothing comes
// and nothing goes, as in a process that is stopped.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond // shared by all connections; signalled when the rest changes
	shut    int        // by so many pauses
}

func newGate() *gate {
	g := &gate{}
	g.changed = sync.NewCond(&g.mu)
	return g
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut++
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut--
	g.changed.Broadcast()
}

// pass waits until the gate is open.
func (g *gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut > 0 {
		g.changed.Wait()
	}
}

// conns numbers connections, so that reads on the same one can be told.
var conns atomic.Uint64

// through makes dial pass the gate.
func (g *gate) through(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		g.pass()
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gatedConn{c, g, address + "#" + strconv.FormatUint(conns.Add(1), 10)}, nil
	}
}

// gatedConn is a connection of a player.
type gatedConn struct {
	net.Conn
	gate *gate
	name string
}

func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.pass() // what has arrived meanwhile is not seen before
	return n, err
}

func (c *gatedConn) Write(b []byte) (int, error) {
	c.gate.pass()
	return c.Conn.Write(b)
}
