package httpapi

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// otherSide says whether the client has closed its direction of a connection, and
// whether it takes nothing any more either. Go learns of it too, but only once a
// goroutine has been woken to read that, and not at all while bytes that nobody
// reads stand before it; the kernel knows.
func otherSide(conn syscall.RawConn) (hungUp, reset bool) {
	err := conn.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if n, err := unix.Poll(poll, 0); err == nil && n > 0 {
			reset = poll[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
			hungUp = reset || poll[0].Revents&unix.POLLRDHUP != 0
		}
	})
	if err != nil { // it was closed on our side
		return true, true
	}
	return hungUp, reset
}
