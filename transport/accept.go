package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"leasehold/faults"
)

const (
	// patience is how long a connection may take to say what it is, a peer to
	// read an answer, and a listener to accept what is ready for it.
	patience = 10 * time.Second
	// maxUndecided bounds the connections that have not said what they are, though
	// each has at least honestDelay: when thousands come at once, a busy machine
	// needs a moment to read what they have said long ago.
	maxUndecided = 1024
	honestDelay  = time.Second

	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// acceptLoop takes connections in until the transport is closed. It does
// nothing with them itself, so none can hold up the next.
func (t *Transport) acceptLoop() {
	pause := time.Duration(0)
	for {
		raw, err := t.listener.Accept()
		switch {
		case err == nil:
			pause = 0
			if t.arrived(raw, t.receive) {
				t.warnings.warn("too many connections that say nothing, closed the oldest", "limit", maxUndecided)
			}
			continue
		case t.ctx.Err() != nil:
			return
		case errors.Is(err, net.ErrClosed):
			// Nobody can reach this node any more. Those who wait for connections
			// must learn of it.
			t.cfg.Logger.Error("the listener is gone", "address", t.addr, "error", err)
			t.raft.Close()
			t.http.Close()
			return
		}
		// Out of file descriptors, most likely. That passes.
		pause = min(max(2*pause, minAcceptPause), maxAcceptPause)
		t.cfg.Logger.Error("cannot accept a connection, trying again", "address", t.addr, "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-t.ctx.Done():
			return
		}
	}
}

// receive finds out what a connection is and passes it on, or closes it.
func (t *Transport) receive(c *conn) {
	err := t.route(c)
	if err == nil {
		return
	}
	c.Close()
	switch {
	case t.ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
		// Port scanners, health checks and browsers that connect in advance.
		t.cfg.Logger.Debug("connection ended early", "from", c.RemoteAddr(), "error", err)
	default:
		t.warnings.warn("connection not taken", "from", c.RemoteAddr(), "error", err)
	}
}

// route passes a connection on. After an error it is the caller's to close;
// else it is somebody else's.
func (t *Transport) route(c *conn) error {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(c, first); err != nil {
		return err
	}
	c.first = first
	if first[0] != magic[0] {
		t.decided(c)
		if err := c.isFrom(t.ctx, faults.Clients); err != nil {
			return err
		}
		return t.http.hand(c)
	}
	preamble, err := readFrame(c)
	if err != nil {
		return err
	}
	t.decided(c)
	return t.routePeer(c, preamble)
}

// routePeer answers a preamble and passes the connection on to its channel.
func (t *Transport) routePeer(c *conn, preamble frame) error {
	if err := c.isFrom(t.ctx, preamble.sender()); err != nil {
		return err
	}
	channel, err := t.admit(preamble)
	if err != nil {
		return errors.Join(err, t.refuse(c, err))
	}
	if err := t.sayHello(c); err != nil {
		return err
	}
	if channel == ChannelRaft {
		return t.raft.hand(c)
	}
	return t.answerProbes(c)
}

// admit says which channel a preamble gets, or why none.
func (t *Transport) admit(preamble frame) (channel string, err error) {
	if err := preamble.checkVersion(); err != nil {
		return "", err
	}
	if channel, err = preamble.channel(); err != nil {
		return "", err
	}
	from, err := preamble.hello()
	if err != nil {
		return "", err
	}
	if channel == ChannelRaft && t.raft.isClosed() {
		return "", errors.New("Raft has stopped on this node")
	}
	return channel, t.cfg.Admit(channel, from)
}

func (t *Transport) refuse(c *conn, reason error) error {
	f, err := newRefusal(reason, t.cfg.Self())
	if err != nil {
		return err
	}
	_, err = c.Write(f.bytes())
	return err
}

// sayHello answers a preamble or a question that has been read. The Hello is
// sampled here, so it is newer than what it answers.
func (t *Transport) sayHello(c *conn) error {
	f, err := newFrame(kindOK, t.cfg.Self())
	if err != nil {
		return err
	}
	_, err = c.Write(f.bytes())
	return err
}

// answerProbes answers questions until the peer goes away; how long it lets the
// connection rest is its own affair. It is closed on return.
func (t *Transport) answerProbes(c *conn) error {
	defer c.Close()
	for {
		if err := c.SetDeadline(time.Time{}); err != nil {
			return err
		}
		var asked [1]byte
		if _, err := io.ReadFull(c, asked[:]); err != nil {
			return err
		}
		if asked[0] != question {
			return fmt.Errorf("byte %#02x on a probe connection, where only a question can be", asked[0])
		}
		// A peer that does not read its answers must not keep us here.
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if err := t.sayHello(c); err != nil {
			return err
		}
	}
}

// warnings logs at most one warning a second: a peer that is refused comes back
// many times a second, and a scanner must not fill the disk.
type warnings struct {
	logger hclog.Logger

	mu      sync.Mutex // guards what follows
	last    time.Time
	skipped int // since last
}

func (w *warnings) warn(message string, keysAndValues ...any) {
	w.mu.Lock()
	now := time.Now()
	if !w.last.IsZero() && now.Sub(w.last) < time.Second {
		w.skipped++
		w.mu.Unlock()
		return
	}
	skipped := w.skipped
	w.last, w.skipped = now, 0
	w.mu.Unlock()
	if skipped > 0 {
		keysAndValues = append(keysAndValues, "more_not_shown", skipped)
	}
	w.logger.Warn(message, keysAndValues...)
}
