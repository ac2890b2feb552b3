package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// talk is a program that a test talks to: line by line, within bounded time.
type talk struct {
	*exec.Cmd
	in    io.Writer
	lines chan string
}

func startTalk(t *testing.T, env []string, name string, args ...string) *talk {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	c := &talk{Cmd: exec.CommandContext(ctx, name, args...), lines: make(chan string, 100)}
	c.Env = append(os.Environ(), env...)
	c.WaitDelay = time.Second // what a killed shell leaves behind may hold its output open
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in = in
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	return c
}

// says waits for the next line and fails the test unless it begins like that.
func (c *talk) says(t *testing.T, want string) string {
	t.Helper()
	select {
	case line, ok := <-c.lines:
		if rest, begins := strings.CutPrefix(line, want); ok && begins {
			return rest
		}
		t.Fatalf("it says %q, want %q", line, want)
	case <-time.After(patience):
		t.Fatalf("it does not say %q", want)
	}
	return ""
}

// ends waits for the end and fails the test unless it is with that exit code.
func (c *talk) ends(t *testing.T, code int) {
	t.Helper()
	for line := range c.lines {
		t.Logf("at its end it says %q", line)
	}
	c.Wait()
	if got := c.ProcessState.ExitCode(); got != code {
		t.Fatalf("exit code %d, want %d", got, code)
	}
}

// startAny starts three nodes any of which may lead, and gives their addresses as
// LEASEHOLD_SERVER has them.
func startAny(t *testing.T) (nodes []*server, servers string) {
	t.Helper()
	dir := t.TempDir()
	var addresses, founders []string
	for i := range 3 {
		addresses = append(addresses, dead(t))
		founders = append(founders, fmt.Sprintf("n%d=%s", i+1, addresses[i]))
	}
	for i, address := range addresses {
		id := fmt.Sprintf("n%d", i+1)
		nodes = append(nodes, begin(t, filepath.Join(dir, id), address, "--id", id, "--cluster", strings.Join(founders, ","),
			"--heartbeat-timeout", "300ms", "--election-timeout", "300ms"))
	}
	for _, n := range nodes {
		n.until(t, "it is ready", func() bool {
			r, err := http.Get("http://" + n.address + "/readyz")
			if err != nil {
				return false
			}
			r.Body.Close()
			return r.StatusCode == http.StatusOK
		})
	}
	return nodes, strings.Join(addresses, ",")
}

// stopLeader stops the leader.
func stopLeader(t *testing.T, nodes []*server) {
	t.Helper()
	for _, n := range nodes {
		if r := run(t, n.address, "status", "--json"); strings.Contains(r.stdout, `"role":"leader"`) {
			n.stop(t)
			return
		}
	}
	t.Fatal("nobody leads")
}

func revoke(t *testing.T, servers, name, token string) {
	t.Helper()
	run(t, servers, "revoke", "--token", token, "--reason", "for the test", name).expect(t, exitDone, name, "")
}

// The client in Python keeps its lease through a change of leader, waits in the
// queue for another's, and notices that it was revoked.
func TestOtherLanguages_Python(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED: docs/clients/lease.py is not tested, for there is no python3 here")
	}
	nodes, servers := startAny(t)
	script := fmt.Sprintf(`
import sys, time
sys.path.insert(0, "../docs/clients")
from lease import Lease, Lost
servers = ["http://" + s for s in %q.split(",")]
a = Lease(servers, "jobs/py", ttl=1.5)
print("token", a.token, flush=True)
try:
    Lease(servers, "jobs/py", ttl=1.5)
except Lost as e:
    print("refused", flush=True)
sys.stdin.readline()
time.sleep(4)
print("held", a.held(), flush=True)
a.release()
b = Lease(servers, "jobs/py", ttl=1.5, wait=30)
print("waited", b.token, b.held(), flush=True)
while b.held():
    time.sleep(0.05)
print("lost", flush=True)
`, servers)
	c := startTalk(t, nil, python, "-c", script)
	c.says(t, "token ")
	c.says(t, "refused")
	stopLeader(t, nodes)
	fmt.Fprintln(c.in)
	c.says(t, "held True")
	token, held, _ := strings.Cut(c.says(t, "waited "), " ")
	if held != "True" {
		t.Fatalf("a lease that was waited for is held: %s", held)
	}
	revoke(t, servers, "jobs/py", token)
	c.says(t, "lost")
	c.ends(t, 0)
}

// The script in bash keeps its lease through a change of leader, gives it back at
// the end, and kills its command when the lease is lost.
func TestOtherLanguages_Bash(t *testing.T) {
	if _, err := os.Stat("/proc/uptime"); err != nil {
		t.Skip("SKIPPED: docs/clients/lease.sh is not tested, for it needs the /proc of Linux")
	}
	nodes, servers := startAny(t)
	env := []string{"LEASEHOLD_SERVER=" + servers, "no_proxy=*"}
	script := func(args ...string) *talk { return startTalk(t, env, "../docs/clients/lease.sh", args...) }

	c := script("jobs/sh", "2", "bash", "-c", "echo token $LEASEHOLD_TOKEN; sleep 5; echo still here; exit 3")
	c.says(t, "token ")
	script("jobs/sh", "2", "echo", "never").ends(t, exitNotAcquired)
	stopLeader(t, nodes)
	c.says(t, "still here")
	c.ends(t, 3)

	c = script("jobs/sh", "2", "bash", "-c", "echo token $LEASEHOLD_TOKEN; sleep 60 & sleep 60; echo never")
	revoke(t, servers, "jobs/sh", c.says(t, "token "))
	c.ends(t, exitLost)
}
