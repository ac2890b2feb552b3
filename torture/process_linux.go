package torture

import (
	"os/exec"
	"runtime"
	"syscall"
)

// start starts processes that are killed when this one ends, however it ends. They
// form groups of their own, so that an interrupt from the terminal is ours alone.
//
// What Linux watches is the thread that starts a process. So all are started by one
// thread, which stays until done is closed.
func starter(done <-chan struct{}) (start func(*exec.Cmd) error) {
	type order struct {
		cmd    *exec.Cmd
		result chan error
	}
	orders := make(chan order)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for {
			select {
			case o := <-orders:
				o.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
				o.result <- o.cmd.Start()
			case <-done:
				return
			}
		}
	}()
	return func(cmd *exec.Cmd) error {
		o := order{cmd, make(chan error, 1)}
		select {
		case orders <- o:
			return <-o.result
		case <-done:
			return errStopped
		}
	}
}
