package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
	"leasehold/faults"
	"leasehold/httpapi/wire"
)

type scheduleFlags struct {
	*access
	file string
}

// player plays a schedule against a cluster.
type player struct {
	*program
	access *access
	api    *client.API
	// address of each node, from the start on: a node must be found even when it is
	// cut off from us.
	address map[string]string
	begun   []wire.Fault
	at      []string // the addresses of those
}

func (p *program) playSchedule(c *urfave.Context, f *scheduleFlags) error {
	if err := noArguments(c); err != nil {
		return err
	}
	schedule, err := p.readSchedule(f.file)
	if err != nil {
		return usagef(c, "--schedule: %v", err)
	}
	for i, step := range schedule {
		if step.Kind.OfProcess() {
			return usagef(c, "--schedule: step %d is %s on %s, which takes one who can start and stop the process; this command plays what nodes do to themselves", i+1, step.Kind, step.Node)
		}
	}
	cl, err := p.client(c, f.access)
	if err != nil {
		return err
	}
	defer cl.Close()
	play := &player{program: p, access: f.access, api: cl, address: make(map[string]string)}
	nodes := p.askNodes(c.Context, f.access, cl)
	for _, n := range nodes {
		if n.ID != "" {
			play.address[n.ID] = n.Address
		}
	}
	if len(play.address) == 0 {
		return silence(c.Context, nodes)
	}
	return play.run(c.Context, schedule)
}

func (p *program) readSchedule(file string) (faults.Schedule, error) {
	var in io.Reader = p.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	schedule, err := faults.ReadSchedule(in)
	if err == nil && len(schedule) == 0 {
		err = errors.New("there is no step in it")
	}
	return schedule, err
}

// run begins each step when it is due. A step that fails is told and does not stop
// the rest. A signal stops it, and heals what has begun.
func (p *player) run(ctx context.Context, schedule faults.Schedule) error {
	var failed []error
	start := time.Now()
	for _, step := range schedule {
		timer := time.NewTimer(time.Until(start.Add(step.At())))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			p.healAll()
			return context.Cause(ctx)
		}
		if err := p.begin(ctx, step); err != nil {
			failed = append(failed, fmt.Errorf("at %v, %s on %s: %w", step.At(), step.Kind, step.Node, err))
			fmt.Fprintf(p.stderr, "%v\n", failed[len(failed)-1])
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d steps failed", len(failed), len(schedule))
	}
	return nil
}

// begin puts a step on the nodes that it is for.
func (p *player) begin(ctx context.Context, step faults.Step) error {
	ids, err := p.resolve(ctx, step.Node)
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range ids {
		begun, err := p.api.BeginFault(ctx, p.address[id], wire.FaultRequest{Fault: step.Fault})
		if err != nil {
			failed = append(failed, err)
			continue
		}
		p.begun, p.at = append(p.begun, begun), append(p.at, p.address[id])
		if err := p.printBegun(step, id, begun); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

func (p *player) printBegun(step faults.Step, id string, begun wire.Fault) error {
	if p.access.json {
		return p.printJSON(struct {
			At   int64  `json:"at_ms"`
			Node string `json:"node"`
			wire.Fault
		}{step.AtMillis, id, begun})
	}
	_, err := fmt.Fprintf(p.stdout, "%8v  %s: %s %s\n", step.At(), id, begun.ID, begun.Fault)
	return err
}

// resolve asks who leads only if the step is for a role.
func (p *player) resolve(ctx context.Context, target string) ([]string, error) {
	var ids []string
	for id := range p.address {
		ids = append(ids, id)
	}
	if _, named := p.address[target]; named || target == faults.All {
		return faults.Resolve(target, "", ids)
	}
	leader, term := "", uint64(0)
	for _, n := range p.askNodes(ctx, p.access, p.api) {
		if n.err == nil && n.status.Role == "leader" && n.status.Term > term {
			leader, term = n.ID, n.status.Term
		}
	}
	return faults.Resolve(target, leader, ids)
}

// healAll ends what has begun and is not over.
func (p *player) healAll() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for i, f := range p.begun {
		_, _ = p.api.HealFault(ctx, p.at[i], f.ID) // it heals by itself
	}
}
