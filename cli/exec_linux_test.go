package cli

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/client"
	"leasehold/httpapi/wire"
)

// api gives the calls of a node.
func (s *server) api(t *testing.T) *client.API {
	t.Helper()
	api, err := client.NewAPI(client.Config{Servers: []string{s.address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close() })
	return api
}

// lease reads a lease.
func (s *server) lease(t *testing.T, name string) wire.Lease {
	t.Helper()
	l, err := s.api(t).Lease(t.Context(), name, client.Linearizable)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// given fails the test unless the lease is free and was given back last.
func (s *server) given(t *testing.T, name string) {
	t.Helper()
	if l := s.lease(t, name); l.State != "free" || l.Waiters != 0 || l.Last == nil || l.Last.How != "released" {
		t.Errorf("the lease is %+v, want it released", l)
	}
}

// The exit code is that of the command, and others are as documented.
func TestExec_Codes(t *testing.T) {
	s := alone(t)
	s.acquire(t, "taken")
	for _, tt := range []struct {
		args string // after exec; the last field after "sh" is one word
		code int
	}{
		{"a -- true", 0},
		{"a -- false", 1},
		{"a -- sh -c exit${IFS}7", 7},
		{"a -- sh -c kill${IFS}-TERM${IFS}$$", 143},
		{"a -- sh -c kill${IFS}-KILL${IFS}$$", 137},
		{"a -- ./nosuch", 127},
		{"a -- nosuch", 127},
		{"a -- /etc/passwd", 126},
		{"a -- /", 126},
		{"taken -- true", 75},
		{"--wait 50ms taken -- true", 75},
		{"--ttl 1ms a -- true", 2},
		{"--server " + dead(t) + " --timeout 100ms a -- true", 125},
		{"a", 2},
		{"a true", 2},
		{"a --", 2},
		{"-- a true", 2},
		{"a b -- true", 2},
		{"a//b -- true", 2},
		{"a --nosuch -- true", 2},
	} {
		p := launch(t, s.address, append([]string{"exec"}, strings.Fields(tt.args)...)...)
		if code := p.code(t); code != tt.code {
			t.Errorf("exec %s: exit code %d, want %d; stderr %q", tt.args, code, tt.code, p.stderr.String())
		}
	}
	s.given(t, "a")
}

// The command finds its grant in its environment, the inner one if it is nested,
// and gets its own arguments and standard input.
func TestExec_Environment(t *testing.T) {
	s := alone(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const show = "echo $LEASEHOLD_NAME $LEASEHOLD_TOKEN $LEASEHOLD_HOLDER $LEASEHOLD_CLUSTER_ID"
	p := launch(t, s.address, "exec", "--holder", "h1", "outer", "--", "sh", "-c", show+"; exec \"$0\" exec --holder h2 inner -- sh -c '"+show+"'", self)
	outer, inner := strings.Fields(p.line(t)), strings.Fields(p.line(t))
	if code := p.code(t); code != 0 || len(outer) != 4 || len(inner) != 4 {
		t.Fatalf("exit code %d: %q, %q", code, outer, inner)
	}
	first, _ := strconv.Atoi(outer[1])
	second, _ := strconv.Atoi(inner[1])
	if outer[0] != "outer" || outer[2] != "h1" || inner[0] != "inner" || inner[2] != "h2" || second <= first || first == 0 || inner[3] != outer[3] || inner[3] == "" {
		t.Errorf("outer %q, inner %q", outer, inner)
	}

	p = launch(t, s.address, "exec", "a", "--", "echo", "-v", "--json", "--", "-h")
	if line := p.line(t); line != "-v --json -- -h" {
		t.Errorf("the command got %q", line)
	}
}

// Whenever a signal comes, and whichever, nothing is left over and the lease is
// free. The code tells the signal.
func TestExec_SignalAtAnyMoment(t *testing.T) {
	s := alone(t)
	for round := range 60 {
		sig := stopSignals[round%len(stopSignals)]
		p := launch(t, s.address, "exec", "--ttl", "1h", "a", "--", "sh", "-c", "sleep 100 & wait")
		<-time.After(time.Duration(rand.IntN(60_000)) * time.Microsecond)
		p.signal(t, sig)
		code := p.code(t)
		// In its first moments a program in Go answers a QUIT with a trace.
		if code != 128+int(sig) && !strings.HasPrefix(p.stderr.String(), "SIGQUIT") {
			t.Errorf("%v: exit code %d", sig, code)
		}
		p.allGone(t, time.Now().Add(time.Second))
		if l := s.lease(t, "a"); l.State != "free" || l.Waiters != 0 {
			t.Fatalf("%v: the lease is %+v", sig, l)
		}
		if t.Failed() {
			return
		}
	}
}

// A stop ends the waiting, and the place in the queue is given up.
func TestExec_SignalWhileWaiting(t *testing.T) {
	s := alone(t)
	s.acquire(t, "a")
	p := launch(t, s.address, "exec", "--wait", "1m", "a", "--", "echo", "started")
	s.until(t, "it waits", func() bool { return s.lease(t, "a").Waiters == 1 })
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 143 {
		t.Errorf("exit code %d", code)
	}
	if rest := p.allGone(t, time.Now().Add(time.Second)); rest != "" {
		t.Errorf("the command was started: %q", rest)
	}
	if l := s.lease(t, "a"); l.Waiters != 0 || l.Holder != "w1" {
		t.Errorf("the lease is %+v", l)
	}
}

// A command that takes its time after a TERM keeps its lease until it is done. A
// second TERM kills it.
func TestExec_StopTakesItsTime(t *testing.T) {
	s := alone(t)
	const slow = "trap 'sleep 2.5; exit 4' TERM; echo up; while :; do sleep 0.02; done"
	p := launch(t, s.address, "exec", "--ttl", "1500ms", "a", "--", "sh", "-c", slow)
	p.line(t)
	token := s.lease(t, "a").Token
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 4 {
		t.Errorf("exit code %d", code)
	}
	p.allGone(t, time.Now().Add(time.Second))
	if s.given(t, "a"); s.lease(t, "a").Last.Token != token {
		t.Error("it was another grant")
	}

	p = launch(t, s.address, "exec", "a", "--", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.02; done")
	p.line(t)
	p.signal(t, syscall.SIGTERM)
	p.signal(t, syscall.SIGINT)
	if code := p.code(t); code != 137 {
		t.Errorf("exit code %d", code)
	}
	p.allGone(t, time.Now().Add(time.Second))
	s.given(t, "a")
}

// What a command leaves behind in its group does not outlive it.
func TestExec_LeavesNothingBehind(t *testing.T) {
	s := alone(t)
	p := launch(t, s.address, "exec", "a", "--", "sh", "-c", "trap '' TERM; sleep 100 & exit 3")
	if code := p.code(t); code != 3 {
		t.Errorf("exit code %d", code)
	}
	p.allGone(t, time.Now().Add(time.Second))
	s.given(t, "a")
}

// commands that do not want to end.
var stubborn = map[string]string{
	"waits for a child": "sleep 100 & echo up; wait",
	"ignores TERM":      "trap '' TERM; sleep 100 & echo up; while :; do sleep 0.02; done",
	"stopped":           "echo up; kill -STOP $$; sleep 100",
}

// When nothing can be renewed the whole group is dead before the server could
// grant the lease again.
func TestExec_Lost_Silence(t *testing.T) {
	for name, script := range stubborn {
		t.Run(name, func(t *testing.T) {
			s := alone(t)
			const ttl = time.Second
			p := launch(t, s.address, "exec", "--ttl", ttl.String(), "a", "--", "sh", "-c", script)
			p.line(t)
			s.stop(t)
			p.groupEnds(t, time.Now().Add(ttl)) // no renewal came after this
			if code := p.code(t); code != exitLost {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// A lease that was revoked is somebody else's at once; the group is dead within the
// TTL.
func TestExec_Lost_Revoked(t *testing.T) {
	for name, script := range stubborn {
		t.Run(name, func(t *testing.T) {
			s := alone(t)
			const ttl = time.Second
			p := launch(t, s.address, "exec", "--ttl", ttl.String(), "a", "--", "sh", "-c", script)
			p.line(t)
			if _, err := s.api(t).Revoke(t.Context(), wire.RevokeRequest{Name: "a", Token: s.lease(t, "a").Token, Reason: "test"}); err != nil {
				t.Fatal(err)
			}
			p.groupEnds(t, time.Now().Add(ttl))
			if code := p.code(t); code != exitLost || !strings.Contains(p.stderr.String(), "revoked") {
				t.Errorf("exit code %d, stderr %q", code, p.stderr.String())
			}
		})
	}
}

// When exec itself is killed its whole group dies, and when it is stopped the group
// dies in time.
func TestExec_KilledOrStopped(t *testing.T) {
	for name, script := range stubborn {
		t.Run(name, func(t *testing.T) {
			s := alone(t)
			const ttl = time.Second
			p := launch(t, s.address, "exec", "--ttl", "1h", "a", "--", "sh", "-c", script)
			p.line(t)
			p.signal(t, syscall.SIGKILL)
			p.allGone(t, time.Now().Add(ttl))

			p = launch(t, s.address, "exec", "--ttl", ttl.String(), "b", "--", "sh", "-c", script)
			p.line(t)
			p.signal(t, syscall.SIGSTOP)
			p.groupEnds(t, time.Now().Add(ttl))
			p.signal(t, syscall.SIGCONT)
			if code := p.code(t); code != exitLost {
				t.Errorf("exit code %d", code)
			}
			p.allGone(t, time.Now().Add(time.Second))
		})
	}
}

// groupEnds fails the test unless all that the process has started is dead by then.
// (Exec itself has the stdout too, and may take longer.)
func (p *process) groupEnds(t *testing.T, by time.Time) {
	t.Helper()
	lives := func(pid int) bool {
		state := stateOf(pid)
		return state != "" && state != "Z" && state != "X"
	}
	late := time.After(time.Until(by))
	for slices.ContainsFunc(childrenOf(t, p.cmd.Process.Pid), lives) {
		select {
		case <-late:
			t.Fatal("the group has outlived the lease")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
