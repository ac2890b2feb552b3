package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"leasehold/torture"
	"leasehold/torture/check"
	"leasehold/torture/sets"
)

// exitNoVerdict is the exit code of torture if it comes to no verdict. The verdicts are
// 0, 1 and 2, so the usual codes for errors and usage would be taken for one.
const exitNoVerdict = 3

type tortureFlags struct {
	seed     uint64
	nodes    int
	duration time.Duration
	faults   string
	schedule string
	out      string
	port     int
	blackBox bool
}

func (p *program) tortureCommand() *urfave.Command {
	f, d := new(tortureFlags), torture.DefaultConfig()
	return &urfave.Command{
		Name:      "torture",
		Usage:     "put a cluster of real processes to the test, and judge it",
		UsageText: "leasehold torture [--nodes 3|5] [--duration 40s] [--faults SET] [--seed N] [--out FOLDER]\nleasehold torture --schedule FILE\nleasehold torture check FOLDER…",
		Description: "Starts nodes on this machine, lets clients work on them while they are killed, paused, cut off and more, and holds\n" +
			"what the clients saw against what leasehold promises. The last 15 s are without faults. What is known of the run is\n" +
			"left in a folder, with a report for people. docs/VERIFICATION.md says how to read it. Peers such as etcd and Redis\n" +
			"are judged by examples/torture-against.\n\n" +
			"Fault sets:\n" + setList() +
			"\nExit codes: 0 all that was checked holds · 1 a promise was broken · 2 inconclusive · 3 the tool itself failed",
		Flags: []urfave.Flag{
			&urfave.Uint64Flag{Name: "seed", Destination: &f.seed, DefaultText: "drawn", Usage: "`SEED` of all chance in the faults and in the work of the clients"},
			&urfave.IntFlag{Name: "nodes", Value: d.Nodes, Destination: &f.nodes, Usage: "3 or 5"},
			&urfave.DurationFlag{Name: "duration", Value: d.Duration, Destination: &f.duration, Usage: "how long the clients work, as `DURATION`"},
			&urfave.StringFlag{Name: "faults", Value: d.Faults, Destination: &f.faults, Usage: "a fault `SET`"},
			&urfave.StringFlag{Name: "schedule", Destination: &f.schedule, Usage: "play the faults of this `FILE` instead, such as the schedule.jsonl of another run"},
			&urfave.StringFlag{Name: "out", Destination: &f.out, DefaultText: "a new one in the system's temporary folder", Usage: "an empty or new `FOLDER` for what is known of the run"},
			&urfave.IntFlag{Name: "port", Destination: &f.port, DefaultText: "free ones", Usage: "`PORT` of the first node, the others have those that follow"},
			&urfave.BoolFlag{Name: "black-box", Destination: &f.blackBox, Usage: "check the answers without the log as well; else one seed in ten does"},
		},
		Action:      func(c *urfave.Context) error { return p.torture(c, f) },
		Subcommands: []*urfave.Command{p.tortureCheckCommand()},
	}
}

func setList() string {
	var b strings.Builder
	for _, s := range append(sets.All(), sets.None) {
		fmt.Fprintf(&b, "  %-10s  %s\n", s.Name, s.About)
	}
	return b.String()
}

// torture makes a run.
func (p *program) torture(c *urfave.Context, f *tortureFlags) error {
	// A panic would end the process with 2, which is a verdict. This way it aborts.
	debug.SetTraceback("crash")
	if c.NArg() > 0 {
		return usagef(c, "there is no command %q", c.Args().First())
	}
	cfg, err := p.tortureConfig(c, f)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "torture: %d nodes, about %v, seed %d\n", cfg.Nodes, cfg.Takes().Round(time.Second), cfg.Seed)
	out, err := torture.Run(c.Context, cfg)
	if err != nil {
		return noVerdict(err)
	}
	return p.tellVerdict(out)
}

