package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"leasehold/torture/check"
	"leasehold/torture/history"
)

// noVerdict is the exit code when there is none; 0, 1 and 2 are verdicts.
const noVerdict = 3

type config struct {
	peer, endpoint string
	duration       time.Duration
	forget         time.Duration
	seed           uint64
}

func main() {
	debug.SetTraceback("crash") // a panic would exit with 2, which is a verdict
	flags := flag.NewFlagSet("torture-against", flag.ContinueOnError)
	var cfg config
	flags.StringVar(&cfg.peer, "peer", "", "etcd or redis")
	flags.StringVar(&cfg.endpoint, "endpoint", "", "host:port of the peer")
	flags.DurationVar(&cfg.duration, "duration", 30*time.Second, "how long the clients work")
	flags.DurationVar(&cfg.forget, "forget", 0, "after so long, delete ALL data of a Redis")
	flags.Uint64Var(&cfg.seed, "seed", 1, "of the work")
	if err := flags.Parse(os.Args[1:]); err != nil {
		os.Exit(noVerdict)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	report, err := run(ctx, cfg, os.Stderr)
	interrupted := ctx.Err() != nil
	stop()
	if err == nil {
		err = report.Write(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture-against:", err)
	}
	if err != nil || interrupted {
		os.Exit(noVerdict)
	}
	os.Exit(int(report.Verdict))
}

// run works on the peer and judges it.
func run(ctx context.Context, cfg config, progress io.Writer) (check.Report, error) {
	peer, err := open(cfg.peer, cfg.endpoint)
	if err != nil {
		return check.Report{}, err
	}
	defer peer.Close()
	ctx, cancel := context.WithTimeout(ctx, cfg.duration)
	defer cancel()
	if _, _, err := peer.Get(ctx, "is anybody there"); err != nil {
		return check.Report{}, err
	}
	fmt.Fprintf(progress, "%s at %s: %v of work, then the check\n", cfg.peer, cfg.endpoint, cfg.duration)
	to := history.NewRecorder(nil)
	to.Add(history.Run{Title: cfg.peer, Seed: cfg.seed})
	if cfg.forget > 0 {
		forgetful, ok := peer.(interface{ forget(context.Context) error })
		if !ok {
			return check.Report{}, errors.New("--forget is for redis")
		}
		time.AfterFunc(cfg.forget, func() { _ = forgetful.forget(ctx) })
	}
	play(ctx, peer, cfg.seed, to)
	return check.Check(to.History(), params()), nil
}

// params ask for what can be told without a log.
func params() check.Params {
	p := check.DefaultParams()
	p.Require = []string{"P3", "P4", "P5b", "P8", "P9", "P10"}
	p.Need = check.Need{Operations: 100, Stale: 1, BeliefOverlap: time.Millisecond}
	return p
}
