package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"

	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
	"leasehold/lease"
)

// runFlags are those of exec and elect, which run a command under a lease.
type runFlags struct {
	*access
	holder, value        string
	ttl, wait, lockDelay millis
	observe              bool // elect only
}

func (f *runFlags) flags() []urfave.Flag {
	return append([]urfave.Flag{
		&urfave.StringFlag{Name: "holder", Destination: &f.holder, DefaultText: "host-pid-random", Usage: "who asks, as `HOLDER`"},
		&urfave.GenericFlag{Name: "ttl", Value: &f.ttl, Usage: "how long the grant lasts without renewal, as `DURATION`"},
		&urfave.GenericFlag{Name: "wait", Value: &f.wait, Usage: "stand in the queue for up to `DURATION`, at most 10m"},
		&urfave.StringFlag{Name: "value", Destination: &f.value, Usage: "`TEXT` to publish with the grant, such as an address"},
		&urfave.GenericFlag{Name: "lock-delay", Value: &f.lockDelay, Usage: "keep the lease closed for `DURATION` after this grant has expired or was revoked, at most 1m"},
	}, f.access.flags()...)
}

func (f *runFlags) options() client.AcquireOptions {
	return client.AcquireOptions{TTL: f.ttl.duration(), Wait: f.wait.duration(), Value: f.value, LockDelay: f.lockDelay.duration()}
}

// underLease is what both commands say of the command that they run.
const underLease = "The command runs in a process group of its own, with LEASEHOLD_NAME, _TOKEN, _HOLDER and _CLUSTER_ID in its environment.\n" +
	"Signals are passed on to the group; a second TERM or INT kills all. When the command has ended, all that it has started\n" +
	"and left is killed, and then the lease is released. When the lease is lost, or about to be, all get a TERM, and a KILL\n" +
	"in time to be dead before the lease could be granted to another because it has expired. (A revoke hands it over at\n" +
	"once; --lock-delay is for that.) The same by a second process, if leasehold itself is stopped or killed. On Linux \"all\"\n" +
	"are the command and its descendants, daemons too; elsewhere, its process group. What others start for it (systemd-run,\n" +
	"at, docker) is not covered: only what compares the token can refuse that."

func (p *program) execCommand() *urfave.Command {
	f := &runFlags{access: newAccess(), ttl: defaultTTL}
	return &urfave.Command{
		Name:      "exec",
		Usage:     "run a command while holding a lease",
		UsageText: "leasehold exec [--ttl 10s] [--wait 20s] [--holder HOLDER] [--value TEXT] NAME -- COMMAND [ARGUMENT…]",
		Description: underLease + "\n" +
			"Exits with the code of the command, 128+n if signal n ended it, 126 or 127 if it cannot be run, 75 if the lease is\n" +
			"not to be had, 123 if it was lost, 125 if no server could be reached or leasehold failed.",
		Flags:  f.flags(),
		Action: func(c *urfave.Context) error { return p.exec(c, f) },
	}
}

func (p *program) exec(c *urfave.Context, f *runFlags) error {
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
	l, err := cl.Acquire(ctx, name, f.options())
	if err == nil {
		var result jobResult
		result, err = p.runUnder(l, command, stops)
		if err == nil {
			err = result.after(giveBack(l, result))
		}
	}
	if err == nil {
		return cl.Close()
	}
	_ = cl.Close() // and with it, whatever an acquire that was stopped has left
	return failedRun(err)
}

// giveBack releases the lease of a command that has ended, unless a part of it goes
// on.
func giveBack(l *client.Lease, result jobResult) error {
	if result.gone {
		return l.Release()
	}
	l.Drop()
	return nil
}

// failedRun is the error of a command under a lease. What is neither the command's
// nor about the lease is a failure of leasehold.
func failedRun(err error) error {
	if _, decided := errors.AsType[*exitStatus](err); !decided && exitCode(err) == exitError {
		return &exitStatus{exitUnavailable, err}
	}
	return err
}

