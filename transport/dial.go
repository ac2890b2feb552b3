package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// raftLayer is what raft.NetworkTransport runs over.
type raftLayer struct {
	*subListener
	transport *Transport
}

var _ raft.StreamLayer = raftLayer{}

// dialPause is how long a Raft dial rests before it tries a dead node again.
const dialPause = 50 * time.Millisecond

// Dial connects to a node's Raft within timeout, 10 seconds if that is 0. It
// uses all of that time: a node that is not there, or does not admit this one
// yet, is tried again until then. Raft would rest longer after each quick
// failure, up to ten seconds, and a node that comes back would be kept out of
// the quorum for that long.
func (l raftLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if timeout <= 0 {
		timeout = patience
	}
	ctx, cancel := context.WithTimeout(l.transport.ctx, timeout)
	defer cancel()
	var reason error // of the latest try that did not merely run out of time
	for {
		c, _, err := l.transport.dial(ctx, string(address), kindRaft)
		if err == nil {
			return c, nil
		}
		if reason == nil || ctx.Err() == nil {
			reason = err
		}
		pause := time.NewTimer(dialPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, reason
		}
	}
}

// dial connects to the node at address for the channel that kind stands for, and
// returns its answer to the preamble. The error is a *RefusedError if the node
// does not admit this one.
func (t *Transport) dial(ctx context.Context, address string, kind byte) (*conn, Hello, error) {
	c, hello, err := t.tryDial(ctx, address, kind)
	if refused := (*RefusedError)(nil); err != nil && !errors.As(err, &refused) {
		err = fmt.Errorf("cannot reach node at %s: %w", address, err)
	}
	return c, hello, err
}

func (t *Transport) tryDial(ctx context.Context, address string, kind byte) (*conn, Hello, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(net.ErrClosed) })()

	peer, err := t.links.dialling(ctx, address)
	if err != nil {
		return nil, Hello{}, err
	}
	raw, err := t.cfg.Network.Dial(ctx, address)
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx) // says more than "operation was canceled"
	}
	if err != nil {
		return nil, Hello{}, err
	}
	c, err := t.dialled(raw)
	if err != nil {
		return nil, Hello{}, err
	}
	c.isTo(peer)
	var answer frame
	err = during(ctx, c, func() (err error) {
		answer, err = t.introduce(c, kind)
		return err
	})
	if err != nil {
		c.Close()
		return nil, Hello{}, err
	}
	hello, err := answer.answered(address)
	if err != nil {
		c.Close()
		return nil, Hello{}, err
	}
	if c.faulty != nil {
		t.links.met(address, hello.ID)
		c.isTo(hello.ID)
	}
	return c, hello, nil
}

// introduce sends the preamble and reads the answer.
func (t *Transport) introduce(c *conn, kind byte) (frame, error) {
	preamble, err := newFrame(kind, t.cfg.Self())
	if err != nil {
		return frame{}, err
	}
	if _, err := c.Write(preamble.bytes()); err != nil {
		return frame{}, err
	}
	answer, err := readFrame(c)
	if errors.Is(err, io.EOF) {
		return frame{}, errors.New("it closed the connection without an answer")
	}
	return answer, err
}
