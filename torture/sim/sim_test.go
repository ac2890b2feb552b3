package sim

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold/faults"
	"leasehold/torture/check"
)

var (
	seeds    = flag.Int("seeds", 0, "simulate so many seeds, from -seed on; 0, and no seed, means as many as fit into -for")
	lasting  = flag.Duration("for", 20*time.Second, "begin no other seed after this time, if neither -seeds nor -seed is given")
	seed     = flag.Uint64("seed", 0, "simulate this seed alone, or from it on")
	minutes  = flag.Int("minutes", 0, "virtual minutes of each simulation; 0 means 5, or 1 if neither -seeds nor -seed is given")
	withThem = flag.Bool("faults", true, "let faults happen")
	schedule = flag.String("schedule", "", "play the schedule in this `FILE` instead of that of the seed")
	shrink   = flag.Duration("shrink", 2*time.Minute, "look for a smaller schedule for so long")
	out      = flag.String("out", "", "write what failed into this `FOLDER`; empty means a new one")
)

// Clusters keep all that they promise under many faults at once, with clients that
// pause, repeat themselves and come too late: one simulation for each seed.
func TestSim(t *testing.T) {
	first, least, bounded := max(*seed, 1), max(*seeds, 1), *seeds == 0 && *seed == 0 && *schedule == ""
	if bounded {
		least = 2 // with three nodes and with five
	}
	if *minutes == 0 {
		*minutes = 5
		if bounded {
			*minutes = 1
		}
	}
	a := &all{t: t, begun: time.Now(), planned: *seeds}
	for a.done < least || bounded && time.Since(a.begun) < *lasting {
		s := first + uint64(a.done)
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) { a.simulate(t, configOf(t, s)) })
		a.done++
	}
	a.judge()
}

// configOf a seed: odd ones have three nodes, even ones five.
func configOf(t *testing.T, seed uint64) Config {
	t.Helper()
	c := Config{Seed: seed, Nodes: 5 - 2*int(seed%2), Duration: time.Duration(*minutes) * time.Minute}
	switch {
	case *schedule != "":
		file, err := os.Open(*schedule)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if c.Schedule, err = faults.ReadSchedule(file); err != nil {
			t.Fatalf("%s: %v", *schedule, err)
		}
	case *withThem:
		c.Schedule = Generate(seed, NodeIDs(c.Nodes), c.Duration)
	}
	return c
}

// all is what the simulations of all seeds have shown.
type all struct {
	t       *testing.T
	begun   time.Time
	planned int // seeds
	done    int
	sum     check.Evidence
}

// simulate simulates one seed.
func (a *all) simulate(t *testing.T, c Config) {
	begun := time.Now()
	o := Run(t, c)
	ran := time.Since(begun)
	v := Judge(o)
	a.add(v.Evidence)
	t.Logf("%v in %v, judged in %v: %s; %d steps had nobody to be done to", c.Duration, ran.Round(time.Millisecond), (time.Since(begun) - ran).Round(time.Millisecond), v.Evidence, len(o.Skipped))
	if v.Report.Verdict == check.Holds {
		return
	}
	var text strings.Builder
	_ = v.Write(&text) // a strings.Builder takes all
	t.Error(text.String())
	if v.Report.Verdict == check.IsViolated {
		a.keep(t, o, v)
	}
}

func (a *all) add(e check.Evidence) {
	a.sum.Operations += e.Operations
	a.sum.Installed += e.Installed
	a.sum.Snapshots += e.Snapshots
	a.sum.Terms += e.Terms
	a.sum.Expiries += e.Expiries
	done, took := a.done+1, time.Since(a.begun)
	if left := a.planned - done; a.planned > 5 && (done == 3 || done%50 == 0) {
		fmt.Printf("%d of %d seeds in %v; the rest will take about %v\n", done, a.planned, took.Round(time.Second), (took / time.Duration(done) * time.Duration(left)).Round(time.Second))
	}
}

// judge asks of all seeds together what one alone may not have.
func (a *all) judge() {
	if a.done > 1 && *withThem && a.sum.Installed == 0 {
		a.t.Errorf("inconclusive: in %d simulations no snapshot was installed from a leader", a.done)
	}
	a.t.Logf("%d seeds: %d operations, %d terms, %d expiries, %d snapshots, %d of them installed from a leader", a.done, a.sum.Operations, a.sum.Terms, a.sum.Expiries, a.sum.Snapshots+a.sum.Installed, a.sum.Installed)
}

// keep writes down what failed, makes its schedule smaller, and says how to run it
// again.
func (a *all) keep(t *testing.T, o Outcome, v Verdict) {
	folder := *out
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "leasehold-sim-"); err != nil {
			t.Error(err)
			return
		}
	}
	name := func(what string) string { return filepath.Join(folder, fmt.Sprintf("seed-%d-%s", o.Config.Seed, what)) }
	write(t, name("report.txt"), v.Write)
	write(t, name("history.jsonl"), func(w io.Writer) error { return writeHistory(w, o.History) })
	write(t, name("schedule.jsonl"), o.Config.Schedule.Write)
	t.Logf("looking for a smaller schedule; to run this one again: %s", again(o.Config, name("schedule.jsonl")))
	small := shrunk(t, o.Config, v.Violated())
	if len(small) < len(o.Config.Schedule) {
		write(t, name("smaller.jsonl"), small.Write)
		t.Logf("%d of %d steps are enough: %s", len(small), len(o.Config.Schedule), again(o.Config, name("smaller.jsonl")))
	}
}

// shrinkAgain is how often a schedule is tried that does not fail at once.
const shrinkAgain = 2

// shrunk is the smallest schedule found that violates one of the same properties.
func shrunk(t *testing.T, c Config, ids []string) faults.Schedule {
	until := time.Now().Add(*shrink)
	return Shrink(c.Schedule, func() bool { return time.Now().Before(until) }, func(s faults.Schedule) bool {
		c.Schedule = s
		for range shrinkAgain {
			if Judge(Run(t, c)).Shares(ids) {
				return true
			}
		}
		return false
	})
}

// again is the command that runs a simulation again.
func again(c Config, file string) string {
	path, err := filepath.Abs(file)
	if err != nil {
		path = file
	}
	return fmt.Sprintf("go test ./torture/sim -run TestSim -v -seed %d -minutes %d -schedule %s", c.Seed, int(c.Duration/time.Minute), path)
}

func write(t *testing.T, path string, to func(io.Writer) error) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Error(err)
		return
	}
	if err := errors.Join(to(file), file.Close()); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}
