package transport

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"leasehold/faults/lab"
)

// Config of a [Transport]. Address, Network, Self and Admit are required.
type Config struct {
	// Address is what peers and clients dial, host:port. Port 0 with an empty
	// Bind stands for whatever port was free; see [Transport.Addr].
	Address string
	// Bind is where to listen; empty means Address.
	Bind    string
	Network Network
	// Self returns this node's current Hello. It is called for every preamble
	// and every answer, from several goroutines, and must not block.
	Self func() Hello
	// Admit says whether the peer that sent this Hello may use the channel,
	// [ChannelRaft] or [ChannelProbe]. The text of an error is sent to the peer.
	// It is called from several goroutines and must not block.
	Admit func(channel string, from Hello) error
	// Lab has the faults of the links, in a lab. Else it is nil.
	Lab *lab.Board
	// Logger may be nil.
	Logger hclog.Logger
}

// Transport owns a node's address and all connections that come in there or
// that were dialled through it.
type Transport struct {
	cfg      Config
	listener net.Listener
	addr     address // advertised
	raft     *subListener
	http     *subListener
	warnings warnings
	links    *links // nil but in a lab

	// ctx ends when Close begins, and with it dials and pauses.
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // the accept loop, and a goroutine for each arrival and each probe

	mu     sync.Mutex // guards what follows, and is never held while waiting
	closed bool
	conns  map[*conn]struct{}
	// undecided holds, oldest first, each *conn that came in and has not yet said
	// what it is.
	undecided *list.List
}

// Open binds the address and starts to accept connections.
func Open(cfg Config) (*Transport, error) {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	bind := cfg.Bind
	if bind == "" {
		bind = cfg.Address
	}
	listener, err := cfg.Network.Listen(bind)
	if err != nil {
		return nil, bindError(bind, err)
	}
	t := &Transport{
		cfg: cfg, listener: listener, addr: advertised(cfg, listener),
		warnings: warnings{logger: cfg.Logger},
		conns:    make(map[*conn]struct{}), undecided: list.New(),
		links: newLinks(cfg.Lab, func() map[string]string { return cfg.Self().Listed }),
	}
	t.raft, t.http = newSubListener(t.addr), newSubListener(listener.Addr())
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	t.wg.Go(t.acceptLoop)
	return t, nil
}

func bindError(bind string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("cannot listen on %s: another process on this machine already does: %w", bind, err)
	}
	return fmt.Errorf("cannot listen on %s: %w", bind, err)
}

// advertised is the address of the configuration, unless that leaves the choice
// of the port to the system.
func advertised(cfg Config, l net.Listener) address {
	if _, port, err := net.SplitHostPort(cfg.Address); err == nil && port == "0" && cfg.Bind == "" {
		return address{l.Addr().Network(), l.Addr().String()}
	}
	return address{l.Addr().Network(), cfg.Address}
}

// Addr is the advertised address.
func (t *Transport) Addr() net.Addr { return t.addr }

// HTTP is the listener of the connections that clients make. Its Addr is the
// one that was bound.
func (t *Transport) HTTP() net.Listener { return t.http }

// Raft is the stream layer for raft.NetworkTransport. Its Addr is the
// advertised one. Closing it ends its Accept only; [Transport.Close] ends its
// connections.
func (t *Transport) Raft() raft.StreamLayer { return raftLayer{t.raft, t} }

// Close ends the listener, both listeners made from it and every connection
// that came in or was dialled, and waits until its goroutines have returned. It
// must not be called from Self or Admit. Further calls do nothing but wait.
func (t *Transport) Close() error {
	t.mu.Lock()
	first := !t.closed
	t.closed = true
	conns := t.conns
	t.conns = nil
	t.mu.Unlock()

	var err error
	if first {
		t.cancel(net.ErrClosed)
		t.raft.Close()
		t.http.Close()
		if err = t.listener.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
		for c := range conns {
			c.Conn.Close()
		}
		t.links.close()
	}
	t.wg.Wait()
	return err
}

// dialled takes charge of a connection that this node made. It fails with
// net.ErrClosed, and closes it, if the transport is closed.
func (t *Transport) dialled(raw net.Conn) (*conn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		raw.Close()
		return nil, net.ErrClosed
	}
	c := t.newConn(raw)
	t.conns[c] = struct{}{}
	return c, nil
}

// arrived takes charge of a connection that came in, and has f deal with it on
// a goroutine of its own. It says whether another one had to go for it.
//
// Of too many undecided connections the oldest goes: an honest client speaks at
// once, so it is the least likely to be one. Closing the newest instead would
// let 1,024 silent connections keep everybody out. One that has only just come is
// not closed: it may have spoken, and nobody has listened yet.
func (t *Transport) arrived(raw net.Conn, f func(*conn)) (crowded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		raw.Close()
		return false
	}
	now := time.Now()
	if t.undecided.Len() >= maxUndecided {
		oldest := t.undecided.Front().Value.(*conn)
		if crowded = now.Sub(oldest.since) >= honestDelay; crowded {
			t.decidedLocked(oldest)
			oldest.Conn.Close() // its own goroutine notices and does the rest
		}
	}
	c := t.newConn(raw)
	c.place = t.undecided.PushBack(c)
	t.conns[c] = struct{}{}
	t.wg.Go(func() { f(c) })
	return crowded
}

// decided notes that the connection has said what it is.
func (t *Transport) decided(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decidedLocked(c)
}

func (t *Transport) decidedLocked(c *conn) {
	if c.place != nil {
		t.undecided.Remove(c.place)
		c.place = nil
	}
}

// forget lets go of a connection that its user has closed.
func (t *Transport) forget(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decidedLocked(c)
	delete(t.conns, c)
}
