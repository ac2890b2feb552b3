package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"leasehold/examples/child"
)

// stopTime is how long a copy has to end in order.
const stopTime = 10 * time.Second

// copies is the copies of the service, each a process, and what they and the clients
// have told. One that ends is started again at the same address.
type copies struct {
	demoSettings
	out       io.Writer
	begun     time.Time
	processes map[string]*child.Child
	addresses map[string]string
	pids      []int // of all processes that there were

	told     chan event
	answered chan success
	closed   chan struct{}
	running  sync.WaitGroup

	active    event // the latest that leads
	quiet     bool  // the clients have ended
	refusals  int
	successes []success
}

// What the copies do not tell themselves.
const (
	ended kind = "ended" // a copy is no more
	quiet kind = "quiet" // the clients have ended
)

// startCopies starts the copies and waits until they listen and one is active.
func startCopies(ctx context.Context, s demoSettings, out io.Writer) (*copies, error) {
	c := &copies{
		demoSettings: s, out: out, begun: time.Now(), processes: map[string]*child.Child{}, addresses: map[string]string{},
		told: make(chan event), answered: make(chan success), closed: make(chan struct{}),
	}
	for n := range s.copies {
		name := string(rune('a' + n))
		c.addresses[name] = "127.0.0.1:0"
		if err := c.start(name); err != nil {
			return c, err
		}
	}
	return c, c.until(ctx, func() bool { return c.active.Token > 0 && c.listening() })
}

func (c *copies) start(name string) error {
	s := c.copySettings
	s.name, s.address = name, c.addresses[name]
	process, err := child.Start(func(line []byte) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			e = event{Copy: name, Why: fmt.Sprintf("%q: %v", line, err)}
		}
		c.tell(e)
	}, s.arguments()...)
	if err != nil {
		return err
	}
	c.processes[name] = process
	c.pids = append(c.pids, process.PID())
	c.running.Go(func() {
		<-process.Ended()
		c.tell(event{Copy: name, Kind: ended})
	})
	return nil
}

func (c *copies) listening() bool {
	for _, address := range c.addresses {
		if address == "127.0.0.1:0" {
			return false
		}
	}
	return true
}

// tell and succeed pass on what happens to until. Once nobody listens any more it is
// dropped.
func (c *copies) tell(e event) {
	select {
	case c.told <- e:
	case <-c.closed:
	}
}

func (c *copies) succeed(s success) {
	select {
	case c.answered <- s:
	case <-c.closed:
	}
}

// until notes and prints what happens until something is so.
func (c *copies) until(ctx context.Context, so func() bool) error {
	for !so() {
		select {
		case e := <-c.told:
			if err := c.note(e); err != nil {
				return err
			}
		case s := <-c.answered:
			c.successes = append(c.successes, s)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// within is until, but for some time only.
func (c *copies) within(ctx context.Context, d time.Duration, so func() bool) error {
	limited, cancel := context.WithTimeoutCause(ctx, d, errOver)
	defer cancel()
	if err := c.until(limited, so); !errors.Is(err, errOver) {
		return err
	}
	return nil
}

var errOver = errors.New("the time is over")

func (c *copies) note(e event) error {
	switch e.Kind {
	case listens:
		c.addresses[e.Copy] = e.Address
	case leads:
		c.active = e
		c.say("%s is active, token %d", e.Copy, e.Token)
	case refused:
		if c.refusals++; c.refusals == 1 {
			c.say("%s is refused: %s", e.Copy, e.Why)
		}
	case failed, lost:
		c.say("%s: %s", e.Copy, e.Why)
	case quiet:
		c.quiet = true
	case ended:
		return c.start(e.Copy)
	default:
		return fmt.Errorf("%s says what is not understood: %s", e.Copy, e.Why)
	}
	return nil
}

func (c *copies) say(format string, args ...any) {
	fmt.Fprintf(c.out, "%6.2f s  %s\n", time.Since(c.begun).Seconds(), fmt.Sprintf(format, args...))
}

// close ends all copies.
func (c *copies) close() error {
	close(c.closed)
	var all sync.WaitGroup
	errs := make(chan error, len(c.processes))
	for name, process := range c.processes {
		all.Go(func() {
			if err := process.Stop(stopTime); err != nil {
				errs <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	all.Wait()
	c.running.Wait()
	close(errs)
	return <-errs // the first one tells enough
}
