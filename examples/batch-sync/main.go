// Command batch-sync runs the same batch job in two ways, with the same pauses: with
// a lock in Redis, as it is usually done, and with a lease, a fencing token and an
// idempotency key. See README.md.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"leasehold/examples/nodes"
)

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	logging.Disable() // what the Redis client has to say comes as an error too
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "batch-sync:", err)
		os.Exit(1)
	}
}

// run makes the simulations that are asked for, one after the other.
func run(ctx context.Context, o options, out io.Writer) error {
	ways := []string{o.way}
	if o.way == "both" {
		ways = []string{"redis", "leasehold"}
	}
	if o.server == "" && o.way != "redis" {
		cluster, err := nodes.Start(3)
		if err != nil {
			return err
		}
		defer cluster.Close()
		o.server = strings.Join(cluster.Servers(), ",")
	}
	var results []result
	for _, way := range ways {
		r, err := runOne(ctx, o, way, out)
		if err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
		results = append(results, r)
	}
	fmt.Fprintf(out, "seed %d, %d workers, a tick every %v, TTL %v\n\n", o.seed, o.workers, o.tick, o.ttl)
	printTable(out, results)
	return nil
}

// runOne makes one simulation, with a database and an accounting API of its own.
func runOne(ctx context.Context, o options, name string, out io.Writer) (r result, err error) {
	job := new(job)
	log := logger(o, name, out)
	for id := range o.workers {
		job.workers = append(job.workers, newWorker(id, pauses{o.seed, o.every, o.ttl, o.crashes}, log))
	}
	if job.accounting, err = startAccounting(o.answer); err != nil {
		return r, err
	}
	defer job.accounting.close()
	if job.store, err = openStore(ctx, o.postgres); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, job.store.close()) }()

	way, stop, err := open(ctx, o, name, job)
	if err != nil {
		return r, err
	}
	defer stop()
	if err := errors.Join(simulate(ctx, o, way, job), way.close()); err != nil {
		return r, err
	}
	return job.result(ctx, name, o.batches)
}

// open prepares a way; stop ends what it runs on, if that is its own.
func open(ctx context.Context, o options, name string, job *job) (w way, stop func(), err error) {
	lock := "batch-sync/" + rand.Text() // on a server that is shared, nobody else's
	if name == "leasehold" {
		w, err := newLeaseholdWay(ctx, strings.Split(o.server, ","), lock, o.ttl, job)
		return w, func() {}, err
	}
	c, stop, err := openRedis(ctx, o.redis)
	return &redisWay{redis: c, lock: lock, ttl: o.ttl, job: job}, stop, err
}

// logger tells what happens, if that is wanted.
func logger(o options, way string, out io.Writer) func(string, ...any) {
	if !o.verbose {
		return func(string, ...any) {}
	}
	start := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(out, "%-9s %6.3fs  %s\n", way, time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
}
