package child

import "syscall"

// dieWithParent makes a process get a KILL when the thread that starts it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
