package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"leasehold/examples/nodes"
)

// steady is how many requests the active copy answers between two faults.
const steady = 100

// demonstrate starts everything that is needed, breaks it as often as the settings
// say while clients send requests, and stops everything.
func (s demoSettings) demonstrate(ctx context.Context, out io.Writer) (r report, err error) {
	keep := func(closing func() error) { err = errors.Join(err, closing()) }
	if s.servers == "" {
		cluster, err := nodes.Start(3)
		if err != nil {
			return r, err
		}
		defer keep(cluster.Close)
		s.servers = strings.Join(cluster.Servers(), ",")
	}
	if s.data, err = os.MkdirTemp("", "leader-app-"); err != nil {
		return r, err
	}
	defer keep(func() error { return os.RemoveAll(s.data) })
	s.lease = "services/leader-app-" + time.Now().Format("20060102-150405.000") // one of its own for each run
	j, err := s.openJournal(ctx)
	if err != nil {
		return r, err
	}
	defer keep(j.close)
	fmt.Fprintf(out, "%d copies, %d clients, the TTL is %v\n", s.copies, s.clients, s.ttl)
	if r, err = s.perform(ctx, j, out); err != nil {
		return r, err
	}
	r.entries, err = j.entries(ctx)
	return r, err
}

// perform runs copies and clients.
func (s demoSettings) perform(ctx context.Context, j *journal, out io.Writer) (r report, err error) {
	patience := time.Duration(s.kills+s.pauses)*(5*s.ttl+10*time.Second) + 30*time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it takes too long, something hangs"))
	c, err := startCopies(ctx, s, out)
	l := newLoad(slices.Sorted(maps.Values(c.addresses)), c.succeed)
	enough := make(chan struct{})
	if err == nil {
		l.start(ctx, enough, s.clients)
		r, err = c.breakThings(ctx, j)
		close(enough)
		err = errors.Join(err, c.finish(ctx, l))
	}
	cancel()
	err = errors.Join(err, c.close())
	l.clients.Wait()
	r.addresses, r.successes, r.refusals, r.pids, r.wanted = c.addresses, c.successes, c.refusals, c.pids, s
	return r, err
}

// finish waits until each client has got an answer to what it has sent.
func (c *copies) finish(ctx context.Context, l *load) error {
	go func() {
		l.clients.Wait()
		c.tell(event{Kind: quiet})
	}()
	return c.until(ctx, func() bool { return c.quiet })
}

// breakThings kills and pauses the active copy in turns. A pause that had no write
// under way has shown nothing, and is made again.
func (c *copies) breakThings(ctx context.Context, j *journal) (r report, err error) {
	for r.kills < c.kills || r.pauses < c.pauses {
		if err := c.steady(ctx); err != nil {
			return r, err
		}
		fault := c.kill
		if r.kills == c.kills || r.pauses < c.pauses && r.kills > r.pauses {
			fault = c.pause
		}
		f, err := fault(ctx, j)
		if err != nil {
			return r, err
		}
		if f.successor != "" {
			r.faults = append(r.faults, f)
		}
		switch {
		case !f.bit:
		case f.pause:
			r.pauses++
		default:
			r.kills++
		}
	}
	return r, c.steady(ctx)
}

// steady waits until the active copy has answered some requests.
func (c *copies) steady(ctx context.Context) error {
	return c.until(ctx, func() bool {
		n := len(c.successes)
		return n >= steady && c.successes[n-steady].Token >= c.active.Token
	})
}

// kill kills the active copy.
func (c *copies) kill(ctx context.Context, _ *journal) (fault, error) {
	victim := c.active
	c.say("kill -9 %s", victim.Copy)
	f := fault{victim: victim.Copy, bit: true}
	c.processes[victim.Copy].Kill()
	err := c.successor(ctx, victim, &f)
	return f, err
}

// pause pauses the active copy until another has answered requests. It has bitten if
// a write that was under way comes late, and is refused.
func (c *copies) pause(ctx context.Context, j *journal) (fault, error) {
	victim := c.active
	process := c.processes[victim.Copy]
	defer process.Resume()
	f := fault{victim: victim.Copy, pause: true}
	for {
		process.Pause()
		// Its threads stop a moment later, and one of them may just have become the writer.
		if err := c.within(ctx, stopping, never); err != nil {
			return f, err
		}
		if j.writable(ctx) {
			break
		}
		process.Resume() // nobody else could write
		if err := c.within(ctx, stopping, never); err != nil || c.active != victim {
			return f, err
		}
	}
	c.say("pause %s", victim.Copy)
	before := c.refusals
	limited, cancel := context.WithTimeoutCause(ctx, 5*c.ttl, errWriter)
	defer cancel()
	err := c.successor(limited, victim, &f)
	process.Resume()
	c.say("resume %s, which knows nothing of it", victim.Copy)
	if errors.Is(err, errWriter) { // that moment was longer
		return f, nil
	}
	if err != nil {
		return f, err
	}
	err = c.within(ctx, time.Second, func() bool { return c.refusals > before })
	f.bit = c.refusals > before || c.unfenced // which refuses nothing
	return f, err
}

// stopping is how long a process takes to stop, with all its threads.
const stopping = 50 * time.Millisecond

var errWriter = errors.New("the copy was paused while it wrote, and nobody else can")

// successor waits until a copy with a later grant has answered a request, and
// measures for how long none was answered.
func (c *copies) successor(ctx context.Context, victim event, f *fault) error {
	err := c.until(ctx, func() bool {
		n := len(c.successes)
		return c.active.Token > victim.Token && c.successes[n-1].Token > victim.Token
	})
	if err != nil {
		return err
	}
	f.gap, f.successor = gap(c.successes, victim.Token), c.active.Copy
	c.say("answered again, after %d ms", f.gap.Milliseconds())
	return nil
}

func never() bool { return false }
