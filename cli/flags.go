package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
	"leasehold/lease"
)

// defaultServers are the nodes of the cluster that scripts/cluster.sh starts.
const defaultServers = "127.0.0.1:8001,127.0.0.1:8002,127.0.0.1:8003"

// serversVariable names the servers when --server does not.
const serversVariable = "LEASEHOLD_SERVER"

// access is how a command reaches the cluster, and how it prints what it learns.
type access struct {
	servers urfave.StringSlice
	timeout millis
	json    bool
}

func newAccess() *access {
	return &access{timeout: millis(client.DefaultTimeout.Milliseconds())}
}

func (a *access) flags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringSliceFlag{
			Name: "server", Destination: &a.servers, DefaultText: "$" + serversVariable + ", or " + defaultServers,
			Usage: "nodes to ask, as `HOST:PORT`, several with commas or by repeating the flag",
		},
		&urfave.GenericFlag{
			Name: "timeout", Value: &a.timeout,
			Usage: "how long to go on asking while no node can serve, as `DURATION`",
		},
		&urfave.BoolFlag{Name: "json", Destination: &a.json, Usage: "print JSON, one object a line"},
	}
}

// addresses gives the servers to ask.
func (p *program) addresses(a *access) []string {
	if given := a.servers.Value(); len(given) > 0 {
		return given
	}
	list := p.env(serversVariable)
	if list == "" {
		list = defaultServers
	}
	addresses := strings.Split(list, ",")
	for i := range addresses {
		addresses[i] = strings.TrimSpace(addresses[i])
	}
	return addresses
}

// client gives a client for the cluster. The caller closes it.
func (p *program) client(c *urfave.Context, a *access) (*client.API, error) {
	cl, err := client.NewAPI(client.Config{Servers: p.addresses(a), Timeout: a.timeout.duration()})
	if err != nil {
		return nil, usagef(c, "%v", err)
	}
	return cl, nil
}

// oneName gives the only argument of a command, which names a lease.
func oneName(c *urfave.Context) (string, error) { return oneNameOf(c, "lease") }

func oneNameOf(c *urfave.Context, what string) (string, error) {
	switch c.NArg() {
	case 1:
	case 0:
		return "", usagef(c, "the NAME of a %s is missing", what)
	default:
		return "", usagef(c, "one NAME is expected, but there are %d: %q", c.NArg(), c.Args().Slice())
	}
	name := c.Args().First()
	return name, acceptable(c, lease.CheckName(name))
}

// noArguments refuses arguments to a command that takes none.
func noArguments(c *urfave.Context) error {
	if c.Args().Present() {
		return usagef(c, "no arguments are expected, but there are: %q", c.Args().Slice())
	}
	return nil
}

// required refuses an empty flag. (The library's own check prints the whole help.)
func required(c *urfave.Context, flag string) error {
	if !c.IsSet(flag) {
		return usagef(c, "--%s is missing", flag)
	}
	return nil
}

// acceptable makes a usage error of a failed check.
func acceptable(c *urfave.Context, err error) error {
	if err != nil {
		return usagef(c, "%v", err)
	}
	return nil
}

// first gives the first error of some checks, in their order.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// millis is a duration on the command line: written as Go writes it, more than
// zero, and in whole milliseconds, which is the unit of the API.
type millis int64

func (m *millis) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("a duration is written like 500ms, 10s or 1m30s")
	case d <= 0:
		return errors.New("a duration is more than 0")
	case d%time.Millisecond != 0:
		return errors.New("a duration is in whole milliseconds")
	}
	*m = millis(d.Milliseconds())
	return nil
}

func (m millis) String() string {
	switch {
	case m > math.MaxInt64/millis(time.Millisecond):
		return strconv.FormatInt(int64(m), 10) + "ms" // a server's, too long for a Duration
	case m == 0:
		return ""
	}
	return m.duration().String()
}

func (m millis) duration() time.Duration { return time.Duration(m) * time.Millisecond }

// token is a fencing token on the command line. Only decimal: the library would
// take 010 for 8.
type token uint64

func (t *token) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return errors.New("a token is a positive whole number")
	}
	*t = token(n)
	return nil
}

func (t token) String() string {
	if t == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(t), 10)
}

// grantFlags name a grant, for renew and release.
type grantFlags struct {
	holder string
	token  token
}

func (g *grantFlags) flags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "holder", Destination: &g.holder, Usage: "the `HOLDER` of the grant"},
		&urfave.GenericFlag{Name: "token", Value: &g.token, Usage: "the fencing `TOKEN` of the grant"},
	}
}

// check gives the name of the lease if the command line names a grant.
func (g *grantFlags) check(c *urfave.Context) (name string, err error) {
	if err := first(required(c, "holder"), required(c, "token")); err != nil {
		return "", err
	}
	if name, err = oneName(c); err != nil {
		return "", err
	}
	return name, acceptable(c, lease.CheckHolder(g.holder))
}

// grantUsage is the form of renew and release.
func grantUsage(command, more string) string {
	return fmt.Sprintf("leasehold %s --holder HOLDER --token TOKEN %sNAME", command, more)
}
