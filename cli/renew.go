package cli

import (
	urfave "github.com/urfave/cli/v2"

	"leasehold/httpapi/wire"
	"leasehold/lease"
)

type renewFlags struct {
	*access
	grant grantFlags
	ttl   millis
	value string
}

func (p *program) renewCommand() *urfave.Command {
	f := &renewFlags{access: newAccess()}
	more := []urfave.Flag{
		&urfave.GenericFlag{Name: "ttl", Value: &f.ttl, DefaultText: "as it is", Usage: "a new TTL for the grant, as `DURATION`"},
		&urfave.StringFlag{Name: "value", Destination: &f.value, DefaultText: "as it is", Usage: "a new `TEXT` to publish"},
	}
	return &urfave.Command{
		Name:        "renew",
		Usage:       "keep a grant alive for its whole TTL from now",
		UsageText:   grantUsage("renew", "[--ttl 10s] [--value TEXT] "),
		Description: "Exits 123 if the grant of the token is over.",
		Flags:       append(append(f.grant.flags(), more...), f.flags()...),
		Action:      func(c *urfave.Context) error { return p.renew(c, f) },
	}
}

func (p *program) renew(c *urfave.Context, f *renewFlags) error {
	name, err := f.grant.check(c)
	if err != nil {
		return err
	}
	request := wire.RenewRequest{
		Name: name, Holder: f.grant.holder, Token: uint64(f.grant.token), TTLMillis: int64(f.ttl),
	}
	if c.IsSet("value") { // also to the empty text
		if err := acceptable(c, lease.CheckValue(f.value)); err != nil {
			return err
		}
		request.Value = &f.value
	}
	cl, err := p.client(c, f.access)
	if err != nil {
		return err
	}
	defer cl.Close()
	grant, err := cl.Renew(c.Context, request)
	if err != nil {
		return err
	}
	return p.printGrant(f.access, grant)
}
