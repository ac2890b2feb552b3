package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
)

func (p *program) electCommand() *urfave.Command {
	f := &runFlags{access: newAccess(), ttl: defaultTTL}
	return &urfave.Command{
		Name:  "elect",
		Usage: "run a command as leader, again and again",
		UsageText: "leasehold elect [--ttl 10s] [--wait 20s] [--holder HOLDER] [--value TEXT] NAME -- COMMAND [ARGUMENT…]\n" +
			"leasehold elect --observe NAME",
		Description: "Campaigns for the lease for ever, or up to --wait each time, and runs the command while it holds the lease. After a lost\n" +
			"lease, and after a command that exits 0, it campaigns again; any other exit code of the command is its own.\n" +
			underLease + "\n" +
			"With --observe it only prints who has the lease and with which value, now and whenever that changes; with --json one\n" +
			"object a line.",
		Flags: append([]urfave.Flag{
			&urfave.BoolFlag{Name: "observe", Destination: &f.observe, Usage: "show the leader as it changes, and run nothing"},
		}, f.flags()...),
		Action: func(c *urfave.Context) error { return p.elect(c, f) },
	}
}

func (p *program) elect(c *urfave.Context, f *runFlags) error {
	if f.observe {
		return p.observe(c, f)
	}
	name, command, err := p.runArguments(c, f)
	if err != nil {
		return err
	}
	ctx, stops := catchSignals(c.Context)
	defer stops.release()
	cl, err := p.holderClient(c, f)
	if err != nil {
		return err
	}
	options := client.ElectOptions{AcquireOptions: f.options(), OnError: func(err error) {
		fmt.Fprintf(p.stderr, "leasehold: %s; campaigning again\n", printable(err.Error()))
	}}
	var stopped error // of the command that ran when a stop came
	err = cl.Elect(ctx, name, options, func(_ context.Context, l *client.Lease) error {
		fmt.Fprintf(p.stderr, "leasehold: leading %s with token %d\n", l.Name(), l.Token())
		result, err := p.runUnder(l, command, stops)
		switch {
		case err != nil:
			return err
		case !result.gone:
			return result.after(giveBack(l, result))
		case result.lost != nil:
			if l.Err() == nil { // it is not lost yet, and is given back
				options.OnError(result.lost)
			}
			return l.Err()
		}
		stopped = result.after(nil)
		if ctx.Err() != nil && stopped == nil {
			stopped = &exitStatus{code: exitDone}
		}
		return stopped
	})
	if stopped != nil && ctx.Err() != nil {
		err = stopped
	}
	_ = cl.Close()
	return failedRun(err)
}

// observe prints the holder and the value of a lease as they change.
func (p *program) observe(c *urfave.Context, f *runFlags) error {
	name, err := oneName(c)
	if err == nil {
		err = p.checkRun(c, f, name)
	}
	if err != nil {
		return err
	}
	cl, err := p.holderClient(c, f)
	if err != nil {
		return err
	}
	defer cl.Close()
	for seen, err := range cl.Observe(c.Context, name) {
		if stopped := context.Cause(c.Context); stopped != nil {
			return stopped
		}
		if err != nil {
			if exitCode(err) == exitUsage {
				return err
			}
			fmt.Fprintf(p.stderr, "leasehold: %s; looking again\n", printable(err.Error()))
			continue
		}
		if err := p.printHolding(f, seen); errors.Is(err, syscall.EPIPE) {
			return nil // whoever read this has seen enough
		} else if err != nil {
			return err
		}
	}
	return nil
}

// holding is a line of elect --observe --json.
type holding struct {
	Name      string `json:"name"`
	Holder    string `json:"holder"` // empty: nobody has it
	Token     uint64 `json:"token"`
	Value     string `json:"value"`
	ClusterID string `json:"cluster_id"`
	Index     uint64 `json:"index"`
}

func (p *program) printHolding(f *runFlags, h client.Holding) error {
	if f.json {
		return p.printJSON(holding{h.Name, h.Holder, h.Token, h.Value, h.ClusterID, h.Index})
	}
	var err error
	if h.Vacant() {
		_, err = fmt.Fprintf(p.stdout, "%d  nobody\n", h.Index)
	} else {
		_, err = fmt.Fprintf(p.stdout, "%d  %s  token %d  %s\n", h.Index, printable(h.Holder), h.Token, printable(h.Value))
	}
	return err
}
