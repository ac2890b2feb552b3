package cli

import (
	"context"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
	"leasehold/cluster"
	"leasehold/httpapi"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// inspectPage is how many entries are shown unless the user says otherwise, and
// the most that a running node gives at once.
const inspectPage = 1000

type inspectFlags struct {
	data  string
	from  uint64
	limit int
	json  bool
}

// inspection is what inspect prints as JSON.
type inspection struct {
	ID          string            `json:"id"`
	Address     string            `json:"address"`
	Incarnation string            `json:"incarnation"`
	ClusterID   string            `json:"cluster_id"`
	Founders    map[string]string `json:"founders"`
	Formed      bool              `json:"formed"`
	InUse       bool              `json:"in_use"`
	Term        uint64            `json:"term"`
	Vote        string            `json:"vote"`
	VoteTerm    uint64            `json:"vote_term"`
	Log         wire.Log          `json:"log"`
	Snapshots   []snapshot        `json:"snapshots"`
}

type snapshot struct {
	Path      string          `json:"path"`
	Index     uint64          `json:"index"`
	Term      uint64          `json:"term"`
	Bytes     int64           `json:"bytes"`
	StateHash string          `json:"state_hash,omitempty"`
	Leases    []wire.Lease    `json:"leases"`
	Waiters   int             `json:"waiters"`
	Registers []wire.Register `json:"registers"`
	Damage    string          `json:"damage,omitempty"`
}

func (p *program) inspectCommand() *urfave.Command {
	f := &inspectFlags{}
	return &urfave.Command{
		Name:      "inspect",
		Usage:     "decode the data folder of a node",
		UsageText: "leasehold inspect --data FOLDER [--from INDEX] [--limit N]",
		Description: "Shows whose folder it is, its Raft log and its snapshots, and changes nothing. The log of a node that runs\n" +
			"is read from the node itself, since it has the file open.",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "data", Destination: &f.data, Usage: "the `FOLDER` of the node"},
			&urfave.Uint64Flag{Name: "from", Destination: &f.from, Usage: "begin with the log entry at `INDEX`", DefaultText: "the first"},
			&urfave.IntFlag{Name: "limit", Destination: &f.limit, Value: inspectPage, Usage: "show at most `N` log entries"},
			&urfave.BoolFlag{Name: "json", Destination: &f.json, Usage: "print one JSON object, with the leases and registers in each snapshot"},
		},
		Action: func(c *urfave.Context) error { return p.inspect(c, f) },
	}
}

func (p *program) inspect(c *urfave.Context, f *inspectFlags) error {
	if err := first(noArguments(c), required(c, "data")); err != nil {
		return err
	}
	if f.limit < 1 || f.limit > inspectPage {
		return usagef(c, "--limit %d is not from 1 to %d", f.limit, inspectPage)
	}
	in, err := cluster.Inspect(f.data, f.from, f.limit)
	if err != nil {
		return err
	}
	shown := inspectionOf(in)
	if in.InUse {
		if shown.Log, err = runningLog(c.Context, in.Identity.Address, f); err != nil {
			return fmt.Errorf("data folder %s is in use, and the node that should have it open cannot be asked: %w", f.data, err)
		}
	}
	if f.json {
		return p.printJSON(shown)
	}
	return p.printInspection(shown)
}

// runningLog asks a node for its own log.
func runningLog(ctx context.Context, address string, f *inspectFlags) (wire.Log, error) {
	cl, err := client.NewAPI(client.Config{Servers: []string{address}})
	if err != nil {
		return wire.Log{}, err
	}
	defer cl.Close()
	return cl.Log(ctx, address, f.from, f.limit)
}

