//go:build unix && !linux

package httpapi

import "syscall"

// hasHungUp says whether the other side has closed its direction of the
// connection. Go learns of it too, but only once a goroutine has been woken to
// read that; the kernel knows before. Bytes that nobody reads hide it here.
func hasHungUp(conn syscall.RawConn) bool {
	gone := false
	err := conn.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = err == nil && n == 0 || err == syscall.ECONNRESET
	})
	return gone || err != nil
}
