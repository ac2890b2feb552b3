//go:build unix

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	urfave "github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// message is a line between exec and the guard.
type message struct {
	word   string
	number int64
	text   string
}

const (
	// Orders to the guard. When there will be no more, all is killed.
	orderUntil = "until" // at number, a machineTime in nanoseconds, all is killed
	orderPass  = "pass"  // signal number is for the group, and for the command
	orderAll   = "all"   // signal number is for every process

	// Reports of the guard.
	reportStarted = "started"
	reportFailed  = "failed" // the command cannot be run: exit code and why
	reportLate    = "late"   // the time has come, all is being killed
	reportEnded   = "ended"  // the command has ended: its exit code
	reportGone    = "gone"   // nothing of it is left
)

func (m message) String() string { return fmt.Sprintf("%s %d %q\n", m.word, m.number, m.text) }

// send: whoever does not read any more is gone, and that is noticed elsewhere.
func (m message) send(to io.Writer) { _, _ = io.WriteString(to, m.String()) }

// receive gives the messages until there are no more.
func receive(from io.Reader) <-chan message {
	messages := make(chan message, 16)
	go func() {
		defer close(messages)
		for lines := bufio.NewScanner(from); lines.Scan(); {
			var m message
			if _, err := fmt.Sscanf(lines.Text(), "%s %d %q", &m.word, &m.number, &m.text); err != nil {
				return
			}
			messages <- m
		}
	}()
	return messages
}

// guard is the process described in job_unix.go.
type guard struct {
	command *exec.Cmd
	reports *os.File
	ended   chan struct{} // closed when the command has ended, which was reported
	empty   chan struct{} // closed when no process is left
}

// Its pipes have the numbers after those of stdin, stdout and stderr, which are the
// command's.
const (
	ordersFile  = 3
	reportsFile = 4
)

// passedOn are the signals that are passed on, besides those that ask to stop.
var passedOn = []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}

func (p *program) guard(c *urfave.Context) error {
	heedNoSignals()
	syscall.CloseOnExec(ordersFile)
	syscall.CloseOnExec(reportsFile)
	g := &guard{reports: os.NewFile(reportsFile, "reports"), ended: make(chan struct{}), empty: make(chan struct{})}
	orders := receive(os.NewFile(ordersFile, "orders"))
	first := <-orders
	if first.word != orderUntil || syscall.Getpgrp() != syscall.Getpid() || c.Args().Len() == 0 {
		return &usageError{message: "guard is not for use by hand"}
	}
	adoptOrphans()
	if err := g.start(c.Args().Slice()); err != nil {
		failed, _ := errors.AsType[*exitStatus](err)
		message{word: reportFailed, number: int64(failed.code), text: failed.Error()}.send(g.reports)
		return nil
	}
	g.obey(orders, time.Duration(first.number))
	if g.endAll() {
		message{word: reportGone}.send(g.reports)
	}
	return syscall.Kill(0, syscall.SIGKILL)
}

// heedNoSignals: the group gets signals that are not meant for its guard. They are
// not ignored, since the command would ignore them too.
func heedNoSignals() {
	unheeded := make(chan os.Signal, 1)
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(unheeded, sig)
		}
	}
	// But Control-Z is ignored by both: nobody would take the terminal back, and a
	// command that is stopped would go on holding the lease.
	if foreground, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil && foreground == unix.Getpgrp() {
		signal.Ignore(syscall.SIGTSTP)
	}
}

// start starts the command, and collects it and all orphans that come to this
// process.
func (g *guard) start(command []string) error {
	g.command = exec.Command(command[0], command[1:]...)
	g.command.Stdin, g.command.Stdout, g.command.Stderr = os.Stdin, os.Stdout, os.Stderr
	g.command.SysProcAttr = &syscall.SysProcAttr{} // in this group
	dieWithParent(g.command.SysProcAttr)
	started := make(chan error)
	go func() {
		// The signal of dieWithParent comes when the thread ends that started the
		// command, so that thread must do nothing else.
		runtime.LockOSThread()
		err := g.command.Start()
		if err == nil {
			message{word: reportStarted}.send(g.reports) // before its end is
		}
		started <- err
		if err == nil {
			g.collect()
		}
	}()
	if err := <-started; err != nil {
		return cannotRun(command[0], err)
	}
	return nil
}

// collect returns when this process has no more children. Then it has no
// descendants either: each orphan would be its child.
func (g *guard) collect() {
	defer close(g.empty)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.ECHILD) {
			return
		}
		if pid == g.command.Process.Pid && (status.Exited() || status.Signaled()) {
			message{word: reportEnded, number: int64(codeOf(status))}.send(g.reports)
			close(g.ended)
		}
	}
}

func codeOf(status syscall.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}

// obey returns when all is to be killed: the command has ended, or the last deadline
// has passed, or there are no more orders.
func (g *guard) obey(orders <-chan message, deadline time.Duration) {
	for {
		// A timer may be late, after a pause for example. So after each wait it is the
		// clock that decides.
		left := deadline - machineTime()
		if left <= 0 {
			message{word: reportLate}.send(g.reports)
			return
		}
		select {
		case <-time.After(left):
		case <-g.ended:
			return
		case order, more := <-orders:
			if !more {
				return
			}
			switch order.word {
			case orderUntil:
				deadline = time.Duration(order.number)
			case orderPass:
				g.pass(syscall.Signal(order.number))
			case orderAll:
				g.sendAll(syscall.Signal(order.number))
			}
		}
	}
}

// pass sends a signal to the group, and to the command if it has left it.
func (g *guard) pass(sig syscall.Signal) {
	_ = syscall.Kill(0, sig)
	if group, err := syscall.Getpgid(g.command.Process.Pid); err == nil && group != syscall.Getpgrp() {
		_ = g.command.Process.Signal(sig)
	}
}

// sendAll sends a signal to every process, once.
func (g *guard) sendAll(sig syscall.Signal) {
	all := descendants(os.Getpid(), nil) // before the signal makes orphans
	g.pass(sig)
	for _, pid := range all {
		if group, err := syscall.Getpgid(pid); err == nil && group != syscall.Getpgrp() && pid != g.command.Process.Pid {
			_ = syscall.Kill(pid, sig)
		}
	}
}
