//go:build unix

package torture

import (
	"os"
	"syscall"
)

func suspend(p *os.Process) error   { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error    { return p.Signal(syscall.SIGCONT) }
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
