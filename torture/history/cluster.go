package history

import (
	"fmt"
	"strconv"
	"time"

	"leasehold/fsm"
	"leasehold/lease"
)

// Entry is a committed entry of the cluster's log, as one node had it.
type Entry struct {
	Node    string // from which it was read
	Index   uint64
	Term    uint64
	At      int64         // wall-clock milliseconds; a part of the state
	Kind    string        // "acquire", …; "noop", "configuration" of Raft's own
	Command lease.Command // nil for Raft's own
}

// entryJSON keeps the command as it stands in the log, so that the same bytes are
// replayed; the kind is for people who read the lines.
type entryJSON struct {
	Node    string `json:"node,omitempty"`
	Index   uint64 `json:"index"`
	Term    uint64 `json:"term"`
	At      int64  `json:"at"`
	Kind    string `json:"kind"`
	Command []byte `json:"command,omitempty"`
}

func (e Entry) toJSON() *entryJSON {
	j := &entryJSON{Node: e.Node, Index: e.Index, Term: e.Term, At: e.At, Kind: e.Kind}
	if e.Command != nil {
		j.Command = fsm.EncodeCommand(e.Command)
	}
	return j
}

func (j *entryJSON) entry() (Entry, error) {
	e := Entry{Node: j.Node, Index: j.Index, Term: j.Term, At: j.At, Kind: j.Kind}
	if j.Command == nil {
		return e, nil
	}
	var err error
	if e.Command, err = fsm.DecodeCommand(j.Command); err != nil {
		return e, fmt.Errorf("entry %d: %w", j.Index, err)
	}
	return e, nil
}

// Start is the state from which the log is replayed when its beginning was cut
// off by snapshots: the bytes of a snapshot file.
type Start struct {
	Index    uint64 `json:"index"` // of the snapshot: entries up to it are in it
	Node     string `json:"node,omitempty"`
	Snapshot []byte `json:"snapshot"`
}

// Hash is a state hash, written as 16 hex digits.
type Hash uint64

// String as /v1/status writes it.
func (h Hash) String() string { return fmt.Sprintf("%016x", uint64(h)) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*h = Hash(n)
	return err
}

// Mark is the hash of a node's state at an index.
type Mark struct {
	Index uint64 `json:"index"`
	Hash  Hash   `json:"hash"`
}

// Sample is what a node said of itself at one time.
type Sample struct {
	At      time.Duration `json:"at_ns"`
	Node    string        `json:"node"`
	Term    uint64        `json:"term,omitempty"`
	Role    string        `json:"role,omitempty"` // "leader", "follower", …
	Applied uint64        `json:"applied,omitempty"`
	// Marks are hashes that the node still knows, that at Applied among them. The
	// more of them, the more often nodes meet at the same index.
	Marks []Mark `json:"marks,omitempty"`
	// Snapshot is the index of the node's latest snapshot.
	Snapshot uint64 `json:"snapshot,omitempty"`
	// Installed: the node has got that many snapshots from a leader since it started.
	Installed uint64 `json:"installed,omitempty"`
	// Dropped: the faults on its links have held back or lost so many messages.
	Dropped uint64 `json:"dropped,omitempty"`
}

// Leadership is a leader seen at work: on the wire, where a node sent
// AppendEntries of that term.
type Leadership struct {
	At   time.Duration `json:"at_ns"`
	Node string        `json:"node"`
	Term uint64        `json:"term"`
}

// Arrival is a renewal that reached the leader, seen by instrumentation inside
// of it.
type Arrival struct {
	At    time.Duration `json:"at_ns"`
	Node  string        `json:"node"`
	Term  uint64        `json:"term"`
	Name  string        `json:"name"`
	Token uint64        `json:"token"`
	// Left of the TTL on the leader's lease clock; not above 0 if it came too late.
	Left time.Duration `json:"left_ns"`
	// Index of the renewal's entry, 0 if none got into the log.
	Index uint64 `json:"index,omitempty"`
}

// Fault is what was done to the cluster or to a client, and when it was over.
type Fault struct {
	From  time.Duration `json:"from_ns"`
	To    time.Duration `json:"to_ns"` // when it was healed: the process runs again, the link is open
	Kind  string        `json:"kind"`  // "cut", "pause", "kill", …
	Nodes []string      `json:"nodes,omitempty"`
	Peers []string      `json:"peers,omitempty"`
	// Client that was paused, if it was not a node.
	Client string `json:"client,omitempty"`
	// NoQuorum: while it lasts no majority of nodes reaches each other.
	NoQuorum bool `json:"no_quorum,omitempty"`
	// Detail as it stands in the schedule.
	Detail string `json:"detail,omitempty"`
}

// End says that the run came to its end, and how far.
type End struct {
	At time.Duration `json:"at_ns"`
	// LogComplete: after the last operation the log was read up to its end from a
	// cluster that had a leader. Without it nothing can be said of answers that the
	// log does not have.
	LogComplete bool `json:"log_complete"`
}

// Run names the run.
type Run struct {
	Title   string `json:"title,omitempty"`
	Seed    uint64 `json:"seed"`
	Version string `json:"version,omitempty"`
	Command string `json:"command,omitempty"` // that runs it again
}
