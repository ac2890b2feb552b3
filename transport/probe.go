package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// Probe is a connection on which another node is asked for its [Hello] again
// and again.
//
// Each answer was sampled by the other node after it had received the question.
// Answers carry no number that would tell which question they belong to; the
// order on the connection does. So a question whose answer did not come makes
// the probe useless, or its late answer would be taken for that of the next.
type Probe struct {
	conn    *conn
	address string
	hello   Hello

	asking atomic.Bool // an Ask is under way; it alone may touch broken
	broken error       // what ended the probe, nil while it can be used
}

// errAsking is returned to the second of two who ask at the same time.
var errAsking = errors.New("the probe is being asked already")

// Probe connects to the node at address, within ctx and 10 seconds at most. The
// error is a *RefusedError if that node does not admit this one.
func (t *Transport) Probe(ctx context.Context, address string) (*Probe, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, hello, err := t.dial(ctx, address, kindProbe)
	if err != nil {
		return nil, err
	}
	return &Probe{conn: c, address: address, hello: hello}, nil
}

// Hello is what the node said when the probe connected.
func (p *Probe) Hello() Hello { return p.hello }

// Ask returns the node's Hello as it was at some moment between this call and
// its return. It takes as long as ctx allows. After any error, also when ctx
// ended just as the answer came, the probe is broken and every later Ask fails;
// connect anew. Only one Ask may run at a time; a second one fails and does the
// first no harm.
func (p *Probe) Ask(ctx context.Context) (Hello, error) {
	if !p.asking.CompareAndSwap(false, true) {
		return Hello{}, errAsking
	}
	defer p.asking.Store(false)
	if p.broken != nil {
		return Hello{}, fmt.Errorf("the probe of node at %s is over since: %w", p.address, p.broken)
	}
	hello, err := p.ask(ctx)
	if err != nil {
		p.broken = err
		p.conn.Close()
		return Hello{}, fmt.Errorf("no answer from node at %s: %w", p.address, err)
	}
	return hello, nil
}

func (p *Probe) ask(ctx context.Context) (Hello, error) {
	var answer frame
	err := during(ctx, p.conn, func() (err error) {
		if _, err := p.conn.Write([]byte{question}); err != nil {
			return err
		}
		answer, err = readFrame(p.conn)
		return err
	})
	if err != nil {
		return Hello{}, err
	}
	return answer.answered(p.address)
}

// Close ends the probe, and an Ask that is under way. Further calls do nothing.
func (p *Probe) Close() error {
	if err := p.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
