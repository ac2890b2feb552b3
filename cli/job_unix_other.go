//go:build unix && !linux

package cli

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Other systems have no such signal. There it is the guard alone that ends the
// command when leasehold was killed.
func dieWithParent(*syscall.SysProcAttr) {}

// Nor does anything adopt orphans or tell children. There the process group is all
// that can be reached.

func adoptOrphans() {}

func children(int) []int { return nil }

func descendants(int, []int) []int { return nil }

// dying: that the guard is no more is noticed when it can be collected.
func dying(int) bool { return false }

// endAll: the guard kills its group in the end, itself included.
func (g *guard) endAll() (gone bool) { return false }

// endRest kills what is left of the group. It says whether nothing is left.
func endRest(group int, _ []int) bool {
	for begun := time.Now(); time.Since(begun) < deathTimeout; time.Sleep(time.Millisecond) {
		if err := syscall.Kill(-group, syscall.SIGKILL); errors.Is(err, syscall.ESRCH) {
			return true
		}
	}
	return false
}

func ownProgram() (string, error) { return os.Executable() }

// machineTime is the wall clock, for want of a monotonic one that is the same in
// every program.
func machineTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
