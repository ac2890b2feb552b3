//go:build unix && !linux

package child

import "syscall"

// dieWithParent: nothing of the kind is there. A child sees the end of its input.
func dieWithParent(*syscall.SysProcAttr) {}
