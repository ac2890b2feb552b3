//go:build unix

package cli

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the one in whose foreground this process runs. The group of a command
// must be brought there, or the command would be stopped when it reads. Control-C
// then reaches the command alone.
type terminal struct{ fd int }

// terminalOf gives nil unless stdin is such a terminal.
func terminalOf(stdin io.Reader) *terminal {
	file, ok := stdin.(*os.File)
	if !ok {
		return nil
	}
	fd := int(file.Fd())
	if foreground, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || foreground != unix.Getpgrp() {
		return nil
	}
	return &terminal{fd}
}

func (t *terminal) give(attr *syscall.SysProcAttr) {
	if t != nil {
		attr.Foreground, attr.Ctty = true, t.fd
	}
}

func (t *terminal) takeBack() {
	if t == nil {
		return
	}
	// A process in the background is stopped when it does this, unless it ignores it.
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, unix.Getpgrp())
	signal.Reset(syscall.SIGTTOU)
}
