package torture_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// However the tool ends, no node of it is left.
func TestTorture_LeavesNothingRunning(t *testing.T) {
	for _, how := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGABRT} {
		t.Run(how.String(), func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "run")
			cmd := leasehold(t, "torture", "--seed", "3", "--nodes", "5", "--faults", "pause", "--out", out)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var nodes []int
			within(t, 30*time.Second, "five nodes that work", func() bool {
				nodes = childrenOf(cmd.Process.Pid)
				info, err := os.Stat(filepath.Join(out, "history.jsonl"))
				return len(nodes) == 5 && err == nil && info.Size() > 0
			})
			_ = cmd.Process.Signal(how)
			checkEnd(t, cmd, how)
			within(t, 5*time.Second, "the end of all nodes", func() bool {
				for _, pid := range nodes {
					if s := stateOf(pid); s != "" && s != "Z" {
						return false
					}
				}
				return true
			})
		})
	}
}

// checkEnd ensures that the tool ends, and with no verdict.
func checkEnd(t *testing.T, cmd *exec.Cmd, how syscall.Signal) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		t.Errorf("it goes on after %v", how)
		<-ended
	}
	code, want := cmd.ProcessState.ExitCode(), -1 // by a signal
	if how == syscall.SIGINT || how == syscall.SIGTERM {
		want = 128 + int(how)
	}
	if code != want && !(how == syscall.SIGABRT && code > 2) {
		t.Errorf("%v: exit code %d, want %d", how, code, want)
	}
}

func within(t *testing.T, atMost time.Duration, what string, reached func() bool) {
	t.Helper()
	deadline := time.After(atMost)
	for !reached() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%s: not within %v", what, atMost)
		}
	}
}

// childrenOf lists the processes that a process has started.
func childrenOf(parent int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			var pid int
			if _, err := fmt.Sscan(field, &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// stateOf gives the letter for the state of a process, "" if there is none.
func stateOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:1]
}
