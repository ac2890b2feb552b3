//go:build unix

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"leasehold/client"
)

// A command under a lease is three processes:
//
//	leasehold exec ── renews the lease, tells the guard the deadline and the signals
//	  └─ leasehold guard ── leads the process group, kills everything below it when
//	       │                the command has ended, when the deadline that it was told
//	       │                last has passed, or when exec is gone
//	       └─ the command ── in the same group, as are its children
//
// The guard is there because exec itself may be stopped (SIGSTOP) or killed while the
// command goes on. On Linux it adopts orphans: whatever leaves the group stays among
// its descendants. If it is the guard that dies, they come to exec, which does the
// same; the kernel kills the command at once. So only a kill of both leaves the rest
// alone. On other systems the group is all that can be reached.
//
// The lease is lost at the deadline D, which each renewal moves. Nothing may be alive
// after it:
//
//	        TTL/4 before D       TTL/20            TTL/40
//	──────────┬──────────────────────┬─────────────────┬─────────┬──────
//	          TERM: about to be      KILL, by the      the same  D     the server
//	          lost                   guard, as exec    without         may grant it
//	                                 orders            an order
const (
	termShare  = 4
	killShare  = 20
	guardShare = 40
)

const (
	// guardStart bounds the start of the guard and the command, which takes some
	// milliseconds.
	guardStart = 10 * time.Second
	// deathTimeout is how long to wait for what was killed. Only a process that is
	// stuck in the kernel, or belongs to another user, takes longer than a moment.
	deathTimeout = 5 * time.Second
	// guardTimeout is how long the guard may take to kill all. It has less if the lease
	// is lost and its TTL is short.
	guardTimeout = time.Second
)

// job is a command that runs under a lease.
type job struct {
	lease   *client.Lease
	guard   *exec.Cmd
	orders  *os.File
	reports <-chan message
	lone    chan struct{} // closed when the guard is no more
	told    time.Time     // the deadline that the guard was told last

	before   []int // children that this process has from before
	terminal *terminal

	ended  bool // the command, with code
	code   int
	late   bool      // the guard has ended it unasked
	gone   bool      // nothing is left, as the guard or we have seen
	stops  int       // signals that asked the command to end
	lost   error     // why it is being ended
	killAt time.Time // and when to kill it
	killed time.Time // when the guard began to kill, as far as we know
}

// startJob starts the guard, and through it the command.
func startJob(p *program, l *client.Lease, command []string) (*job, error) {
	self, err := ownProgram()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	in, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reports, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), orders.Close())
	}
	j := &job{lease: l, orders: orders, lone: make(chan struct{}), before: children(os.Getpid()), code: exitSignal + int(syscall.SIGKILL)}
	j.guard = exec.Command(self, append([]string{guardName, "--"}, command...)...)
	j.guard.Args[0] = "leasehold"
	j.guard.Stdin, j.guard.Stdout, j.guard.Stderr = p.stdin, p.stdout, p.stderr
	j.guard.ExtraFiles = []*os.File{in, out}
	j.guard.WaitDelay = time.Second // for what holds an output open that is no file
	j.guard.Env = append(os.Environ(),
		"LEASEHOLD_NAME="+l.Name(), "LEASEHOLD_TOKEN="+strconv.FormatUint(l.Token(), 10),
		"LEASEHOLD_HOLDER="+l.Holder(), "LEASEHOLD_CLUSTER_ID="+l.ClusterID())
	j.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	j.terminal = terminalOf(p.stdin)
	j.terminal.give(j.guard.SysProcAttr)
	adoptOrphans()
	err = j.guard.Start()
	in.Close()
	out.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the guard: %w", err), orders.Close(), reports.Close())
	}
	j.reports = receive(reports)
	go func() {
		_ = j.guard.Wait()
		close(j.lone)
	}()
	j.tell()
	if err := j.begun(); err != nil {
		j.takeOver() // it may have begun nevertheless
		j.close()
		return nil, err
	}
	return j, nil
}

// begun waits until the command has been started.
func (j *job) begun() error {
	select {
	case r := <-j.reports:
		switch r.word {
		case reportStarted:
			return nil
		case reportFailed:
			return &exitStatus{int(r.number), errors.New(r.text)}
		}
	case <-time.After(guardStart):
		return fmt.Errorf("the command was not started within %v", guardStart)
	}
	return errors.New("the guard does not start")
}

func (j *job) group() int { return j.guard.Process.Pid }

// supervise waits for the end of the command and of all that it has started, and
// sees to it that it comes in time.
func (j *job) supervise(arriving <-chan syscall.Signal) jobResult {
	over, reports := j.lease.Done(), j.reports
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !j.gone {
		alone := false
		select {
		case <-j.lone:
			alone = true
		case report, more := <-reports:
			if j.note(report); !more {
				reports = nil
			}
		case sig := <-arriving:
			j.pass(sig)
		case <-over:
			over = nil
		case <-timer.C:
			// It may be long until a guard that was killed can be collected: it has to
			// give back its memory first, on a machine that may have no time for that.
			alone = dying(j.group())
		}
		j.tell()
		next, late := j.step(time.Now())
		if alone || late {
			j.takeOver()
			break
		}
		timer.Reset(time.Until(next))
	}
	return j.result()
}

