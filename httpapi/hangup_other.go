//go:build !unix

package httpapi

import "syscall"

// hasHungUp leaves it to the context of the request where there is no way to ask
// the kernel.
func hasHungUp(syscall.RawConn) bool { return false }
