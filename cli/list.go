package cli

import (
	"cmp"
	"fmt"
	"time"

	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
	"leasehold/httpapi/wire"
)

// pageSize is the largest page that a server gives.
const pageSize = 1000

type listFlags struct {
	*access
	prefix string
	stale  bool
}

func (p *program) listCommand() *urfave.Command {
	f := &listFlags{access: newAccess()}
	return &urfave.Command{
		Name:      "list",
		Usage:     "show the leases that are held or cooling",
		UsageText: "leasehold list [--prefix PREFIX] [--stale]",
		Description: fmt.Sprintf("In the order of their names, read in pages of %d. Each page shows one moment; the pages follow each other.\n"+
			"With --json: one lease a line.", pageSize),
		Flags: append([]urfave.Flag{
			&urfave.StringFlag{Name: "prefix", Destination: &f.prefix, Usage: "only names that start with `PREFIX`"},
			staleFlag(&f.stale),
		}, f.flags()...),
		Action: func(c *urfave.Context) error { return p.list(c, f) },
	}
}

func (p *program) list(c *urfave.Context, f *listFlags) error {
	if err := noArguments(c); err != nil {
		return err
	}
	cl, err := p.client(c, f.access)
	if err != nil {
		return err
	}
	defer cl.Close()
	query := client.LeasesQuery{Prefix: f.prefix, Limit: pageSize, Consistency: consistency(f.stale)}
	for first := true; ; first = false {
		page, err := cl.Leases(c.Context, query)
		if err != nil {
			return err
		}
		if err := p.printPage(f, page, first); err != nil {
			return err
		}
		if page.Next == "" {
			return nil
		}
		if page.Next <= query.After {
			return fmt.Errorf("the page after %q is said to begin after %q, which does not lead on", query.After, page.Next)
		}
		query.After = page.Next
	}
}

func (p *program) printPage(f *listFlags, page wire.Leases, first bool) error {
	if f.json {
		for _, l := range page.Leases {
			if err := p.printJSON(l); err != nil {
				return err
			}
		}
		return nil
	}
	if first && len(page.Leases) == 0 {
		_, err := fmt.Fprintln(p.stdout, "no leases are held")
		return err
	}
	t := newTable(p.stdout)
	if first {
		t.row("NAME", "STATE", "HOLDER", "TOKEN", "TTL", "REMAINING", "WAITERS", "GRANTED", "RENEWED", "LAST GRANT", "VALUE")
	}
	now := time.Now()
	for _, l := range page.Leases {
		t.row(listed(l, now)...)
	}
	if page.StaleRead != nil && page.Next == "" {
		t.row("stale: " + staleness(*page.StaleRead))
	}
	return t.flush()
}

// listed is the row of a lease. A dash stands for what it does not have.
func listed(l wire.Lease, now time.Time) []string {
	last := "-"
	if l.Last != nil {
		last = fmt.Sprintf("%d %s %s", l.Last.Token, cmp.Or(l.Last.How, "ended"), age(now, l.Last.At))
	}
	left, waiters := remaining(l.RemainingMillis), number(l.Waiters)
	if l.Token == 0 { // cooling: what is left is of its lock delay
		return []string{l.Name, l.State, "-", "-", "-", left, waiters, "-", "-", last, "-"}
	}
	renewed := "never"
	if l.Renewals > 0 {
		renewed = age(now, l.RenewedAt)
	}
	return []string{
		l.Name, l.State, l.Holder, number(l.Token), millis(l.TTLMillis).String(), left, waiters,
		age(now, l.GrantedAt), renewed, last, cmp.Or(l.Value, "-"),
	}
}