// takeOver does the work of the guard, which has died, is about to, or does nothing,
// and takes note of what it has still said.
func (j *job) takeOver() {
	j.gone = endRest(j.group(), j.before) || j.gone
	patience := time.After(guardTimeout)
	for {
		select {
		case report, more := <-j.reports:
			if !more {
				return
			}
			j.note(report)
		case <-patience:
			return
		}
	}
}

// note takes note of what the guard reports.
func (j *job) note(report message) {
	switch report.word {
	case reportLate:
		j.late = true
	case reportGone:
		j.gone = true
	case reportEnded:
		j.ended, j.code = true, int(report.number)
	default:
		return
	}
	if j.killed.IsZero() { // the rest
		j.killed = time.Now()
	}
}

func (j *job) result() jobResult {
	if j.lost == nil {
		j.lost = j.lease.Err() // perhaps unnoticed
	}
	if j.lost == nil && j.late {
		j.lost = j.near() // this process was stopped or starved meanwhile
	}
	return jobResult{code: j.code, lost: j.lost, gone: j.gone}
}

// step does what is to be done at this time, and says when to look again, or that the
// guard is late: it should have ended by now.
func (j *job) step(now time.Time) (next time.Time, late bool) {
	ttl, end := j.lease.TTL(), j.lease.Deadline()
	if j.lost == nil && !j.ended {
		if err := j.lease.Err(); err != nil {
			j.lose(now, err)
		} else if risk := end.Add(-ttl / termShare); !now.Before(risk) {
			j.lose(now, j.near())
		}
	}
	next = now.Add(max(min(ttl/killShare, time.Second), 5*time.Millisecond))
	if j.killed.IsZero() {
		if j.lost != nil && !now.Before(j.killAt) {
			j.kill()
		} else if j.lost != nil && j.killAt.Before(next) {
			next = j.killAt
		}
		return next, false
	}
	patience := guardTimeout
	if j.lost != nil {
		patience = min(ttl/guardShare, guardTimeout)
	}
	end = j.killed.Add(patience)
	if end.Before(next) {
		next = end
	}
	return next, !now.Before(end)
}

// near is why a command is ended whose lease is about to be lost.
func (j *job) near() error {
	return fmt.Errorf("%w: no renewal of %s, token %d, was confirmed, and the deadline is near", client.ErrLost, j.lease.Name(), j.lease.Token())
}

// lose begins to end the command. It has a fifth of the TTL, less if the deadline
// is nearer.
func (j *job) lose(now time.Time, why error) {
	j.lost = why
	ttl := j.lease.TTL()
	j.killAt = j.lease.Deadline().Add(-ttl / killShare)
	if soon := now.Add(ttl/termShare - ttl/killShare); soon.Before(j.killAt) {
		j.killAt = soon
	}
	j.order(orderAll, int64(syscall.SIGTERM))
	j.order(orderAll, int64(syscall.SIGCONT)) // one that is stopped would not see it
	j.wake()
}

// pass passes a signal on to the command.
func (j *job) pass(sig syscall.Signal) {
	if sig == syscall.SIGINT || sig == syscall.SIGTERM {
		if j.stops++; j.stops > 1 {
			j.kill()
			return
		}
	}
	j.order(orderPass, int64(sig))
}

// kill makes the guard kill all.
func (j *job) kill() {
	if j.killed.IsZero() {
		j.killed = time.Now()
	}
	_ = j.orders.Close()
	j.wake()
}

// wake continues the guard, which the command may have stopped with its group.
func (j *job) wake() {
	select {
	case <-j.lone:
	default:
		_ = j.guard.Process.Signal(syscall.SIGCONT)
	}
}

// order tells the guard what to do, without waiting: a guard that is gone does not
// hear it, nor does one that has been stopped for a thousand orders.
func (j *job) order(word string, number int64) {
	line := []byte(message{word: word, number: number}.String())
	if pipe, err := j.orders.SyscallConn(); err == nil {
		_ = pipe.Write(func(fd uintptr) (done bool) {
			_, _ = unix.Write(int(fd), line)
			return true
		})
	}
}

// tell tells the guard when to kill all.
func (j *job) tell() {
	end := j.lease.Deadline()
	if end.Equal(j.told) {
		return
	}
	j.told = end
	// In this order: a pause between the two makes the deadline earlier, not later.
	now := machineTime()
	at := now + time.Until(end.Add(-j.lease.TTL()/guardShare))
	j.order(orderUntil, int64(at))
}

// close ends the guard, and gives the terminal back. A guard that has got its KILL runs
// no more, so it is not waited for if its burial takes long.
func (j *job) close() {
	_ = j.orders.Close()
	select {
	case <-j.lone:
	default:
		_ = syscall.Kill(-j.group(), syscall.SIGKILL)
		select {
		case <-j.lone:
		case <-time.After(guardTimeout):
		}
	}
	j.terminal.takeBack()
}
