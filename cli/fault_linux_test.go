package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/httpapi/wire"
)

// Three nodes in processes of their own: the leader is cut off and frozen with
// faults on, thawed and stopped. It heals itself, ends in good order, and nothing of
// what it was asked while it was cut off has happened.
func TestFault_Processes(t *testing.T) {
	var founders, addresses []string
	for i := range 3 {
		addresses = append(addresses, dead(t))
		founders = append(founders, fmt.Sprintf("n%d=%s", i+1, addresses[i]))
	}
	nodes := make(map[string]*process)
	dir, all := t.TempDir(), strings.Join(addresses, ",")
	for i, address := range addresses {
		id := fmt.Sprintf("n%d", i+1)
		nodes[id] = launch(t, "", "serve", "--id", id, "--address", address, "--data", filepath.Join(dir, id),
			"--cluster", strings.Join(founders, ","), "--lab")
	}
	at := make(map[string]string)
	leader := func(but string) (id string) {
		t.Helper()
		deadline := time.After(patience)
		for {
			for line := range strings.Lines(run(t, all, "status", "--json").stdout) {
				var st wire.Status
				if json.Unmarshal([]byte(line), &st) == nil {
					at[st.ID] = st.Address
				}
				if st.Role == "leader" && st.ID != but && st.AppliedIndex > 0 {
					return st.ID
				}
			}
			select {
			case <-deadline:
				t.Fatal("nobody leads")
			default:
			}
		}
	}
	old := leader("")
	run(t, at[old], "fault", "cut", "--for", "5m").expect(t, exitDone, "f1: cut", "")
	run(t, at[old], "fault", "slow_fsync", "--delay", "1m", "--for", "10s").expect(t, exitDone, "f2: slow_fsync", "")
	if r := run(t, at[old], "acquire", "--holder", "h", "--ttl", "1h", "--timeout", "2s", "lost"); r.code == exitDone {
		t.Error("a leader that was cut off has made a grant")
	}
	next := leader(old)
	run(t, at[next], "acquire", "--holder", "h", "--ttl", "1h", "kept").expect(t, exitDone, "token", "")
	nodes[old].signal(t, syscall.SIGSTOP)
	run(t, at[next], "get", "lost").expect(t, exitDone, "free", "")
	nodes[old].signal(t, syscall.SIGCONT)
	nodes[old].signal(t, syscall.SIGTERM)
	if code := nodes[old].code(t); code != exitDone {
		t.Errorf("it ended with %d", code)
	}
	said := nodes[old].stderr.String()
	for _, line := range []string{"THIS NODE IS A LAB", `FAULT begins: id=f1 what="cut to and from all nodes for 5m0s"`, `FAULT healed: id=f1`, `why="this node stops"`} {
		if !strings.Contains(said, line) {
			t.Errorf("its log lacks %q", line)
		}
	}
}
