package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endAll kills all that the guard has started, and what those have started, until
// nothing is left. A process that forks while it is killed has children that the
// next round finds. What cannot be killed is not given up: exec does that, if it
// lives.
func (g *guard) endAll() (gone bool) {
	for begun := time.Now(); ; {
		killAll(descendants(os.Getpid(), nil))
		pause := 200 * time.Microsecond
		if time.Since(begun) > deathTimeout {
			pause = 100 * time.Millisecond
		}
		select {
		case <-g.empty:
			return true
		case <-time.After(pause):
		}
	}
}

// endRest does it in place of a guard that was killed: then the orphans come to
// this process. Those children that it had before are spared. It says whether
// nothing is left.
func endRest(_ int, spare []int) bool {
	self := os.Getpid()
	for begun := time.Now(); time.Since(begun) < deathTimeout; time.Sleep(200 * time.Microsecond) {
		left := descendants(self, spare)
		if len(left) == 0 {
			return true
		}
		killAll(left)
		for _, pid := range left {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // fails unless it is our child
		}
	}
	return false
}

// killAll kills processes that this one has started, and the process groups that
// they have founded: nobody can fork out of a group that is killed, but a process
// that forks and exits at once may be gone before its own turn comes.
func killAll(pids []int) {
	ours, _ := unix.Getsid(0)
	ourGroup := unix.Getpgrp()
	for _, pid := range pids {
		group, err := unix.Getpgid(pid)
		session, errSession := unix.Getsid(pid)
		// All of another session are descendants of the one of them who began it. In
		// ours there are groups that are not the command's.
		if err == nil && errSession == nil && group != ourGroup && (session != ours || slices.Contains(pids, group)) {
			_ = unix.Kill(-group, unix.SIGKILL)
		}
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// descendants lists the children of a process, without the spared ones, and the
// children of these, and so on. One that was just orphaned can be missing.
func descendants(pid int, spare []int) (all []int) {
	for _, child := range children(pid) {
		if !slices.Contains(spare, child) {
			all = append(append(all, child), descendants(child, nil)...)
		}
	}
	return all
}

// children lists the children of a process, also the dead ones that it has not
// collected.
func children(pid int) (pids []int) {
	if !kernelTellsChildren() {
		return childrenByParent(pid)
	}
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		// If the thread has ended meanwhile, another one has its children.
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		for _, field := range bytes.Fields(text) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

var kernelTellsChildren = sync.OnceValue(func() bool {
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	return err == nil
})

// childrenByParent asks each process of the machine for its parent, for a kernel
// that does not tell children.
func childrenByParent(parent int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		var state string
		var of, pid int
		// The name stands in brackets, and may have brackets itself.
		_, err := fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &of)
		if err == nil && of == parent {
			if _, err := fmt.Sscanf(file, "/proc/%d/stat", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
