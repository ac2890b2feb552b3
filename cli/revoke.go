package cli

import (
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"leasehold/httpapi/wire"
	"leasehold/lease"
)

type revokeFlags struct {
	*access
	token  token
	reason string
}

func (p *program) revokeCommand() *urfave.Command {
	f := &revokeFlags{access: newAccess()}
	return &urfave.Command{
		Name:      "revoke",
		Usage:     "take a lease away from its holder",
		UsageText: "leasehold revoke --token TOKEN --reason TEXT NAME",
		Description: "For operators. The holder learns it, with the reason, when it next renews or releases; until then it believes\n" +
			"that it holds the lease, so what it writes must be fenced. Revoking again what was revoked is a success.\n" +
			"Exits 123 if the token is not live and was not revoked.",
		Flags: append([]urfave.Flag{
			&urfave.GenericFlag{Name: "token", Value: &f.token, Usage: "the fencing `TOKEN` of the grant, as get shows it"},
			&urfave.StringFlag{Name: "reason", Destination: &f.reason, Usage: "`TEXT` that says why, for the holder and for the record"},
		}, f.flags()...),
		Action: func(c *urfave.Context) error { return p.revoke(c, f) },
	}
}

func (p *program) revoke(c *urfave.Context, f *revokeFlags) error {
	name, err := oneName(c)
	err = first(required(c, "token"), required(c, "reason"), err, acceptable(c, lease.CheckReason(f.reason)))
	if err != nil {
		return err
	}
	cl, err := p.client(c, f.access)
	if err != nil {
		return err
	}
	defer cl.Close()
	revoked, err := cl.Revoke(c.Context, wire.RevokeRequest{Name: name, Token: uint64(f.token), Reason: f.reason})
	if err != nil {
		return err
	}
	if f.json {
		return p.printJSON(revoked)
	}
	when := ""
	if revoked.Already {
		when = "already "
	}
	_, err = fmt.Fprintf(p.stdout, "%s: token %d %srevoked at index %d\n", revoked.Name, revoked.Token, when, revoked.Index)
	return err
}