func inspectionOf(in cluster.Inspection) inspection {
	id := in.Identity
	shown := inspection{
		ID: id.ID, Address: id.Address, Incarnation: id.Incarnation, ClusterID: id.ClusterID,
		Founders: id.Founders, Formed: id.Formed, InUse: in.InUse,
		Term: in.Term, Vote: in.Vote, VoteTerm: in.VoteTerm,
		Log: httpapi.LogOf(in.Log), Snapshots: []snapshot{},
	}
	for _, info := range in.Snapshots {
		s := snapshot{Path: info.Path, Index: info.Index, Term: info.Term, Bytes: info.Size, Leases: []wire.Lease{}, Registers: []wire.Register{}}
		if info.Err != nil {
			s.Damage = info.Err.Error()
		} else {
			s.StateHash = fmt.Sprintf("%016x", info.State.Hash())
			s.Leases, s.Waiters, s.Registers = leasesOf(info.State), info.State.Waiters(), registersOf(info.State)
		}
		shown.Snapshots = append(shown.Snapshots, s)
	}
	return shown
}

func leasesOf(t *lease.Table) []wire.Lease {
	leases := []wire.Lease{}
	for l := range t.Ascend("") {
		view := cluster.LeaseView{Name: l.Name, Lease: l, Last: t.LastEnded(l.Name), Remaining: -1}
		leases = append(leases, httpapi.LeaseOf(view))
	}
	return leases
}

func registersOf(t *lease.Table) []wire.Register {
	registers := []wire.Register{}
	for reg := range t.Snapshot().AllRegisters() {
		registers = append(registers, httpapi.RegisterOf(reg.Name, reg))
	}
	return registers
}

func (p *program) printInspection(in inspection) error {
	t := newTable(p.stdout)
	t.row("node", in.ID+" at "+in.Address)
	t.field("cluster", in.ClusterID)
	if !in.Formed {
		t.row("cluster", "not formed yet")
	}
	if in.VoteTerm != 0 {
		t.row("term", fmt.Sprintf("%d, voted for the node at %s in term %d", in.Term, in.Vote, in.VoteTerm))
	}
	switch {
	case in.Log.Last == 0:
		t.row("log", "empty")
	case in.InUse:
		t.row("log", fmt.Sprintf("entries %d to %d, read from the running node", in.Log.First, in.Log.Last))
	default:
		t.row("log", fmt.Sprintf("entries %d to %d", in.Log.First, in.Log.Last))
	}
	for _, s := range in.Snapshots {
		what := fmt.Sprintf("up to index %d, term %d, %d leases, %d waiters, %d registers, %d bytes, state %s",
			s.Index, s.Term, len(s.Leases), s.Waiters, len(s.Registers), s.Bytes, s.StateHash)
		if s.Damage != "" {
			what = "DAMAGED: " + s.Damage
		}
		t.row(s.Path, what)
	}
	if err := t.flush(); err != nil || len(in.Log.Entries) == 0 {
		return err
	}
	fmt.Fprintln(p.stdout)
	t = newTable(p.stdout)
	t.row("INDEX", "TERM", "AT", "KIND", "WHAT")
	for _, e := range in.Log.Entries {
		t.row(number(e.Index), number(e.Term), e.At, e.Kind, entryDetails(e))
	}
	return t.flush()
}

// entryDetails writes the fields of an entry that it has, in the API's words.
func entryDetails(e wire.LogEntry) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+printable(value))
		}
	}
	addIndex := func(name string, index uint64) {
		if index != 0 {
			add(name, number(index))
		}
	}
	add("name", e.Name)
	add("register", e.Register)
	add("holder", e.Holder)
	addIndex("token", e.Token)
	add("lease", e.Lease)
	addIndex("renewal", e.Renewal)
	addIndex("of_term", e.OfTerm)
	add("ttl", millis(e.TTLMillis).String())
	add("wait", millis(e.WaitMillis).String())
	add("lock_delay", millis(e.LockDelayMillis).String())
	add("request_id", e.RequestID)
	addIndex("place", e.Place)
	add("reason", e.Reason)
	if e.Value != nil {
		add("value", *e.Value)
	}
	if e.Reclaim {
		add("reclaim", "true")
	}
	if e.Node != nil {
		add("node", e.Node.ID+" at "+e.Node.Address)
	}
	add("cluster_id", e.ClusterID)
	for _, m := range e.Members {
		add(m.Suffrage, m.ID+" at "+m.Address)
	}
	return strings.Join(parts, " ")
}
