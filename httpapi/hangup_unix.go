//go:build unix && !linux

package httpapi

import "syscall"

// otherSide says whether the client has closed its direction of a connection, and
// whether it takes nothing any more either. Go learns of it too, but only once a
// goroutine has been woken to read that; the kernel knows before. Bytes that
// nobody reads hide it here.
func otherSide(conn syscall.RawConn) (hungUp, reset bool) {
	err := conn.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		reset = err == syscall.ECONNRESET
		hungUp = reset || err == nil && n == 0
	})
	if err != nil { // it was closed on our side
		return true, true
	}
	return hungUp, reset
}
