// Leader-app is an HTTP service in several copies, of which one is active. The others
// pass requests on to it, and one of them takes over when it is gone.
//
//	leader-app --address 127.0.0.1:9001 --server 127.0.0.1:8001 --data data/app
//	leader-app demo
//
// The first form runs one copy; the second starts three, and kills and pauses the
// active one while it sends requests to all of them.
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
		fmt.Fprintln(os.Stderr, "leader-app:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "demo" {
		s, err := parseDemo(args[1:])
		if err != nil {
			return err
		}
		r, err := s.demonstrate(ctx, out)
		if err != nil {
			return err
		}
		r.print(out)
		return r.verdict()
	}
	s, err := parseCopy(args)
	if err != nil {
		return err
	}
	if child.IsThis() {
		var stop context.CancelFunc
		ctx, stop = child.Context(ctx)
		defer stop()
	}
	return s.serve(ctx, out)
}

// copySettings of one copy of the service.
type copySettings struct {
	name    string
	address string
	servers string // of leasehold, separated by commas
	lease   string // of the active copy
	data    string // folder that all copies share
	ttl     time.Duration
	work    time.Duration

	unfenced bool
}

func (s *copySettings) define(f *flag.FlagSet) {
	f.StringVar(&s.servers, "server", os.Getenv("LEASEHOLD_SERVER"), "servers of leasehold, separated by commas")
	f.DurationVar(&s.ttl, "ttl", 2*time.Second, "TTL of the lease")
	f.DurationVar(&s.work, "work", 20*time.Millisecond, "how long a request takes before it writes")
	f.BoolVar(&s.unfenced, "unfenced", false, "write without the check of the token, to see what goes wrong")
}

func parseCopy(args []string) (s copySettings, err error) {
	f := flag.NewFlagSet("leader-app", flag.ContinueOnError)
	f.StringVar(&s.name, "name", "", "of this copy; empty: its address")
	f.StringVar(&s.address, "address", "127.0.0.1:0", "to listen on; others reach this copy by it")
	f.StringVar(&s.lease, "lease", "services/leader-app", "name of the lease of the active copy")
	f.StringVar(&s.data, "data", "", "folder that all copies share")
	s.define(f)
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 || s.servers == "" || s.data == "" {
		return s, errors.New("a copy needs --server and --data, and nothing else; the other form is: leader-app demo")
	}
	return s, nil
}

// arguments are the command line of a copy.
func (s copySettings) arguments() []string {
	return []string{
		"--name", s.name, "--address", s.address, "--server", s.servers, "--lease", s.lease, "--data", s.data,
		"--ttl", s.ttl.String(), "--work", s.work.String(), fmt.Sprintf("--unfenced=%v", s.unfenced),
	}
}

func (s copySettings) serverList() []string { return strings.Split(s.servers, ",") }

// demoSettings of the demonstration.
type demoSettings struct {
	copySettings
	copies, clients, kills, pauses int
}

func parseDemo(args []string) (s demoSettings, err error) {
	f := flag.NewFlagSet("leader-app demo", flag.ContinueOnError)
	f.IntVar(&s.copies, "copies", 3, "number of copies")
	f.IntVar(&s.clients, "clients", 6, "how many requests are under way at a time")
	f.IntVar(&s.kills, "kills", 3, "how often to kill the active copy")
	f.IntVar(&s.pauses, "pauses", 1, "how often to pause it")
	s.define(f)
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 || s.copies < 2 || s.copies > 26 || s.clients < 1 {
		return s, errors.New("a demonstration has 2 to 26 copies and at least 1 client, and takes nothing but flags")
	}
	return s, nil
}
