package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	urfave "github.com/urfave/cli/v2"

	"leasehold/cluster"
)

// serveFlags is what the command line of serve says.
type serveFlags struct {
	id      string
	address string // by which others reach this node, and under which it is a member
	bind    string // where it listens
	data    string
	// members of the first configuration, in the order given. Empty: the node has
	// its state already.
	members []cluster.Peer

	minTTL, maxTTL time.Duration
	maxLeases      int
	maxWaiters     int

	heartbeatTimeout, electionTimeout time.Duration

	snapshotThreshold uint64 // log entries
	snapshotInterval  time.Duration
	trailingLogs      uint64 // log entries

	lab     bool
	labSeed uint64

	logLevel string
}

var logLevels = []string{"trace", "debug", "info", "warn", "error"}

// serveCommand hands the parsed flags to run, which serves until ctx ends.
func (p *program) serveCommand(run func(ctx context.Context, f serveFlags) error) *urfave.Command {
	duration := func(name string, ms millis, usage string) urfave.Flag {
		return &urfave.GenericFlag{Name: name, Value: &ms, Usage: usage}
	}
	return &urfave.Command{
		Name:      "serve",
		Usage:     "run one node",
		UsageText: "leasehold serve --id n1 --address 127.0.0.1:8001 --data data/n1 --cluster n1=127.0.0.1:8001,n2=127.0.0.1:8002,n3=127.0.0.1:8003",
		Description: "Every node is started with the same --cluster list, in any order. It forms the first configuration, and\n" +
			"is ignored once the data folder holds state.",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "id", Usage: "the `ID` of this node in the cluster"},
			&urfave.StringFlag{Name: "address", Usage: "the `HOST:PORT` by which clients and other nodes reach this node"},
			&urfave.StringFlag{Name: "bind", DefaultText: "the --address", Usage: "the `HOST:PORT` to listen on"},
			&urfave.StringFlag{Name: "data", Usage: "the `FOLDER` of this node's log and snapshots"},
			&urfave.StringFlag{Name: "cluster", Usage: "the first members, as `ID=HOST:PORT,…`"},
			duration("min-ttl", 100, "the shortest TTL that is granted, as `DURATION`"),
			duration("max-ttl", 24*60*60*1000, "the longest TTL that is granted, as `DURATION`"),
			&urfave.IntFlag{Name: "max-leases", Value: 1_000_000, Usage: "how many leases may be held at once"},
			&urfave.IntFlag{Name: "max-waiters", Value: 1000, Usage: "how many requests may wait for one lease"},
			duration("heartbeat-timeout", 500, "how long a follower waits for the leader before it asks for an election, as `DURATION`"),
			duration("election-timeout", 500, "how long a candidate waits for votes, as `DURATION`"),
			&urfave.Uint64Flag{Name: "snapshot-threshold", Value: 8192, Usage: "log entries since the last snapshot that make a new one due"},
			duration("snapshot-interval", 30_000, "how often that is looked at, as `DURATION`"),
			&urfave.Uint64Flag{Name: "trailing-logs", Value: 10_240, Usage: "log entries to keep behind a snapshot, for slow followers and for reading"},
			&urfave.BoolFlag{Name: "lab", Usage: "let anyone who reaches the port make this node fail, for experiments (leasehold fault)"},
			&urfave.Uint64Flag{Name: "lab-seed", Value: 1, Usage: "`SEED` of what is random in the faults of a lab"},
			&urfave.StringFlag{Name: "log-level", Value: "info", Usage: strings.Join(logLevels, ", ")},
		},
		Action: func(c *urfave.Context) error {
			f, err := serveConfig(c)
			if err != nil {
				return err
			}
			return run(c.Context, f)
		},
	}
}

// serveConfig reads and checks the flags of serve.
func serveConfig(c *urfave.Context) (serveFlags, error) {
	if err := noArguments(c); err != nil {
		return serveFlags{}, err
	}
	if err := first(required(c, "id"), required(c, "address"), required(c, "data")); err != nil {
		return serveFlags{}, err
	}
	duration := func(name string) time.Duration { return c.Generic(name).(*millis).duration() }
	f := serveFlags{
		id: c.String("id"), address: c.String("address"), bind: c.String("bind"), data: c.String("data"),
		minTTL: duration("min-ttl"), maxTTL: duration("max-ttl"), maxLeases: c.Int("max-leases"), maxWaiters: c.Int("max-waiters"),
		heartbeatTimeout: duration("heartbeat-timeout"), electionTimeout: duration("election-timeout"),
		snapshotThreshold: c.Uint64("snapshot-threshold"), snapshotInterval: duration("snapshot-interval"),
		trailingLogs: c.Uint64("trailing-logs"),
		lab:          c.Bool("lab"), labSeed: c.Uint64("lab-seed"), logLevel: c.String("log-level"),
	}
	var err error
	if c.IsSet("cluster") {
		f.members, err = parseMembers(c.String("cluster"))
	}
	if err == nil {
		err = f.check()
	}
	return f, acceptable(c, err)
}

// check says which flag cannot be, alone or beside another.
func (f serveFlags) check() error {
	switch {
	case f.data == "":
		return fmt.Errorf("--data is empty")
	case !slices.Contains(logLevels, f.logLevel):
		return fmt.Errorf("--log-level %q is none of %s", f.logLevel, strings.Join(logLevels, ", "))
	}
	return f.config(hclog.NewNullLogger()).Validate()
}

// parseMembers reads the list of --cluster: ID=HOST:PORT, with commas between.
func parseMembers(list string) ([]cluster.Peer, error) {
	var members []cluster.Peer
	for entry := range strings.SplitSeq(list, ",") {
		id, address, found := strings.Cut(strings.TrimSpace(entry), "=")
		if !found {
			return nil, fmt.Errorf("--cluster: %q is not ID=HOST:PORT", entry)
		}
		members = append(members, cluster.Peer{ID: id, Address: address})
	}
	return members, nil
}
