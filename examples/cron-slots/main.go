// Cron-slots runs one job for each time slot on ten replicas, each a process of its
// own, and kills and pauses the one that runs it. Every slot ends with one result.
//
//	cron-slots            starts everything, breaks it, and prints what became of it
//	cron-slots replica    is one replica
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"leasehold/examples/child"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "cron-slots:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "replica" {
		s, err := parse(args[1:], true)
		if err != nil {
			return err
		}
		if child.IsThis() {
			var stop context.CancelFunc
			ctx, stop = child.Context(ctx)
			defer stop()
		}
		return s.replicate(ctx, out)
	}
	s, err := parse(args, false)
	if err != nil {
		return err
	}
	r, err := demonstrate(ctx, s, out)
	if err != nil {
		return err
	}
	r.print(out)
	return r.verdict()
}

// settings are the same for all replicas of a job, but for the name.
type settings struct {
	name     string // of this replica
	job      string
	servers  string // separated by commas, empty: nodes of our own
	sqlite   string // file
	postgres string // URL, instead of a file
	schedule schedule
	work     time.Duration // that the job of a slot takes
	ttl      time.Duration

	replicas, kills, pauses int // for the demonstration
}

// parse reads the command line.
func parse(args []string, replica bool) (settings, error) {
	var s settings
	first := ""
	f := flag.NewFlagSet("cron-slots", flag.ContinueOnError)
	f.StringVar(&s.servers, "server", os.Getenv("LEASEHOLD_SERVER"), "servers of leasehold, separated by commas; none: three nodes inside of this process")
	f.StringVar(&s.postgres, "postgres", "", "URL of a PostgreSQL to keep the results in; none: an SQLite file")
	f.DurationVar(&s.schedule.every, "every", time.Second, "time from slot to slot")
	f.IntVar(&s.schedule.count, "slots", 24, "number of slots; 0, for a replica: without end")
	f.DurationVar(&s.work, "work", 300*time.Millisecond, "how long the job of a slot takes")
	f.DurationVar(&s.ttl, "ttl", 2*time.Second, "TTL of the lease")
	if replica {
		f.StringVar(&s.name, "name", "", "of this replica, no other may have it")
		f.StringVar(&s.job, "job", "report", "name of the job, the same for all replicas")
		f.StringVar(&s.sqlite, "sqlite", "", "file to keep the results in")
		f.StringVar(&first, "first", "", "first slot, such as "+slotLayout)
	} else {
		f.IntVar(&s.replicas, "replicas", 10, "number of replicas")
		f.IntVar(&s.kills, "kills", 4, "how often to kill the replica that runs a job")
		f.IntVar(&s.pauses, "pauses", 2, "how often to pause it")
	}
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("unexpected %q", f.Arg(0))
	}
	if s.schedule.every < time.Millisecond || s.work < 0 {
		return s, errors.New("--every has to be 1ms or more, --work 0 or more")
	}
	if !replica {
		if s.schedule.count < 1 || s.replicas < 2 {
			return s, errors.New("a demonstration needs at least 1 slot and 2 replicas")
		}
		return s, nil
	}
	if s.name == "" || s.servers == "" || first == "" || s.sqlite == "" && s.postgres == "" {
		return s, errors.New("a replica needs --name, --server, --first, and --sqlite or --postgres")
	}
	var err error
	s.schedule.first, err = parseSlot(first)
	return s, err
}

// arguments are the command line of a replica.
func (s settings) arguments(name string) []string {
	return []string{
		"replica", "--name", name, "--job", s.job, "--server", s.servers, "--sqlite", s.sqlite, "--postgres", s.postgres,
		"--first", s.schedule.first.String(), "--every", s.schedule.every.String(), "--slots", fmt.Sprint(s.schedule.count),
		"--work", s.work.String(), "--ttl", s.ttl.String(),
	}
}

func (s settings) serverList() []string { return strings.Split(s.servers, ",") }
