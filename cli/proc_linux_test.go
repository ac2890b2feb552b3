package cli

import (
	"fmt"
	"os"
	"strings"
)

// stateOf gives the letter for the state of a process, "" if there is none.
func stateOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:1]
}
