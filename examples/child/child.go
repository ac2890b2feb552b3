// Package child runs a program again as processes of its own, to kill and to pause,
// that never outlive it.
//
// A child ends in one of three ways with its parent, whatever becomes of that:
//
//   - the parent closes the child's standard input ([Child.Stop]): an orderly end;
//   - the parent dies: its end of that pipe is closed by the kernel, so the same;
//   - on Linux the kernel also kills a child whose parent has died, even one that is
//     paused or that does not look at its input.
package child

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// mark is in the environment of a child.
const mark = "LEASEHOLD_EXAMPLE_CHILD"

// Child is a process that runs this program.
type Child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
}

// Start runs this program again with other arguments. Each line that it prints is
// given to line; what it says on standard error goes to ours.
func Start(line func([]byte), args ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Child{cmd: exec.Command(self, args...), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), mark+"=1")
	c.cmd.Stderr = os.Stderr
	// A group of its own: Ctrl-C in the terminal reaches the parent alone, which
	// then ends its children in order.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(c.cmd.SysProcAttr)
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go c.run(out, line, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start a child: %w", err)
	}
	return c, nil
}

// run is the life of the process. For Linux the parent of a process is the thread
// that has started it, so this goroutine keeps its thread until the process has ended.
func (c *Child) run(out io.Reader, line func([]byte), started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line(lines.Bytes())
	}
	_ = c.cmd.Wait() // what it says is in the state
	close(c.ended)
}

// PID is the number of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Ended is closed when the process is no more and all its lines were given.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// Kill ends the process as kill -9 does: it has no time to say goodbye.
func (c *Child) Kill() { _ = c.cmd.Process.Kill() }

// Pause stops the process (SIGSTOP), as a long garbage collection or a virtual
// machine that is moved would. It does not notice.
func (c *Child) Pause() { _ = c.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets it go on (SIGCONT).
func (c *Child) Resume() { _ = c.cmd.Process.Signal(syscall.SIGCONT) }

// Stop asks the process to end, kills it if it has not after some time, and returns
// when it is no more. The error tells of an end that was not an orderly one.
func (c *Child) Stop(patience time.Duration) error {
	_ = c.stdin.Close()
	c.Resume() // a paused one would not hear of it
	late := time.AfterFunc(patience, c.Kill)
	defer late.Stop()
	<-c.ended
	if state := c.cmd.ProcessState; !state.Success() {
		return fmt.Errorf("process %d: %v", state.Pid(), state)
	}
	return nil
}

// IsThis tells whether this process is a child. A test asks it first of all: its
// children are the test program once more.
func IsThis() bool { return os.Getenv(mark) != "" }

// Context is, in a child, a context that ends when the parent asks it to stop or is
// no more.
func Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}
