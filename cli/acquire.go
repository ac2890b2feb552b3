package cli

import (
	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// defaultTTL of a grant asked for on the command line.
const defaultTTL = millis(10_000)

type acquireFlags struct {
	*access
	holder, value, requestID string
	ttl, wait, lockDelay     millis
	reclaim                  bool
}

func (p *program) acquireCommand() *urfave.Command {
	f := &acquireFlags{access: newAccess(), ttl: defaultTTL}
	return &urfave.Command{
		Name:      "acquire",
		Usage:     "ask for a lease",
		UsageText: "leasehold acquire [--holder HOLDER] [--ttl 10s] [--wait 1m] [--value TEXT] [--request-id ID] [--lock-delay 5s] [--reclaim] NAME",
		Description: "Prints the grant with its fencing token, and leaves the lease held: renew it before its TTL is over.\n" +
			"With --wait it stands in the queue of the lease, for first come is first served, and keeps its place when\n" +
			"the leader changes. Exits 75 if the lease is not to be had, at once or in that time.",
		Flags: append([]urfave.Flag{
			&urfave.StringFlag{Name: "holder", Destination: &f.holder, DefaultText: "host-pid-random", Usage: "who asks, as `HOLDER`"},
			&urfave.GenericFlag{Name: "ttl", Value: &f.ttl, Usage: "how long the grant lasts without renewal, as `DURATION`"},
			&urfave.GenericFlag{Name: "wait", Value: &f.wait, Usage: "stand in the queue for up to `DURATION`, at most 10m"},
			&urfave.StringFlag{Name: "value", Destination: &f.value, Usage: "`TEXT` to publish with the grant, such as an address"},
			&urfave.StringFlag{Name: "request-id", Destination: &f.requestID, DefaultText: "random", Usage: "`ID` of this attempt; repeat it to learn an outcome that was lost"},
			&urfave.GenericFlag{Name: "lock-delay", Value: &f.lockDelay, Usage: "keep the lease closed for `DURATION` after this grant has expired or was revoked, at most 1m"},
			&urfave.BoolFlag{Name: "reclaim", Destination: &f.reclaim, Usage: "take over from an older grant of the same holder"},
		}, f.flags()...),
		Action: func(c *urfave.Context) error { return p.acquire(c, f) },
	}
}

func (p *program) acquire(c *urfave.Context, f *acquireFlags) error {
	name, err := oneName(c)
	if err != nil {
		return err
	}
	if !c.IsSet("holder") {
		f.holder = client.NewHolder()
	}
	if c.IsSet("request-id") {
		err = acceptable(c, lease.CheckRequestID(f.requestID))
	}
	err = first(err, acceptable(c, lease.CheckHolder(f.holder)), acceptable(c, lease.CheckValue(f.value)))
	if err != nil {
		return err
	}
	cl, err := p.client(c, f.access)
	if err != nil {
		return err
	}
	defer cl.Close()
	grant, err := cl.Acquire(c.Context, wire.AcquireRequest{
		Name: name, Holder: f.holder, TTLMillis: int64(f.ttl),
		WaitMillis: int64(f.wait), LockDelayMillis: int64(f.lockDelay),
		Value: f.value, RequestID: f.requestID, Reclaim: f.reclaim,
	})
	if err != nil {
		return err
	}
	return p.printGrant(f.access, grant)
}
