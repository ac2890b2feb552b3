package cli

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
)

// serveFlags is what the command line of serve says. Relations between the
// timeouts are checked where they are used.
type serveFlags struct {
	id      string
	address string // by which others reach this node, and under which it is a member
	bind    string // where it listens
	data    string
	// members of the first configuration, in the order given. Empty: the node has
	// its state already.
	members []serveMember

	minTTL, maxTTL time.Duration
	maxLeases      int

	heartbeatTimeout, electionTimeout time.Duration

	snapshotThreshold uint64 // log entries
	snapshotInterval  time.Duration
	trailingLogs      uint64 // log entries

	logLevel string
}

type serveMember struct{ id, address string }

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
			duration("heartbeat-timeout", 500, "how long a follower waits for the leader before it asks for an election, as `DURATION`"),
			duration("election-timeout", 500, "how long a candidate waits for votes, as `DURATION`"),
			&urfave.Uint64Flag{Name: "snapshot-threshold", Value: 8192, Usage: "log entries since the last snapshot that make a new one due"},
			duration("snapshot-interval", 30_000, "how often that is looked at, as `DURATION`"),
			&urfave.Uint64Flag{Name: "trailing-logs", Value: 10_240, Usage: "log entries to keep behind a snapshot, for slow followers and for reading"},
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
		minTTL: duration("min-ttl"), maxTTL: duration("max-ttl"), maxLeases: c.Int("max-leases"),
		heartbeatTimeout: duration("heartbeat-timeout"), electionTimeout: duration("election-timeout"),
		snapshotThreshold: c.Uint64("snapshot-threshold"), snapshotInterval: duration("snapshot-interval"),
		trailingLogs: c.Uint64("trailing-logs"), logLevel: c.String("log-level"),
	}
	if f.bind == "" {
		f.bind = f.address
	}
	var err error
	if c.IsSet("cluster") {
		f.members, err = parseMembers(c.String("cluster"))
	}
	return f, acceptable(c, first(err, f.check()))
}

// check says which flag cannot be, alone or beside another.
func (f serveFlags) check() error {
	switch {
	case !goodID(f.id):
		return fmt.Errorf("--id %q: %s", f.id, idForm)
	case f.data == "":
		return fmt.Errorf("--data is empty")
	case f.minTTL > f.maxTTL:
		return fmt.Errorf("--min-ttl %v is more than --max-ttl %v", f.minTTL, f.maxTTL)
	case f.maxLeases <= 0:
		return fmt.Errorf("--max-leases %d is not more than 0", f.maxLeases)
	case f.snapshotThreshold == 0:
		return fmt.Errorf("--snapshot-threshold 0 is not more than 0")
	case !slices.Contains(logLevels, f.logLevel):
		return fmt.Errorf("--log-level %q is none of %s", f.logLevel, strings.Join(logLevels, ", "))
	}
	if err := checkAddress(f.address); err != nil {
		return fmt.Errorf("--address %w", err)
	}
	if _, _, err := net.SplitHostPort(f.bind); err != nil {
		return fmt.Errorf("--bind %q is not HOST:PORT", f.bind)
	}
	if len(f.members) == 0 {
		return nil
	}
	own := slices.IndexFunc(f.members, func(m serveMember) bool { return m.id == f.id })
	if own < 0 {
		return fmt.Errorf("--id %s is not in --cluster %s", f.id, formatMembers(f.members))
	}
	if m := f.members[own]; m.address != f.address {
		return fmt.Errorf("--address %s is not the address of %s in --cluster, %s", f.address, f.id, m.address)
	}
	return nil
}

// parseMembers reads the list of --cluster: ID=HOST:PORT, with commas between.
func parseMembers(list string) ([]serveMember, error) {
	var members []serveMember
	for entry := range strings.SplitSeq(list, ",") {
		id, address, found := strings.Cut(strings.TrimSpace(entry), "=")
		if !found {
			return nil, fmt.Errorf("--cluster: %q is not ID=HOST:PORT", entry)
		}
		if !goodID(id) {
			return nil, fmt.Errorf("--cluster: %q in %q: %s", id, entry, idForm)
		}
		if err := checkAddress(address); err != nil {
			return nil, fmt.Errorf("--cluster: %s: %w", id, err)
		}
		for _, m := range members {
			switch {
			case m.id == id:
				return nil, fmt.Errorf("--cluster: %s stands there twice, at %s and at %s", id, m.address, address)
			case m.address == address:
				return nil, fmt.Errorf("--cluster: %s and %s have the same address, %s", m.id, id, address)
			}
		}
		members = append(members, serveMember{id, address})
	}
	return members, nil
}

func formatMembers(members []serveMember) string {
	var entries []string
	for _, m := range members {
		entries = append(entries, m.id+"="+m.address)
	}
	return strings.Join(entries, ",")
}

const idForm = "an id is 1 to 64 of A-Z a-z 0-9 . _ -"

// goodID accepts what can stand in the list, in a header and in a log line
// without quotes.
func goodID(id string) bool {
	return len(id) >= 1 && len(id) <= 64 && strings.IndexFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	}) < 0
}

// checkAddress accepts an address that others can connect to.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return fmt.Errorf("%q is not HOST:PORT", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q has no port from 1 to 65535", address)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%q stands for all addresses of this machine, which others cannot connect to; use --bind for it", address)
	}
	return nil
}
