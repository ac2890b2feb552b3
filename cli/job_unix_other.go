//go:build unix && !linux

package cli

import (
	"os"
	"syscall"
	"time"
)

// Other systems have no such signal. There it is the guard alone that ends the
// command when leasehold was killed.
func dieWithParent(*syscall.SysProcAttr) {}

func adoptOrphans() {}

func ownProgram() (string, error) { return os.Executable() }

// machineTime is the wall clock, for want of a monotonic one that is the same in
// every program.
func machineTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
