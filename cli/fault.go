package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"leasehold/faults"
	"leasehold/httpapi/wire"
)

func (p *program) faultCommand() *urfave.Command {
	f := &scheduleFlags{access: newAccess()}
	c := &urfave.Command{
		Name:      "fault",
		Usage:     "make something go wrong in a node that runs with --lab",
		UsageText: "leasehold fault KIND --server HOST:PORT --for DURATION …\nleasehold fault list | heal [ID]\nleasehold fault --schedule FILE",
		Description: "Every fault is that of one node, and heals by itself. docs/FAULTS.md says what each kind does. A schedule has\n" +
			"one fault a line, with a time and a node, and is played against the whole cluster.",
		Flags: append([]urfave.Flag{
			&urfave.StringFlag{Name: "schedule", Destination: &f.file, Usage: "play the schedule in this `FILE`, - for standard input"},
		}, f.flags()...),
		Action: func(c *urfave.Context) error {
			if !c.IsSet("schedule") {
				return p.noSubcommand(c)
			}
			return p.playSchedule(c, f)
		},
	}
	for _, kind := range faults.NodeKinds() {
		c.Subcommands = append(c.Subcommands, p.faultKindCommand(kind))
	}
	c.Subcommands = append(c.Subcommands, p.faultListCommand(), p.faultHealCommand())
	return c
}

var faultUsage = map[faults.Kind]string{
	faults.Cut:        "let nothing pass to or from other nodes, or clients",
	faults.Jam:        "keep back what is sent over the connections that there are",
	faults.Delay:      "let everything arrive later",
	faults.Loss:       "lose packets, which TCP then sends again",
	faults.DropReply:  "carry requests out, and close their connections without an answer",
	faults.SlowFsync:  "make every write to the disk slow",
	faults.DiskFull:   "leave no room on the disk; the node stops at its next write",
	faults.ClockRate:  "let the lease clock run too fast or too slowly",
	faults.ClockStall: "let the lease clock stand still, as in a pause",
	faults.WallShift:  "put the wall clock forward or back",
}

// faultFlags are the fields of a fault, and the node that gets it.
type faultFlags struct {
	*access
	peers               urfave.StringSlice
	direction           string
	last, delay, jitter millis
	shift               shift
	percent, count      int64
	path                string
}

// flag for a field of a fault.
func (f *faultFlags) flag(kind faults.Kind, field string) urfave.Flag {
	switch field {
	case "peers":
		return &urfave.StringSliceFlag{Name: "peers", Destination: &f.peers, DefaultText: "all other nodes", Usage: "the `NODES` at the other end, or clients for all who speak HTTP"}
	case "direction":
		return &urfave.StringFlag{Name: "direction", Destination: &f.direction, DefaultText: "both", Usage: "`out`: what this node sends; in: what it receives; both"}
	case "delay_ms":
		return &urfave.GenericFlag{Name: "delay", Value: &f.delay, Usage: "how much later, as `DURATION`"}
	case "jitter_ms":
		return &urfave.GenericFlag{Name: "jitter", Value: &f.jitter, Usage: "up to so much more, at random, as `DURATION`"}
	case "percent":
		of := "of packets that are lost, `1 to 100`"
		if kind == faults.ClockRate {
			of = "of true time, `50 to 200`"
		}
		return &urfave.Int64Flag{Name: "percent", Destination: &f.percent, Usage: of}
	case "count":
		return &urfave.Int64Flag{Name: "count", Destination: &f.count, Usage: "drop so `MANY` answers"}
	case "path":
		return &urfave.StringFlag{Name: "path", Destination: &f.path, DefaultText: "all that write", Usage: "of requests to this `PATH` only, such as /v1/acquire"}
	default:
		return &urfave.GenericFlag{Name: "shift", Value: &f.shift, Usage: "how far the wall clock is ahead, as `DURATION`, such as 1h or -30m"}
	}
}

func (f *faultFlags) fault(kind faults.Kind) faults.Fault {
	return faults.Fault{
		Kind: kind, Peers: f.peers.Value(), Direction: faults.Direction(f.direction), DurationMillis: int64(f.last),
		DelayMillis: int64(f.delay), JitterMillis: int64(f.jitter), Percent: f.percent, Count: f.count, Path: f.path, ShiftMillis: int64(f.shift),
	}
}

// shift is a duration that may be negative.
type shift int64

func (s *shift) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("a shift is written like 1h, -30m or 1.5s")
	case d%time.Millisecond != 0:
		return errors.New("a shift is in whole milliseconds")
	}
	*s = shift(d.Milliseconds())
	return nil
}

func (s shift) String() string {
	if s == 0 {
		return ""
	}
	return (time.Duration(s) * time.Millisecond).String()
}

func (p *program) faultKindCommand(kind faults.Kind) *urfave.Command {
	f := &faultFlags{access: newAccess()}
	names, required := kind.Fields()
	c := &urfave.Command{
		Name:    string(kind),
		Aliases: aliases(kind),
		Usage:   faultUsage[kind],
		Flags:   []urfave.Flag{&urfave.GenericFlag{Name: "for", Value: &f.last, Usage: "how long, as `DURATION` up to " + faults.MaxDuration.String()}},
	}
	usage := "leasehold fault " + string(kind) + " --server HOST:PORT --for DURATION"
	for i, name := range names {
		flag := f.flag(kind, name)
		c.Flags = append(c.Flags, flag)
		part := "--" + flag.Names()[0] + " …"
		if i >= required {
			part = "[" + part + "]"
		}
		usage += " " + part
	}
	c.UsageText = usage
	c.Flags = append(c.Flags, f.flags()...)
	c.Action = func(c *urfave.Context) error { return p.beginFault(c, f, kind, names[:required]) }
	return c
}

