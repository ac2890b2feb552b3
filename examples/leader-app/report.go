package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// fault is what was done to the active copy, and what followed.
type fault struct {
	victim, successor string
	pause             bool // otherwise a kill
	bit               bool
	gap               time.Duration // in which no request was answered
}

// gap is the time between the last answer under a token and the first one under a
// later one.
func gap(successes []success, token uint64) time.Duration {
	var last, first time.Time
	for _, s := range successes {
		switch {
		case s.Token <= token && !s.Repeated && s.at.After(last):
			last = s.at
		case s.Token > token && (first.IsZero() || s.at.Before(first)):
			first = s.at
		}
	}
	return first.Sub(last)
}

// report is what became of a demonstration.
type report struct {
	faults        []fault
	kills, pauses int // that have bitten
	refusals      int
	entries       []Entry // of the journal
	successes     []success
	addresses     map[string]string // of the copies
	pids          []int             // of all processes that there were
	wanted        demoSettings
}

// summary is the figures of a demonstration.
type summary struct {
	passedOn int            // answered by another copy than the one that was asked
	repeated int            // answered with what an earlier try has done
	failed   map[string]int // tries, by what came of them

	lost   int // answered, but not in the journal
	twice  int // in the journal more than once
	extra  int // in the journal, but never answered
	wrong  int // entries that do not continue the one before
	differ int // entries that differ from what was answered
}

func (r *report) sum() summary {
	sum := summary{failed: map[string]int{}}
	written := map[string][]Entry{}
	for i, e := range r.entries {
		written[e.Key] = append(written[e.Key], e)
		var before Entry
		if i > 0 {
			before = r.entries[i-1]
		}
		if e.Total != before.Total+e.Amount || e.Token < before.Token {
			sum.wrong++
		}
	}
	for _, s := range r.successes {
		entries := written[s.key]
		delete(written, s.key)
		switch {
		case len(entries) == 0:
			sum.lost++
		case len(entries) > 1:
			sum.twice++
		case entries[0] != s.Entry:
			sum.differ++
		}
		if s.Repeated {
			sum.repeated++
		}
		if s.asked != r.addresses[s.Leader] {
			sum.passedOn++
		}
		for what, n := range s.failed {
			sum.failed[what] += n
		}
	}
	sum.extra = len(written)
	return sum
}

func (r *report) print(out io.Writer) {
	sum := r.sum()
	var failed []string
	for _, what := range slices.Sorted(maps.Keys(sum.failed)) {
		failed = append(failed, fmt.Sprintf("%s: %d", what, sum.failed[what]))
	}
	fmt.Fprintf(out, "\nfaults: %d kills, %d pauses; late writes refused: %d\n", r.kills, r.pauses, r.refusals)
	for _, f := range r.faults {
		what := "killed"
		if f.pause {
			what = "paused"
		}
		if !f.bit {
			what += " (with no write under way)"
		}
		fmt.Fprintf(out, "  %s %s, %s took over, nothing answered for %d ms\n", f.victim, what, f.successor, f.gap.Milliseconds())
	}
	fmt.Fprintf(out, "requests answered with 200: %d, of them passed on by another copy: %d, done by an earlier try: %d\n",
		len(r.successes), sum.passedOn, sum.repeated)
	fmt.Fprintf(out, "tries that were made again: %s\n", strings.Join(failed, ", "))
	fmt.Fprintf(out, "journal: %d entries; answered and lost: %d, twice: %d, never answered: %d, out of order: %d\n",
		len(r.entries), sum.lost, sum.twice, sum.extra, sum.wrong)
}

// verdict tells whether all was seen that should be.
func (r *report) verdict() error {
	sum := r.sum()
	if sum.lost+sum.twice+sum.extra+sum.wrong+sum.differ > 0 {
		return errors.New("the promise is broken: the journal is not what was answered")
	}
	return nil
}
