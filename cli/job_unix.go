//go:build unix

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"leasehold/client"
)

// A command under a lease is three processes:
//
//	leasehold exec ── renews the lease, passes signals on
//	  ├─ leasehold guard ── leads the process group, and kills it when the deadline
//	  │                     that it was told last has passed, or when exec is gone
//	  └─ the command ── in the same group, as are its children
//
// The guard is there because exec itself may be stopped (SIGSTOP) or killed while the
// command goes on. It also keeps the number of the group from being given to another
// one until exec has collected it.
//
// The lease is lost at the deadline D, which each renewal moves. Nothing of the
// group may be alive after it:
//
//	        TTL/4 before D       TTL/20          TTL/40
//	──────────┬──────────────────────┬───────────────┬───────────┬──────
//	          TERM: about to be      KILL by exec    KILL by     D     the server
//	          lost                                   the guard         may grant it
const (
	termShare  = 4
	killShare  = 20
	guardShare = 40
)

const (
	// guardStart bounds the start of the guard, which takes some milliseconds.
	guardStart = 5 * time.Second
	// deathTimeout is how long to wait for what was killed. Only a process that is
	// stuck in the kernel takes longer than a moment.
	deathTimeout = 5 * time.Second
)

// job is a command that runs under a lease.
type job struct {
	lease *client.Lease
	guard *exec.Cmd
	feed  *os.File      // to the guard
	lone  chan struct{} // closed when the guard is no more
	told  time.Time     // the deadline that the guard was told last

	ended    chan struct{} // closed when the command has ended and code is set
	code     int
	terminal *terminal

	stops  int       // signals that asked the command to end
	lost   error     // why it is being ended
	killAt time.Time // and when to kill it
	killed time.Time // when it was
	gone   bool      // nothing of the group is left
}

// newJob starts the guard.
func newJob(l *client.Lease) (*job, error) {
	self, err := ownProgram()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	in, feed, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ready, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), feed.Close())
	}
	j := &job{lease: l, feed: feed, guard: exec.Command(self, guardName), lone: make(chan struct{}), ended: make(chan struct{})}
	j.guard.Args[0] = "leasehold"
	j.guard.Stdin, j.guard.Stdout = in, out
	j.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	adoptOrphans()
	err = j.guard.Start()
	in.Close()
	out.Close()
	defer ready.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the guard: %w", err), feed.Close())
	}
	go func() {
		_ = j.guard.Wait()
		close(j.lone)
	}()
	j.tell()
	_ = ready.SetReadDeadline(time.Now().Add(guardStart))
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		j.close()
		return nil, fmt.Errorf("the guard does not start: %w", err)
	}
	return j, nil
}

func (j *job) group() int { return j.guard.Process.Pid }

// start starts the command.
func (j *job) start(p *program, command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.stdin, p.stdout, p.stderr
	cmd.WaitDelay = time.Second // for what holds an output open that is no file
	cmd.Env = append(os.Environ(),
		"LEASEHOLD_NAME="+j.lease.Name(), "LEASEHOLD_TOKEN="+strconv.FormatUint(j.lease.Token(), 10),
		"LEASEHOLD_HOLDER="+j.lease.Holder(), "LEASEHOLD_CLUSTER_ID="+j.lease.ClusterID())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: j.group()}
	dieWithParent(cmd.SysProcAttr)
	j.terminal = terminalOf(p.stdin)
	j.terminal.give(cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		// The signal of dieWithParent comes when the thread ends that started the
		// command, so that thread must do nothing else until then.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // what it says is in the state
		j.code = codeOf(cmd.ProcessState)
		close(j.ended)
	}()
	if err := <-started; err != nil {
		return cannotRun(command[0], err)
	}
	return nil
}

func codeOf(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return exitSignal + int(ws.Signal())
	}
	return s.ExitCode()
}

// supervise waits for the end of the command, and sees to it that it comes in time.
func (j *job) supervise(arriving <-chan syscall.Signal) jobResult {
	over, lone := j.lease.Done(), j.lone
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ended := false; !ended; {
		select {
		case <-j.ended:
			ended = true
			continue
		case sig := <-arriving:
			j.pass(sig)
		case <-over:
			over = nil
		case <-lone:
			lone = nil
			j.orphaned()
		case <-timer.C:
		}
		j.tell()
		next, giveUp := j.step(time.Now())
		if giveUp {
			return jobResult{code: j.code, lost: j.lost}
		}
		timer.Reset(time.Until(next))
	}
	j.terminal.takeBack()
	j.lookBack(time.Now())
	return jobResult{code: j.code, lost: j.lost, gone: j.clear()}
}