func (p *program) tortureConfig(c *urfave.Context, f *tortureFlags) (torture.Config, error) {
	cfg := torture.DefaultConfig()
	cfg.Seed, cfg.Nodes, cfg.Duration, cfg.Faults, cfg.Out, cfg.Port = f.seed, f.nodes, f.duration, f.faults, f.out, f.port
	cfg.Version, cfg.Progress = version(), p.stderr
	if !c.IsSet("seed") {
		cfg.Seed = 1 + rand.Uint64N(1_000_000)
	}
	cfg.BlackBox = f.blackBox || cfg.Seed%10 == 0
	command := fmt.Sprintf("leasehold torture --seed %d --nodes %d --duration %v", cfg.Seed, cfg.Nodes, cfg.Duration)
	if f.schedule == "" {
		command += " --faults " + cfg.Faults
	} else {
		schedule, err := p.readSchedule(f.schedule)
		if err != nil {
			return cfg, usagef(c, "--schedule: %v", err)
		}
		if c.IsSet("faults") {
			return cfg, usagef(c, "--faults and --schedule exclude each other")
		}
		cfg.Schedule = schedule
		command += " --schedule " + f.schedule
	}
	if f.blackBox {
		command += " --black-box"
	}
	cfg.Command = command
	var err error
	if cfg.Program, err = os.Executable(); err != nil {
		return cfg, noVerdict(err)
	}
	if cfg.Out == "" {
		if cfg.Out, err = os.MkdirTemp("", fmt.Sprintf("leasehold-torture-%d-", cfg.Seed)); err != nil {
			return cfg, noVerdict(err)
		}
	}
	return cfg, acceptable(c, cfg.Validate())
}

// tellVerdict writes the verdict, and is the error with its code.
func (p *program) tellVerdict(out *torture.Outcome) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", out.Report.Verdict, out.Report.Run.Command)
	err := out.WriteText(&b)
	if err == nil {
		_, err = fmt.Fprint(p.stdout, b.String())
	}
	if err != nil {
		return noVerdict(err)
	}
	if out.Report.Verdict == check.Holds {
		return nil
	}
	return &exitStatus{code: int(out.Report.Verdict)}
}

// noVerdict makes an error exit with a code that is not a verdict.
func noVerdict(err error) error {
	var signalled *signalError
	if errors.As(err, &signalled) || errors.Is(err, context.Canceled) {
		return err
	}
	return &exitStatus{code: exitNoVerdict, cause: err}
}

func (p *program) tortureCheckCommand() *urfave.Command {
	var blackBox bool
	var out string
	return &urfave.Command{
		Name:      "check",
		Usage:     "judge again what is known of a run, without running anything",
		UsageText: "leasehold torture check [--black-box] FOLDER|HISTORY…",
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "black-box", Destination: &blackBox, Usage: "check the answers without the log as well"},
			&urfave.StringFlag{Name: "report", Destination: &out, Usage: "write the report of the one run to this `FILE`"},
		},
		Action: func(c *urfave.Context) error {
			debug.SetTraceback("crash")
			if c.NArg() == 0 || out != "" && c.NArg() > 1 {
				return usagef(c, "the folder of a run is expected, or several; with --report one")
			}
			worst := check.Holds
			for _, path := range c.Args().Slice() {
				o, err := torture.Recheck(path, blackBox)
				if err != nil {
					return noVerdict(err)
				}
				if out != "" {
					if err := o.WriteReportFile(out); err != nil {
						return noVerdict(err)
					}
				}
				var status *exitStatus
				if err := p.tellVerdict(o); err != nil && !errors.As(err, &status) {
					return err
				} else if status != nil && status.cause != nil {
					return status
				}
				worst = worse(worst, o.Report.Verdict)
			}
			if worst == check.Holds {
				return nil
			}
			return &exitStatus{code: int(worst)}
		},
	}
}

// worse of two verdicts: violated, then inconclusive.
func worse(a, b check.Verdict) check.Verdict {
	if a == check.IsViolated || b == check.IsViolated {
		return check.IsViolated
	}
	return max(a, b)
}
