package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
)

// report is what became of a demonstration.
type report struct {
	outcomes      []outcome
	events        []event
	kills, pauses int   // that have bitten
	pids          []int // of all processes that there were
	wanted        settings
}

// read reads the outcomes from the records.
func (r *report) read(ctx context.Context, s settings, records *records) error {
	r.wanted = s
	for n := range s.schedule.count {
		o, err := records.outcome(ctx, s.schedule.at(n))
		if err != nil {
			return err
		}
		r.outcomes = append(r.outcomes, o)
	}
	return nil
}

// refusals counts the late writes of a slot that were refused.
func (r *report) refusals(s slot) (n int) {
	for _, e := range r.events {
		if e.Kind == refused && e.Slot == s.String() {
			n++
		}
	}
	return n
}

// summary is the figures of all slots.
type summary struct {
	once, missed, twice int // slots with one result, none, several
	again               int // begun more than once
	refused             int // late writes
	overtaken           int // whose result is not by the last that began it
}

func (r *report) sum() (sum summary) {
	for _, o := range r.outcomes {
		switch {
		case o.results == 0:
			sum.missed++
		case o.results == 1:
			sum.once++
		default:
			sum.twice++
		}
		if o.attempts > 1 {
			sum.again++
		}
		if o.token != o.latest {
			sum.overtaken++
		}
		sum.refused += r.refusals(o.slot)
	}
	return sum
}

func (r *report) print(out io.Writer) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "SLOT\tREPLICA\tTOKEN\tATTEMPTS\tRESULTS\tLATE WRITES REFUSED\t")
	for _, o := range r.outcomes {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t\n", short(o.slot.String()), o.replica, o.token, o.attempts, o.results, r.refusals(o.slot))
	}
	w.Flush()
	sum := r.sum()
	fmt.Fprintf(out, "\n%d slots: %d done exactly once, %d missed, %d done twice; %d begun more than once\n",
		len(r.outcomes), sum.once, sum.missed, sum.twice, sum.again)
	fmt.Fprintf(out, "killed in the middle of a job: %d, paused: %d, late writes refused: %d\n", r.kills, r.pauses, sum.refused)
}

// verdict tells whether all was seen that should be.
func (r *report) verdict() error {
	switch sum := r.sum(); {
	case sum.missed+sum.twice+sum.overtaken > 0:
		return errors.New("the promise is broken: not every slot has one result, by the last that began it")
	case r.kills < r.wanted.kills || r.pauses < r.wanted.pauses:
		return errors.New("inconclusive: the slots were over before all faults had bitten; take more --slots")
	}
	return nil
}
