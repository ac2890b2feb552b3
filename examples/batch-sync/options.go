package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// options of a simulation.
type options struct {
	way  string // redis, leasehold or both
	seed uint64

	workers, batches, arrivals int
	tick, ttl, answer          time.Duration
	every                      int
	crashes, verbose           bool
	limit                      time.Duration

	redis, postgres, server string // empty: one in this process
}

// parse reads the command line. It writes its errors, and the help, to stderr.
func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("batch-sync", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.way, "way", "both", "how the workers exclude each other: redis, leasehold or both")
	f.Uint64Var(&o.seed, "seed", 11, "what the pauses are drawn from")
	f.IntVar(&o.workers, "workers", 10, "number of workers")
	f.IntVar(&o.batches, "batches", 30, "number of batches; a quarter is there at the beginning")
	f.IntVar(&o.arrivals, "arrivals", 2, "batches that arrive at each tick after that")
	f.DurationVar(&o.tick, "tick", 100*time.Millisecond, "how often the timer of every worker fires")
	f.DurationVar(&o.ttl, "ttl", 200*time.Millisecond, "TTL of the lock and of the lease; a pause takes 2 to 3 of it")
	f.DurationVar(&o.answer, "answer", 15*time.Millisecond, "how long the accounting API takes to answer")
	f.IntVar(&o.every, "pause-every", 20, "a worker is paused at one of its first 3 batches, and again after so many; 0 is never")
	f.BoolVar(&o.crashes, "crashes", false, "half of the pauses of a process are crashes instead")
	f.BoolVar(&o.verbose, "verbose", false, "tell what happens")
	f.DurationVar(&o.limit, "limit", time.Minute, "how long each way may take")
	f.StringVar(&o.redis, "redis", "", "`URL` of a Redis server, instead of one in this process")
	f.StringVar(&o.postgres, "postgres", "", "`URL` of a PostgreSQL database, instead of a temporary SQLite file")
	f.StringVar(&o.server, "server", "", "`addresses` of a leasehold cluster, host:port with commas, instead of three nodes in this process")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	} else {
		err = o.validate()
	}
	if err != nil {
		fmt.Fprintln(stderr, "batch-sync:", err)
	}
	return o, err
}

func (o options) validate() error {
	switch {
	case o.way != "both" && o.way != "redis" && o.way != "leasehold":
		return fmt.Errorf("-way is %q, it must be redis, leasehold or both", o.way)
	case o.workers < 1 || o.batches < 1 || o.arrivals < 1:
		return errors.New("-workers, -batches and -arrivals must be at least 1")
	case o.every < 0 || o.answer < 0:
		return errors.New("-pause-every and -answer must not be negative")
	case o.tick <= 0 || o.limit <= 0:
		return errors.New("-tick and -limit must be more than 0")
	case o.ttl < 100*time.Millisecond:
		return fmt.Errorf("-ttl is %v, it must be at least 100ms", o.ttl)
	}
	return nil
}