// exitStatus is an error with an exit code of its own. It is reported only if it
// has a cause.
type exitStatus struct {
	code  int
	cause error
}

func (e *exitStatus) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.cause.Error()
}

func (e *exitStatus) Unwrap() error { return e.cause }

// runArguments gives the name of the lease and the command, which exists.
func (p *program) runArguments(c *urfave.Context, f *runFlags) (name string, command []string, err error) {
	args := c.Args().Slice()
	switch {
	case len(args) == 0:
		return "", nil, usagef(c, "the NAME of a lease is missing")
	case len(args) == 1:
		return "", nil, usagef(c, "the command is missing; it follows after --")
	case args[1] != "--":
		return "", nil, usagef(c, "one NAME is expected, and then -- before the command")
	case len(args) == 2:
		return "", nil, usagef(c, "the command is missing after --")
	}
	name, command = args[0], args[2:]
	if err := p.checkRun(c, f, name); err != nil {
		return "", nil, err
	}
	// Before the lease is asked for: nobody should wait for a slip of the pen.
	if _, err := exec.LookPath(command[0]); err != nil {
		return "", nil, cannotRun(command[0], err)
	}
	return name, command, nil
}

// checkRun checks what the command line says about the lease.
func (p *program) checkRun(c *urfave.Context, f *runFlags, name string) error {
	if !c.IsSet("holder") {
		f.holder = client.NewHolder()
	}
	return first(acceptable(c, lease.CheckName(name)), acceptable(c, lease.CheckHolder(f.holder)), acceptable(c, lease.CheckValue(f.value)))
}

// cannotRun gives the exit codes that a shell gives.
func cannotRun(command string, err error) error {
	code := 126
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = 127
	}
	var inner *exec.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return &exitStatus{code, fmt.Errorf("%s: %w", command, err)}
}

// holderClient gives a client that holds leases. The caller closes it.
func (p *program) holderClient(c *urfave.Context, f *runFlags) (*client.Client, error) {
	cl, err := client.New(client.Config{Servers: p.addresses(f.access), Timeout: f.timeout.duration(), Holder: f.holder})
	if err != nil {
		return nil, usagef(c, "%v", err)
	}
	return cl, nil
}

// jobResult is how a command under a lease ended.
type jobResult struct {
	code int   // its exit code, or 128+n
	lost error // why it was ended, nil if it was not
	gone bool  // nothing of it is left
}

// after gives the error for a command after the release of its lease.
func (r jobResult) after(release error) error {
	switch {
	case r.lost != nil && !r.gone:
		return &exitStatus{exitLost, fmt.Errorf("%w; some processes of the command cannot be killed, and go on", r.lost)}
	case r.lost != nil:
		return &exitStatus{exitLost, fmt.Errorf("%w; the command has ended", r.lost)}
	case !r.gone:
		return &exitStatus{r.code, errors.New("the command has ended, but some of its processes cannot be killed and go on, " +
			"so the lease is not released; it ends by its TTL")}
	case errors.Is(release, client.ErrLost) && r.code == 0:
		return &exitStatus{exitLost, fmt.Errorf("%w; the command had ended by then", release)}
	case release != nil:
		return &exitStatus{r.code, fmt.Errorf("the command has ended, but: %w", release)}
	case r.code != 0:
		return &exitStatus{code: r.code}
	}
	return nil
}

// runUnder runs a command under a lease. An error means that it was not started.
func (p *program) runUnder(l *client.Lease, command []string, stops *signals) (jobResult, error) {
	arriving, err := stops.begin()
	if err != nil { // a stop has begun: it is not started
		return jobResult{}, err
	}
	defer stops.end()
	if err := l.Err(); err != nil {
		return jobResult{}, err
	}
	j, err := startJob(p, l, command)
	if err != nil {
		return jobResult{}, err
	}
	defer j.close()
	return j.supervise(arriving), nil
}
