package cli

import (
	"cmp"
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"leasehold/httpapi/wire"
	"leasehold/lease"
)

func (p *program) requestsCommand() *urfave.Command {
	a := newAccess()
	return &urfave.Command{
		Name:      "requests",
		Usage:     "show what became of an acquire",
		UsageText: "leasehold requests ID",
		Description: "Looks for the request id among the grants that are live, the queues, and the latest grants that ended. The same\n" +
			"id for another lease, or by another holder, is another request, so there may be several.",
		Flags:  a.flags(),
		Action: func(c *urfave.Context) error { return p.requests(c, a) },
	}
}

func (p *program) requests(c *urfave.Context, a *access) error {
	if !c.Args().Present() {
		return usagef(c, "the ID of a request is missing")
	}
	if c.NArg() != 1 {
		return usagef(c, "one request ID is expected, but there are %d", c.NArg())
	}
	id := c.Args().First()
	if err := acceptable(c, lease.CheckRequestID(id)); err != nil {
		return err
	}
	cl, err := p.client(c, a)
	if err != nil {
		return err
	}
	defer cl.Close()
	known, err := cl.Requests(c.Context, id)
	if err != nil {
		return err
	}
	if !a.json {
		return p.printRequests(known)
	}
	for _, r := range known {
		if err := p.printJSON(r); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) printRequests(known []wire.Request) error {
	if len(known) == 0 {
		_, err := fmt.Fprintf(p.stdout, "nothing is known of this request: it holds nothing, waits for nothing, and made none of the last %d grants that ended\n", lease.EndedKept)
		return err
	}
	t := newTable(p.stdout)
	t.row("NAME", "HOLDER", "STATE", "TOKEN", "INDEX", "REASON")
	for _, r := range known {
		state, token := r.State, "-"
		if r.How != "" {
			state = r.How // how it ended says that it did
		}
		if r.Token != 0 {
			token = number(r.Token)
		}
		t.row(r.Name, r.Holder, state, token, number(r.Index), cmp.Or(r.Reason, "-"))
	}
	return t.flush()
}