// step does what is to be done at this time, and says when to look again.
func (j *job) step(now time.Time) (next time.Time, giveUp bool) {
	ttl, end := j.lease.TTL(), j.lease.Deadline()
	if j.lost == nil {
		if err := j.lease.Err(); err != nil {
			j.lose(now, err)
		} else if risk := end.Add(-ttl / termShare); !now.Before(risk) {
			j.lose(now, errNear)
		}
	}
	next = now.Add(max(min(ttl/killShare, time.Second), 5*time.Millisecond))
	if j.lost != nil && j.killed.IsZero() {
		if !now.Before(j.killAt) {
			j.kill()
		} else if j.killAt.Before(next) {
			next = j.killAt
		}
	}
	return next, !j.killed.IsZero() && now.Sub(j.killed) > deathTimeout
}

// lookBack finds out, after the end of the command, whether it was the guard that
// has ended it, because this process was stopped or starved. Or the lease was lost
// unnoticed.
func (j *job) lookBack(now time.Time) {
	if j.lost != nil {
		return
	}
	j.lost = j.lease.Err()
	late := !now.Before(j.lease.Deadline().Add(-j.lease.TTL() / termShare))
	if j.lost == nil && late && j.code == exitSignal+int(syscall.SIGKILL) && j.killed.IsZero() {
		j.lost = errNear
	}
}

var errNear = fmt.Errorf("%w: no renewal was confirmed, and the deadline is near", client.ErrLost)

// lose begins to end the command. It has a fifth of the TTL, less if the deadline
// is nearer.
func (j *job) lose(now time.Time, why error) {
	j.lost = why
	ttl := j.lease.TTL()
	j.killAt = j.lease.Deadline().Add(-ttl / killShare)
	if soon := now.Add(ttl/termShare - ttl/killShare); soon.Before(j.killAt) {
		j.killAt = soon
	}
	j.send(syscall.SIGTERM)
	j.send(syscall.SIGCONT) // one that is stopped would not see it
}

// pass passes a signal on to the command.
func (j *job) pass(sig syscall.Signal) {
	if sig == syscall.SIGINT || sig == syscall.SIGTERM {
		if j.stops++; j.stops > 1 {
			j.kill()
			return
		}
	}
	j.send(sig)
}

// orphaned: the guard is no more. With a signal to its whole group the command may
// have sent it to both; otherwise nobody would end the command in our place, so it
// ends now.
func (j *job) orphaned() {
	select {
	case <-j.ended:
	case <-time.After(100 * time.Millisecond):
		if j.lost == nil {
			j.lost = errors.New("the guard of the command was killed")
		}
		j.kill()
	}
}

func (j *job) kill() {
	if j.killed.IsZero() {
		j.killed = time.Now()
	}
	j.send(syscall.SIGKILL)
}

func (j *job) send(sig syscall.Signal) { _ = syscall.Kill(-j.group(), sig) }

// tell tells the guard when to kill the group.
func (j *job) tell() {
	end := j.lease.Deadline()
	if end.Equal(j.told) {
		return
	}
	j.told = end
	// In this order: a pause between the two makes the deadline earlier, not later.
	now := machineTime()
	at := now + time.Until(end.Add(-j.lease.TTL()/guardShare))
	_ = j.feed.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) // it may be stopped
	_, _ = fmt.Fprintf(j.feed, "%d\n", at)
}

// clear kills what is left of the group, the guard with it. It says whether nothing
// is left.
func (j *job) clear() bool {
	for begun := time.Now(); time.Since(begun) < deathTimeout; {
		j.send(syscall.SIGKILL)
		collect(j.group())
		if err := syscall.Kill(-j.group(), 0); errors.Is(err, syscall.ESRCH) {
			j.gone = true
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// collect collects the dead of a group that we have adopted. The guard and the
// command are collected by those who wait for them, and if not, then here.
func collect(group int) {
	for {
		pid, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}

// close ends the guard, and with it what is left of the group.
func (j *job) close() {
	if !j.gone {
		j.send(syscall.SIGKILL)
	}
	_ = j.feed.Close()
	<-j.lone
}