// aliases: the vocabulary has underscores, command lines often have dashes.
func aliases(kind faults.Kind) []string {
	if dashed := strings.ReplaceAll(string(kind), "_", "-"); dashed != string(kind) {
		return []string{dashed}
	}
	return nil
}

func (p *program) beginFault(c *urfave.Context, f *faultFlags, kind faults.Kind, needs []string) error {
	if err := first(noArguments(c), required(c, "for")); err != nil {
		return err
	}
	for _, field := range needs {
		if err := required(c, f.flag(kind, field).Names()[0]); err != nil {
			return err
		}
	}
	fault := f.fault(kind)
	if err := acceptable(c, fault.Validate()); err != nil {
		return err
	}
	server, err := p.oneServer(c, f.access)
	if err != nil {
		return err
	}
	cl, err := p.client(c, f.access)
	if err != nil {
		return err
	}
	defer cl.Close()
	begun, err := cl.BeginFault(c.Context, server, wire.FaultRequest{Fault: fault})
	if err != nil {
		return err
	}
	if f.json {
		return p.printJSON(begun)
	}
	_, err = fmt.Fprintf(p.stdout, "%s: %s\n", begun.ID, begun.Fault)
	return err
}

// oneServer is the node that a fault is for.
func (p *program) oneServer(c *urfave.Context, a *access) (string, error) {
	servers := p.addresses(a)
	if len(servers) != 1 {
		return "", usagef(c, "a fault is that of one node; say which with --server HOST:PORT")
	}
	return servers[0], nil
}

func (p *program) faultListCommand() *urfave.Command {
	a := newAccess()
	return &urfave.Command{
		Name:        "list",
		Usage:       "show what is made to go wrong, in all nodes",
		UsageText:   "leasehold fault list [--server HOST:PORT,…]",
		Description: "Asks the given nodes and the members they know of, as status does. Exits 0 if any node answers.",
		Flags:       a.flags(),
		Action:      func(c *urfave.Context) error { return p.listFaults(c, a) },
	}
}

func (p *program) listFaults(c *urfave.Context, a *access) error {
	if err := noArguments(c); err != nil {
		return err
	}
	cl, err := p.client(c, a)
	if err != nil {
		return err
	}
	defer cl.Close()
	nodes := p.askNodes(c.Context, a, cl)
	answered := slices.DeleteFunc(slices.Clone(nodes), func(n node) bool { return n.err != nil })
	if a.json {
		for _, n := range answered {
			list := n.status.Faults
			if list == nil {
				list = []wire.Fault{}
			}
			if err := p.printJSON(wire.Faults{Node: n.ID, Faults: list}); err != nil {
				return err
			}
		}
	} else if err := p.printFaults(nodes); err != nil {
		return err
	}
	if len(answered) == 0 {
		return silence(c.Context, nodes)
	}
	return nil
}

func (p *program) printFaults(nodes []node) error {
	t := newTable(p.stdout)
	t.row("NODE", "ID", "FAULT", "REMAINING")
	for _, n := range nodes {
		switch {
		case n.err != nil:
			t.row(cmp.Or(n.ID, "?"), "-", "unreachable: "+why(n.err), "-")
		case !n.status.Lab:
			t.row(n.ID, "-", "none, it was not started with --lab", "-")
		case len(n.status.Faults) == 0:
			t.row(n.ID, "-", "none", "-")
		}
		for _, f := range n.status.Faults {
			t.row(n.ID, f.ID, f.Fault.String(), span(time.Duration(f.RemainingMillis)*time.Millisecond))
		}
	}
	return t.flush()
}

func (p *program) faultHealCommand() *urfave.Command {
	a := newAccess()
	return &urfave.Command{
		Name:      "heal",
		Usage:     "end faults now",
		UsageText: "leasehold fault heal [--server HOST:PORT,…] [ID]",
		Description: "Ends all faults of the given nodes, or the one with that ID of the one node that is given. It cannot reach a\n" +
			"node that is cut off from clients; such a fault ends when its time is over.",
		Flags:  a.flags(),
		Action: func(c *urfave.Context) error { return p.healFaults(c, a) },
	}
}

func (p *program) healFaults(c *urfave.Context, a *access) error {
	if c.NArg() > 1 {
		return usagef(c, "one ID is expected, but there are %d", c.NArg())
	}
	id, servers := c.Args().First(), p.addresses(a)
	if id != "" {
		if _, err := p.oneServer(c, a); err != nil {
			return err
		}
	}
	cl, err := p.client(c, a)
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed []error
	for _, server := range servers {
		healed, err := cl.HealFault(c.Context, server, id)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if err := p.printHealed(a, healed); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

func (p *program) printHealed(a *access, healed wire.Faults) error {
	if a.json {
		return p.printJSON(healed)
	}
	if len(healed.Faults) == 0 {
		_, err := fmt.Fprintf(p.stdout, "%s: nothing to heal\n", healed.Node)
		return err
	}
	for _, f := range healed.Faults {
		if _, err := fmt.Fprintf(p.stdout, "%s: healed %s, %s\n", healed.Node, f.ID, f.Fault); err != nil {
			return err
		}
	}
	return nil
}
