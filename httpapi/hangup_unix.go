//go:build unix

package httpapi

import (
	"net/http"
	"syscall"
)

// hasHungUp says whether the client has closed its side of the connection. The
// context of the request ends then too, but only once a goroutine has been woken
// to read that; the kernel knows before.
func hasHungUp(r *http.Request) bool {
	conn, ok := r.Context().Value(connKey{}).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = err == nil && n == 0 || err == syscall.ECONNRESET
	})
	return gone || err != nil
}
