//go:build !unix

package httpapi

import "syscall"

// otherSide leaves it to the context of the request where there is no way to ask
// the kernel.
func otherSide(syscall.RawConn) (hungUp, reset bool) { return false, false }
