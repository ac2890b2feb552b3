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
		killAll(descendants(os.Getpid(), nil), os.Getpid())
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

// endRest does it in place of a guard that has died, or is dying, or does nothing. It
// is killed too; then the orphans come to this process. Those children that this one
// had before are spared. It says whether nothing is left.
func endRest(guard int, spare []int) bool {
	empty := 0
	for begun := time.Now(); time.Since(begun) < deathTimeout; time.Sleep(200 * time.Microsecond) {
		left := rest(guard, spare)
		if len(left) == 0 {
			if empty++; empty == 2 {
				return true
			}
			continue
		}
		empty = 0
		killAll(left, guard)
		for _, pid := range left {
			if pid != guard {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // fails unless it is our child
			}
		}
	}
	return false
}

// rest lists what is left of a command, the guard included unless it is as good as
// dead. A process that changes its parent during the call, from the guard to this one,
// can be missing. The next call finds it: here also the dead ones count.
//
// A guard that is exiting passes its orphans on, and does not collect its dead children.
// So these do not count. They can no longer have children that nobody sees: whoever is
// exiting does not fork, and its children are read afterwards.
func rest(guard int, spare []int) (left []int) {
	for _, child := range children(os.Getpid()) {
		switch {
		case slices.Contains(spare, child):
		case child != guard || !exiting(guard):
			left = append(append(left, child), descendants(child, nil)...)
		default:
			for _, child := range children(guard) {
				if !exiting(child) {
					left = append(left, child)
				}
				left = append(left, descendants(child, nil)...)
			}
		}
	}
	return left
}

// killAll kills processes that this one has started, and the process groups that
// they, or the guard, have founded: nobody can fork out of a group that is killed, but
// a process that forks and exits at once may be gone before its own turn comes.
func killAll(pids []int, guard int) {
	ours, _ := unix.Getsid(0)
	ourGroup := unix.Getpgrp()
	for _, pid := range pids {
		group, err := unix.Getpgid(pid)
		session, errSession := unix.Getsid(pid)
		// All of another session are descendants of the one of them who began it. In
		// ours there are groups that are not the command's.
		if err == nil && errSession == nil && group != ourGroup && (session != ours || group == guard || slices.Contains(pids, group)) {
			_ = unix.Kill(-group, unix.SIGKILL)
		}
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// exiting says whether a process runs no more, in any of its threads. It may be seen for
// long all the same, if its memory is not yet given back, or nobody collects it.
func exiting(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return !slices.ContainsFunc(threads, func(file string) bool {
		p, exists := readStat(file)
		return exists && !p.exiting()
	})
}

// dying says whether a process has got a KILL, or is exiting for another reason. It
// looks at its first thread alone, which in Go lives as long as the process.
func dying(pid int) bool {
	p, exists := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	if !exists || p.exiting() {
		return true
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, pending, _ := bytes.Cut(status, []byte("\nSigPnd:"))
	var signals uint64
	_, _ = fmt.Sscanf(string(pending), "%x", &signals)
	return signals&(1<<(unix.SIGKILL-1)) != 0
}

// stat is what the kernel tells of a process or thread, see proc_pid_stat(5).
type stat struct {
	state  string
	parent int
	flags  uint
}

// flagExiting is PF_EXITING in the kernel's sched.h.
const flagExiting = 0x4

func (s stat) exiting() bool { return s.state == "Z" || s.state == "X" || s.flags&flagExiting != 0 }

func readStat(file string) (s stat, exists bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return s, false
	}
	var group, session, terminal, foreground int
	// The name stands in brackets, and may have brackets itself.
	_, err = fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &s.state, &s.parent, &group, &session, &terminal, &foreground, &s.flags)
	return s, err == nil
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
		var pid int
		if p, exists := readStat(file); exists && p.parent == parent {
			if _, err := fmt.Sscanf(file, "/proc/%d/stat", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
