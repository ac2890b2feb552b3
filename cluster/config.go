package cluster

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"leasehold/faults/lab"
	"leasehold/transport"
)

// Config of a [Node]. Start from [DefaultConfig].
type Config struct {
	// ID names the node, Address is its host:port for peers and clients, Bind is
	// where it listens (empty: at Address).
	ID, Address, Bind string
	// Founders are the first members of the cluster, this node among them. Every
	// founder is started with the same list. It is not looked at again once the
	// cluster has formed.
	Founders []Peer
	// Disk holds what must survive the process. A *Folder in production.
	Disk Disk
	// Network carries everything. transport.TCP() in production.
	Network transport.Network
	Logger  hclog.Logger
	Version string // for people
	// Lab has the faults of this node, which closes it, in a lab. Else it is nil.
	Lab *lab.Board

	// MinTTL and MaxTTL bound the TTLs that the leader accepts.
	MinTTL, MaxTTL time.Duration
	// MaxLeases bounds the leases that are not free at once, MaxWaiters the queue of
	// each.
	MaxLeases, MaxWaiters int
	// MaxRegisters bounds the registers, which stay for good.
	MaxRegisters int

	// HeartbeatTimeout is how long a follower waits for its leader before it
	// calls an election, and how long a leader goes on without a quorum.
	// ElectionTimeout is how long an election may take.
	HeartbeatTimeout, ElectionTimeout time.Duration
	// A snapshot is taken when SnapshotThreshold entries have come since the
	// last one, looked at every SnapshotInterval to twice that; TrailingLogs
	// entries are kept before it for followers that lag.
	SnapshotThreshold, TrailingLogs uint64
	SnapshotInterval                time.Duration
}

// DefaultConfig has every field that has a sensible value without the user.
func DefaultConfig() Config {
	return Config{
		Network:           transport.TCP(),
		Logger:            hclog.NewNullLogger(),
		Version:           "dev",
		MinTTL:            100 * time.Millisecond,
		MaxTTL:            24 * time.Hour,
		MaxLeases:         1_000_000,
		MaxWaiters:        1000,
		MaxRegisters:      10_000,
		HeartbeatTimeout:  500 * time.Millisecond,
		ElectionTimeout:   500 * time.Millisecond,
		SnapshotThreshold: 8192,
		SnapshotInterval:  30 * time.Second,
		TrailingLogs:      10240,
	}
}

// FailoverBound is the longest time in which a quorum whose leader has died
// elects another and serves again, on an otherwise idle network.
func (c Config) FailoverBound() time.Duration { return 3*c.HeartbeatTimeout + time.Second }

// Validate says what is wrong with c, with both values where two disagree.
func (c Config) Validate() error {
	if err := checkID(c.ID); err != nil {
		return err
	}
	if err := checkAddress("the address of node "+c.ID, c.Address); err != nil {
		return err
	}
	if c.Bind != "" {
		if _, err := splitAddress("the address to bind", c.Bind); err != nil {
			return err
		}
	}
	if err := c.validateFounders(); err != nil {
		return err
	}
	switch {
	case c.MinTTL < time.Millisecond:
		return fmt.Errorf("the least TTL is %v, it must be at least 1ms", c.MinTTL)
	case c.MaxTTL < c.MinTTL:
		return fmt.Errorf("the greatest TTL (%v) is less than the least TTL (%v)", c.MaxTTL, c.MinTTL)
	case c.MaxLeases < 1:
		return fmt.Errorf("the number of leases is bounded by %d, it must be at least 1", c.MaxLeases)
	case c.MaxRegisters < 1:
		return fmt.Errorf("the number of registers is bounded by %d, it must be at least 1", c.MaxRegisters)
	case c.MaxWaiters < 0:
		return fmt.Errorf("the waiters of a lease are bounded by %d, it must be at least 0", c.MaxWaiters)
	case c.HeartbeatTimeout < 20*time.Millisecond:
		return fmt.Errorf("the heartbeat timeout is %v, it must be at least 20ms", c.HeartbeatTimeout)
	case c.ElectionTimeout < c.HeartbeatTimeout:
		return fmt.Errorf("the election timeout (%v) is less than the heartbeat timeout (%v)", c.ElectionTimeout, c.HeartbeatTimeout)
	case c.SnapshotInterval < 5*time.Millisecond:
		return fmt.Errorf("the snapshot interval is %v, it must be at least 5ms", c.SnapshotInterval)
	case c.SnapshotThreshold < 1:
		return fmt.Errorf("the snapshot threshold is 0, it must be at least 1")
	}
	return nil
}

func (c Config) validateFounders() error {
	if len(c.Founders) == 0 {
		return nil // fine once there is state; Open says so otherwise
	}
	ids, addresses := map[string]string{}, map[string]string{}
	for _, p := range c.Founders {
		if err := checkID(p.ID); err != nil {
			return err
		}
		if err := checkAddress("the address of node "+p.ID, p.Address); err != nil {
			return err
		}
		if was, twice := ids[p.ID]; twice {
			return fmt.Errorf("the cluster list names %s twice: at %s and at %s", p.ID, was, p.Address)
		}
		if was, twice := addresses[p.Address]; twice {
			return fmt.Errorf("the cluster list gives %s to two nodes: %s and %s", p.Address, was, p.ID)
		}
		ids[p.ID], addresses[p.Address] = p.Address, p.ID
	}
	switch mine, listed := ids[c.ID]; {
	case !listed:
		return fmt.Errorf("the cluster list does not contain this node (%s): %s", c.ID, formatPeers(c.Founders))
	case mine != c.Address:
		return fmt.Errorf("the cluster list gives %s the address %s, but it was started with %s", c.ID, mine, c.Address)
	}
	return nil
}

// checkID accepts what can stand in a list, in a header and in a log line without
// quotes.
func checkID(id string) error {
	ok := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool { return !ok(r) }) {
		return fmt.Errorf("%q is no node id: an id is 1 to 64 of A-Z a-z 0-9 . _ -", id)
	}
	return nil
}

// checkAddress accepts an address that others can connect to.
func checkAddress(what, address string) error {
	host, err := splitAddress(what, address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%s is %q, which stands for every address of this machine; others need one that they can connect to (--bind may be such a one)", what, address)
	}
	return nil
}

// splitAddress returns the host of a host:port with a port that can be used.
func splitAddress(what, address string) (host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("%s is %q, it must be HOST:PORT", what, address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%s is %q, its port must be a number from 1 to 65535", what, address)
	}
	return host, nil
}

// formatPeers writes a list of nodes as the command line does, in order of id.
func formatPeers(peers []Peer) string {
	parts := make([]string, len(peers))
	for i, p := range sortedPeers(peers) {
		parts[i] = p.ID + "=" + p.Address
	}
	return strings.Join(parts, ",")
}

func sortedPeers(peers []Peer) []Peer {
	return slices.SortedFunc(slices.Values(peers), func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
}
