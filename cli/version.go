package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	urfave "github.com/urfave/cli/v2"

	"leasehold/httpapi/wire"
)

// released is the version, set when a release is built:
// -ldflags "-X leasehold/cli.released=v1.0.0".
var released string

// version says what this program is: its release, or the commit that it was
// built from.
func version() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}

func (p *program) versionCommand() *urfave.Command {
	a := newAccess()
	return &urfave.Command{
		Name:        "version",
		Usage:       "show the version of this program, and of servers",
		UsageText:   "leasehold version [--server HOST:PORT,…]",
		Description: "Servers are asked only if --server names them.",
		Flags:       a.flags(),
		Action:      func(c *urfave.Context) error { return p.version(c, a) },
	}
}

func (p *program) version(c *urfave.Context, a *access) error {
	if err := noArguments(c); err != nil {
		return err
	}
	if err := p.printVersion(a, "leasehold", wire.Version{Version: version(), Go: runtime.Version()}); err != nil {
		return err
	}
	if !c.IsSet("server") {
		return nil
	}
	cl, err := p.client(c, a)
	if err != nil {
		return err
	}
	defer cl.Close()
	for _, server := range p.addresses(a) {
		v, err := cl.Version(c.Context, server)
		if err != nil {
			return err
		}
		if err := p.printVersion(a, server, v); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) printVersion(a *access, of string, v wire.Version) error {
	if a.json {
		return p.printJSON(v)
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s %s\n", of, v.Version, v.Go)
	return err
}
