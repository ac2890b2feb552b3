package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// childrenOf lists the processes that a process has started.
func childrenOf(t *testing.T, parent int) (pids []int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if err != nil {
		t.Skip("this system does not tell children: ", err)
	}
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent))
	for _, task := range tasks {
		more, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, task.Name()))
		text = append(append(text, ' '), more...)
	}
	for _, field := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(field)
		pids = append(pids, pid)
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
