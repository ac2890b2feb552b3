package torture

import (
	"context"
	"fmt"
	"io"
	"time"

	"leasehold/lease"
	"leasehold/torture/history"
)

// tellEvery is how often a line of progress is written.
const tellEvery = 4 * time.Second

// progress tells how a run goes on.
type progress struct {
	run        *run
	to         io.Writer
	operations int // that have been counted
	entries    int
	grants     map[uint64]bool // by token
	expiries   map[uint64]bool // by index
}

func newProgress(r *run) *progress {
	return &progress{run: r, to: r.cfg.Progress, grants: make(map[uint64]bool), expiries: make(map[uint64]bool)}
}

// tell writes lines until ctx ends.
func (p *progress) tell(ctx context.Context) {
	for sleep(ctx, tellEvery) {
		fmt.Fprintln(p.to, p.line())
	}
}

// line counts what is new.
func (p *progress) line() string {
	h := p.run.recorder.History()
	for ; p.operations < len(h.Operations); p.operations++ {
		if o := &h.Operations[p.operations]; o.Kind == history.Acquire && o.Outcome == history.OK {
			p.grants[o.Answer.Token] = true
		}
	}
	for ; p.entries < len(h.Entries); p.entries++ {
		e := &h.Entries[p.entries]
		if _, ok := e.Command.(lease.Expire); ok {
			p.expiries[e.Index] = true
		}
	}
	active := p.run.breaker.active()
	if active == "" {
		active = "no fault"
	}
	return fmt.Sprintf("%4.0fs  %6d operations  %5d grants  %4d expiries  term %-3d  %s",
		p.run.log.Now().Seconds(), p.operations, len(p.grants), len(p.expiries), p.run.witness.term(), active)
}
