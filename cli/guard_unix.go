//go:build unix

package cli

import (
	"bufio"
	"fmt"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	urfave "github.com/urfave/cli/v2"
)

// passedOn are the signals that are passed on, besides those that ask to stop.
var passedOn = []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}

// guard is the process described in job_unix.go. It reads deadlines, as nanoseconds
// of machineTime, one a line, and kills its process group, itself included, when the
// last one has passed or there will be no more.
//
// The group gets signals that are not meant for its guard.
func (p *program) guard(*urfave.Context) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	if syscall.Getpgrp() != syscall.Getpid() {
		return &usageError{message: "guard is not for use by hand"}
	}
	deadlines := make(chan time.Duration)
	go func() {
		defer close(deadlines)
		for lines := bufio.NewScanner(p.stdin); lines.Scan(); {
			at, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil {
				return
			}
			deadlines <- time.Duration(at)
		}
	}()
	deadline, more := <-deadlines
	if _, err := fmt.Fprint(p.stdout, "."); err != nil { // ready
		more = false
	}
	for more {
		// A timer may be late, after a pause for example. So after each wait it is the
		// clock that decides.
		left := deadline - machineTime()
		if left <= 0 {
			break
		}
		select {
		case <-time.After(left):
		case next, ok := <-deadlines:
			if more = ok; ok {
				deadline = next
			}
		}
	}
	return syscall.Kill(0, syscall.SIGKILL)
}
