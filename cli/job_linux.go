package cli

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent makes a process get a KILL when the thread that starts it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adoptOrphans makes this process the parent of its descendants whose parents have
// died. So nothing that they start can escape it, also if it leaves the group, the
// session and its parent, as a daemon does.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// ownProgram is this program, also after its file has been replaced.
func ownProgram() (string, error) { return "/proc/self/exe", nil }

// machineTime is a time that all processes of this machine share, and that never
// jumps. The times of Go go with it.
func machineTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0 // it is always there
	}
	return time.Duration(t.Nano())
}
