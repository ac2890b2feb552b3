package httpapi

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hasHungUp says whether the other side has closed its direction of the
// connection. Go learns of it too, but only once a goroutine has been woken to
// read that, and not at all while bytes that nobody reads stand before it; the
// kernel knows.
func hasHungUp(conn syscall.RawConn) bool {
	gone := false
	err := conn.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(poll, 0)
		gone = err == nil && n > 0 && poll[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone || err != nil
}
