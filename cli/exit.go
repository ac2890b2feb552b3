package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
	"leasehold/lease"
)

// Exit codes; see doc.go.
const (
	exitDone        = 0
	exitError       = 1
	exitUsage       = 2
	exitNotAcquired = 75
	exitLost        = 123
	exitUnavailable = 125
	exitSignal      = 128
)

// usageError is a command line that cannot be understood.
type usageError struct {
	command string // empty: of leasehold itself
	message string
}

func (e *usageError) Error() string { return e.message }

// usagef gives the usage error of the command that runs.
func usagef(c *urfave.Context, format string, args ...any) error {
	command := strings.TrimPrefix(c.Command.HelpName, c.App.Name+" ") // "register put"
	return &usageError{command: command, message: fmt.Sprintf(format, args...)}
}

// signalError is the cause of a context that ended by a signal.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "ended by signal: " + e.signal.String() }

// enoughError ends a command that goes on until it is stopped.
type enoughError struct{ cause error }

func (e *enoughError) Error() string { return e.cause.Error() }
func (e *enoughError) Unwrap() error { return e.cause }

// exitCode gives the exit code for the error that a command returned.
func exitCode(err error) int {
	var signalled *signalError
	var usage *usageError
	var exiter urfave.ExitCoder
	var problem *client.Error
	var status *exitStatus
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &status):
		return status.code
	case errors.As(err, &signalled):
		return exitSignal + int(signalled.signal)
	case errors.As(err, &usage) && strings.HasPrefix(usage.command, "torture"):
		return exitNoVerdict // for there 2 is a verdict
	case errors.As(err, &usage), errors.As(err, &exiter):
		// The library gives its own exit errors for help on unknown topics only.
		return exitUsage
	case errors.Is(err, lease.ErrHeld), errors.Is(err, lease.ErrCooling), errors.Is(err, client.ErrWaitTimeout):
		return exitNotAcquired
	case errors.Is(err, lease.ErrLost), errors.Is(err, lease.ErrRequestEnded):
		return exitLost
	case errors.Is(err, client.ErrUnavailable):
		return exitUnavailable
	case errors.As(err, &problem) && problem.Code == "invalid_argument":
		return exitUsage
	}
	return exitError
}

// report writes an error for a person to read.
func (p *program) report(err error) {
	var enough *enoughError
	if errors.As(err, &enough) {
		return // whoever reads this has stopped it, and there is nothing else to tell
	}
	if status, ok := err.(*exitStatus); ok && status.cause == nil {
		return // it is that of a command, which has said what there was to say
	}
	var usage *usageError
	if errors.As(err, &usage) {
		name := "leasehold"
		if usage.command != "" {
			name += " " + usage.command
		}
		fmt.Fprintf(p.stderr, "%s: %s\n", name, usage.message)
		fmt.Fprintf(p.stderr, "see %s --help\n", name)
		return
	}
	fmt.Fprintf(p.stderr, "leasehold: %v\n", err)
	var problem *client.Error
	if !errors.As(err, &problem) {
		return
	}
	if l := problem.Lease; l != nil && l.Holder != "" {
		fmt.Fprintf(p.stderr, "the lease is held by %s, token %d\n", printable(l.Holder), l.Token)
	}
	if exitCode(err) == exitNotAcquired && problem.RetryAfterMillis != nil {
		fmt.Fprintf(p.stderr, "retry after: %s\n", millis(*problem.RetryAfterMillis))
	}
	if errors.Is(err, client.ErrUnknown) && problem.RequestID != "" {
		fmt.Fprintf(p.stderr, "request id: %s\n", problem.RequestID)
		fmt.Fprintln(p.stderr, "to learn the outcome, repeat the command with this --request-id and the same --holder")
	}
}

// flagNames finds the flags in messages of the flag package, which knows them
// with one dash only.
var flagNames = regexp.MustCompile(`(flag |defined: |argument: )-(\w)`)

func plainFlagError(err error) string {
	return flagNames.ReplaceAllString(err.Error(), "$1--$2")
}

// withSignals gives a context that ends at the first interrupt or TERM, with a
// signalError as its cause. After that, signals do what they do by default, so a
// command that does not come to its end can still be stopped.
func withSignals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(&signalError{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}
