package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"leasehold/examples/child"
)

// stopTime is how long a replica has to end in order.
const stopTime = 10 * time.Second

// crew is the replicas of a job, and what they have told. One that ends is started
// again, as a supervisor would.
type crew struct {
	settings
	out      io.Writer
	begun    time.Time
	replicas map[string]*child.Child
	pids     []int // of all processes that there were

	happened chan event // what replicas tell, and the end of one
	closed   chan struct{}
	running  sync.WaitGroup

	seen []event
}

// ended is told by the crew of a replica.
const ended kind = "ended"

func newCrew(s settings, out io.Writer) (*crew, error) {
	c := &crew{
		settings: s, out: out, begun: time.Now(), replicas: map[string]*child.Child{},
		happened: make(chan event), closed: make(chan struct{}),
	}
	for n := range s.replicas {
		if err := c.start(fmt.Sprintf("r%d", n+1)); err != nil {
			return nil, fmt.Errorf("%w, %w", err, c.close())
		}
	}
	return c, nil
}

func (c *crew) start(name string) error {
	process, err := child.Start(func(line []byte) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			e = event{Replica: name, Why: fmt.Sprintf("%q: %v", line, err)}
		}
		c.tell(e)
	}, c.arguments(name)...)
	if err != nil {
		return err
	}
	c.replicas[name] = process
	c.pids = append(c.pids, process.PID())
	c.running.Go(func() {
		<-process.Ended()
		c.tell(event{Replica: name, Kind: ended})
	})
	return nil
}

// tell passes an event on to until. Once nobody listens any more it is dropped.
func (c *crew) tell(e event) {
	select {
	case c.happened <- e:
	case <-c.closed:
	}
}

// until gives the first event from now on that is as wanted. All that happens
// meanwhile is noted and printed.
func (c *crew) until(ctx context.Context, wanted func(event) bool) (event, error) {
	for {
		select {
		case e := <-c.happened:
			if err := c.note(e); err != nil {
				return e, err
			}
			if wanted(e) {
				return e, nil
			}
		case <-ctx.Done():
			return event{}, context.Cause(ctx)
		}
	}
}

func (c *crew) note(e event) error {
	c.seen = append(c.seen, e)
	switch e.Kind {
	case leads:
		c.say("%s has the lease, token %d", e.Replica, e.Token)
	case begins:
		c.say("%s begins slot %s%s", e.Replica, short(e.Slot), c.late(e.Slot))
	case refused:
		c.say("%s is refused, slot %s: %s", e.Replica, short(e.Slot), e.Why)
	case lost:
		c.say("%s: %s", e.Replica, e.Why)
	case done, allDone:
	case ended:
		return c.start(e.Replica)
	default:
		return fmt.Errorf("%s says what is not understood: %s", e.Replica, e.Why)
	}
	return nil
}

// late tells of a slot that it was missed and is caught up.
func (c *crew) late(text string) string {
	s, err := parseSlot(text)
	if by := time.Since(s.Time); err == nil && by > c.schedule.every {
		return fmt.Sprintf(", %.1f s late", by.Seconds())
	}
	return ""
}

func (c *crew) say(format string, args ...any) {
	fmt.Fprintf(c.out, "%6.2f s  %s\n", time.Since(c.begun).Seconds(), fmt.Sprintf(format, args...))
}

// short is the part of a slot that differs in a demonstration.
func short(slot string) string {
	if len(slot) < len(slotLayout) {
		return slot
	}
	return slot[len("2006-01-02T") : len(slotLayout)-1]
}

// close ends all replicas. One that runs a job finishes it first.
func (c *crew) close() error {
	close(c.closed)
	var all sync.WaitGroup
	errs := make(chan error, len(c.replicas))
	for name, process := range c.replicas {
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
