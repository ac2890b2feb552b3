package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

func (p *program) registerCommand() *urfave.Command {
	return &urfave.Command{
		Name:      "register",
		Usage:     "write and read a value that refuses stale tokens",
		UsageText: "leasehold register put|get …",
		Description: "A register is a resource that fencing protects, built in. It remembers the highest token that came with a write\n" +
			"and refuses a lower one. It stays for good.",
		Subcommands: []*urfave.Command{p.registerPutCommand(), p.registerGetCommand()},
		Action:      p.noSubcommand,
	}
}

type registerPutFlags struct {
	*access
	token token
	lease string
}

func (p *program) registerPutCommand() *urfave.Command {
	f := &registerPutFlags{access: newAccess()}
	return &urfave.Command{
		Name:      "put",
		Usage:     "write a value",
		UsageText: "leasehold register put [--token TOKEN] [--lease LEASE] NAME VALUE",
		Description: "With --token it is refused if the register has seen a higher token. With --lease too it is refused unless that\n" +
			"is the live token of that lease. With neither nothing is checked: such a write is not fenced. A refused write\n" +
			"exits 1. The VALUE - stands for all of standard input, a newline at its end too; after a -- a value may begin\n" +
			"with a dash.",
		Flags: append([]urfave.Flag{
			&urfave.GenericFlag{Name: "token", Value: &f.token, Usage: "the fencing `TOKEN` of the writer"},
			&urfave.StringFlag{Name: "lease", Destination: &f.lease, Usage: "the `LEASE` that must be held under that token"},
		}, f.flags()...),
		Action: func(c *urfave.Context) error { return p.registerPut(c, f) },
	}
}

func (p *program) registerPut(c *urfave.Context, f *registerPutFlags) error {
	if c.NArg() != 2 {
		return usagef(c, "a NAME and a VALUE are expected, but there are %d arguments", c.NArg())
	}
	name, value := c.Args().Get(0), c.Args().Get(1)
	if err := acceptable(c, lease.CheckName(name)); err != nil {
		return err
	}
	if c.IsSet("lease") {
		if !c.IsSet("token") {
			return usagef(c, "--lease needs the --token of its grant")
		}
		if err := lease.CheckName(f.lease); err != nil {
			return usagef(c, "--lease: %v", err)
		}
	}
	if value == "-" {
		var err error
		if value, err = readValue(c.Context, p.stdin); err != nil {
			return err
		}
	}
	if err := acceptable(c, lease.CheckValue(value)); err != nil {
		return err
	}
	cl, err := p.client(c, f.access)
	if err != nil {
		return err
	}
	defer cl.Close()
	written, err := cl.PutRegister(c.Context, name, wire.WriteRequest{Value: value, Token: uint64(f.token), Lease: f.lease})
	if errors.Is(err, client.ErrUnknown) {
		return fmt.Errorf("%w\nto learn it: leasehold register get %s", err, name)
	}
	if err != nil {
		return err
	}
	if f.json {
		return p.printJSON(written)
	}
	return p.printWritten(written)
}

// readValue reads standard input, as far as a value may be long and one byte
// more. It does not outlast the signal that ends the command.
func readValue(ctx context.Context, stdin io.Reader) (string, error) {
	type result struct {
		value []byte
		err   error
	}
	read := make(chan result, 1)
	go func() {
		value, err := io.ReadAll(io.LimitReader(stdin, lease.MaxValueLen+1))
		read <- result{value, err}
	}()
	select {
	case r := <-read:
		if r.err != nil {
			return "", fmt.Errorf("standard input cannot be read: %w", r.err)
		}
		return string(r.value), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (p *program) printWritten(w wire.Write) error {
	t := newTable(p.stdout)
	t.row("name", w.Name)
	t.row("verdict", w.Verdict)
	switch {
	case !w.Fenced:
		t.row("fenced", "no: it came without a token, so nothing was checked")
	case w.Lease != "":
		t.row("fenced", fmt.Sprintf("by token %d, which is live for %s", w.Token, w.Lease))
	default:
		t.row("fenced", fmt.Sprintf("by token %d", w.Token))
	}
	t.row("highest token", highest(w.HighestToken))
	t.row("writes", fmt.Sprintf("%d accepted, %d refused", w.Accepted, w.Refused))
	t.row("index", number(w.Index))
	return t.flush()
}

func highest(token uint64) string {
	if token == 0 {
		return "none seen yet"
	}
	return number(token)
}

func (p *program) registerGetCommand() *urfave.Command {
	f := &getFlags{access: newAccess()}
	return &urfave.Command{
		Name:        "get",
		Usage:       "show a value and the latest writes",
		UsageText:   "leasehold register get [--stale] NAME",
		Description: fmt.Sprintf("Shows the last %d writes with their verdicts, the refused ones too, oldest first.", lease.WritesKept),
		Flags:       append([]urfave.Flag{staleFlag(&f.stale)}, f.flags()...),
		Action:      func(c *urfave.Context) error { return p.registerGet(c, f) },
	}
}

func (p *program) registerGet(c *urfave.Context, f *getFlags) error {
	name, err := oneNameOf(c, "register")
	if err != nil {
		return err
	}
	cl, err := p.client(c, f.access)
	if err != nil {
		return err
	}
	defer cl.Close()
	reg, err := cl.Register(c.Context, name, consistency(f.stale))
	if err != nil {
		return err
	}
	if f.json {
		return p.printJSON(reg)
	}
	return p.printRegister(reg, time.Now())
}

func (p *program) printRegister(reg wire.Register, now time.Time) error {
	t := newTable(p.stdout)
	t.row("name", reg.Name)
	if reg.Accepted == 0 {
		t.row("value", "(never written)")
	} else {
		t.row("value", reg.Value)
	}
	t.row("highest token", highest(reg.HighestToken))
	t.row("writes", fmt.Sprintf("%d accepted, %d refused", reg.Accepted, reg.Refused))
	t.row("index", number(reg.Index))
	if reg.StaleRead != nil {
		t.row("stale", staleness(*reg.StaleRead))
	}
	if err := t.flush(); err != nil || len(reg.Writes) == 0 {
		return err
	}
	fmt.Fprintln(p.stdout)
	t = newTable(p.stdout)
	t.row("INDEX", "TOKEN", "LEASE", "VERDICT", "WHEN")
	for _, w := range reg.Writes {
		token := "none"
		if w.Token != 0 {
			token = number(w.Token)
		}
		t.row(number(w.Index), token, cmp.Or(w.Lease, "-"), w.Verdict, age(now, w.At))
	}
	return t.flush()
}
