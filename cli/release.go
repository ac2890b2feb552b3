package cli

import (
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"leasehold/httpapi/wire"
)

type releaseFlags struct {
	*access
	grant grantFlags
}

func (p *program) releaseCommand() *urfave.Command {
	f := &releaseFlags{access: newAccess()}
	return &urfave.Command{
		Name:      "release",
		Usage:     "give a lease back",
		UsageText: grantUsage("release", ""),
		Description: "Releasing again what was released is a success.\n" +
			"Exits 123 if the grant of the token ended in another way.",
		Flags:  append(f.grant.flags(), f.flags()...),
		Action: func(c *urfave.Context) error { return p.release(c, f) },
	}
}

func (p *program) release(c *urfave.Context, f *releaseFlags) error {
	name, err := f.grant.check(c)
	if err != nil {
		return err
	}
	cl, err := p.client(c, f.access)
	if err != nil {
		return err
	}
	defer cl.Close()
	released, err := cl.Release(c.Context, wire.ReleaseRequest{
		Name: name, Holder: f.grant.holder, Token: uint64(f.grant.token),
	})
	if err != nil {
		return err
	}
	if f.json {
		return p.printJSON(released)
	}
	when := ""
	if released.Already {
		when = "already "
	}
	_, err = fmt.Fprintf(p.stdout, "%s: token %d %sreleased at index %d\n", released.Name, released.Token, when, released.Index)
	return err
}
