package cli

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leasehold/httpapi/wire"
)

// runaways are what leaves the process group of a command. Each writes a line when
// it has.
var runaways = map[string]string{
	// GNU timeout makes a group of its own, so that it can end it.
	"timeout": `timeout 100 sh -c 'echo up; sleep 100; :'`,
	"session": `setsid -w sh -c 'trap "" TERM; echo up; sleep 100; :'`,
	// A daemon leaves its session and its parent too.
	"daemon": `(setsid sh -c 'trap "" TERM HUP; (sleep 100 & echo up; wait; sleep 100) & exit' &)`,
	// A comet is gone as soon as it has forked; the sleepers become more.
	"forks": `setsid sh -c '
		comet="if [ \$1 -gt 0 ]; then sh -c \"\$0\" \"\$0\" \$((\$1 - 1)) & fi"
		sh -c "$comet" "$comet" 5000 &
		n=0; while [ $n -lt 100 ]; do sleep 20 & n=$((n + 1)); [ $n -ne 30 ] || echo up; done; wait'`,
	"forks in the group": `sh -c '
		comet="if [ \$1 -gt 0 ]; then sh -c \"\$0\" \"\$0\" \$((\$1 - 1)) & fi"
		sh -c "$comet" "$comet" 5000 & setsid sh -c "echo up; sleep 100; :" & wait'`,
}

// runaway is exec with a command that has a runaway.
type runaway struct {
	*process
	lease string
	died  chan time.Time // when the command and all that it has started were dead
}

// startRunaways runs a command with each kind of runaway, under a lease of that name.
func startRunaways(t *testing.T, s *server, ttl time.Duration) (all []runaway) {
	t.Helper()
	for kind, script := range runaways {
		name := strings.ReplaceAll(kind, " ", "-")
		pipe := filepath.Join(t.TempDir(), "trace")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		trace, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { trace.Close() })
		died := make(chan time.Time, 1)
		script = `exec 9>"$0"; trap "exit 3" USR1; ` + script + ` & while :; do sleep 0.02; done`
		p := launch(t, s.address, "exec", "--ttl", ttl.String(), name, "--", "sh", "-c", script, pipe)
		p.line(t)
		go func() { // after the first has opened it
			if _, err := io.ReadAll(trace); err == nil {
				died <- time.Now()
			}
		}()
		r := runaway{p, name, died}
		if outside := func(pid int) bool { return groupOf(pid) != groupOf(r.guard(t)) }; !slices.ContainsFunc(descendants(r.guard(t), nil), outside) {
			t.Fatalf("%s: nothing has left the group", kind)
		}
		all = append(all, r)
	}
	return all
}

func groupOf(pid int) int {
	group, _ := syscall.Getpgid(pid)
	return group
}

// guard gives the number of its guard.
func (r runaway) guard(t *testing.T) int {
	t.Helper()
	pids := children(r.cmd.Process.Pid)
	if len(pids) != 1 {
		t.Fatalf("exec has the children %v, want the guard alone", pids)
	}
	return pids[0]
}

// dead fails the test unless all is dead by then.
func (r runaway) dead(t *testing.T, by time.Time) {
	t.Helper()
	select {
	case at := <-r.died:
		if at.After(by) {
			t.Errorf("%s: something has survived for %v", r.lease, at.Sub(by))
		}
	case <-time.After(time.Until(by) + time.Second):
		t.Errorf("%s: something has survived", r.lease)
	}
}

// exits fails the test unless exec exits with this code.
func (r runaway) exits(t *testing.T, want int) {
	t.Helper()
	if code := r.code(t); code != want {
		t.Errorf("%s: exit code %d, want %d; stderr %q", r.lease, code, want, r.stderr.String())
	}
	r.allGone(t, time.Now().Add(time.Second))
}

// hold makes this process the tracer of another. When that dies, its parent cannot
// collect it until it has been collected here.
func hold(t *testing.T, pid int) (collect func()) {
	t.Helper()
	runtime.LockOSThread() // the tracer is a thread
	if err := unix.PtraceSeize(pid); err != nil {
		t.Skipf("no process can be traced here: %v", err)
	}
	return func() {
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil || status.Signal() != unix.SIGKILL {
			t.Errorf("the guard was not held until here: %v, %v", status, err)
		}
		runtime.UnlockOSThread()
	}
}

// Whatever ends a command, nothing that it has started lives on, wherever it went.
func TestExec_Runaways(t *testing.T) {
	const ttl = 4 * time.Second
	each := func(end func(t *testing.T, s *server, r runaway)) func(*testing.T) {
		return func(t *testing.T) {
			s := alone(t)
			for _, r := range startRunaways(t, s, ttl) {
				end(t, s, r)
			}
		}
	}
	t.Run("normal end", each(func(t *testing.T, s *server, r runaway) {
		r.signal(t, syscall.SIGUSR1)
		r.exits(t, 3)
		r.dead(t, time.Now())
		s.given(t, r.lease)
	}))
	t.Run("TERM", each(func(t *testing.T, s *server, r runaway) {
		r.signal(t, syscall.SIGTERM)
		r.exits(t, 143)
		r.dead(t, time.Now())
		s.given(t, r.lease)
	}))
	t.Run("revoked", each(func(t *testing.T, s *server, r runaway) {
		if _, err := s.api(t).Revoke(t.Context(), wire.RevokeRequest{Name: r.lease, Token: s.lease(t, r.lease).Token, Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		r.dead(t, time.Now().Add(ttl))
		r.exits(t, exitLost)
		if said := r.stderr.String(); !strings.Contains(said, "revoked") || strings.Contains(said, "cannot be killed") {
			t.Errorf("%s: stderr %q", r.lease, said)
		}
	}))
	t.Run("exec killed", each(func(t *testing.T, _ *server, r runaway) {
		r.signal(t, syscall.SIGKILL)
		r.dead(t, time.Now().Add(ttl))
	}))
	t.Run("guard killed", each(func(t *testing.T, s *server, r runaway) {
		if err := syscall.Kill(r.guard(t), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.dead(t, time.Now().Add(ttl))
		r.exits(t, 137)
		s.given(t, r.lease)
	}))
	// A busy machine can take seconds to give back the memory of a process that was
	// killed, and until then its parent cannot collect it.
	t.Run("guard killed and not collected", each(func(t *testing.T, s *server, r runaway) {
		guard := r.guard(t)
		collect := hold(t, guard)
		if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.dead(t, time.Now().Add(ttl))
		r.exits(t, 137)
		s.given(t, r.lease)
		collect()
	}))
	t.Run("guard stopped, then revoked", each(func(t *testing.T, s *server, r runaway) {
		if err := syscall.Kill(r.guard(t), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if _, err := s.api(t).Revoke(t.Context(), wire.RevokeRequest{Name: r.lease, Token: s.lease(t, r.lease).Token, Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		r.dead(t, time.Now().Add(ttl))
		r.exits(t, exitLost)
	}))
	// In these nothing is renewed any more.
	together := func(end func(s *server, all []runaway), after func(r runaway)) func(*testing.T) {
		return func(t *testing.T) {
			s := alone(t)
			all := startRunaways(t, s, ttl)
			end(s, all)
			by := time.Now().Add(ttl)
			for _, r := range all {
				r.dead(t, by)
			}
			for _, r := range all {
				after(r)
				r.exits(t, exitLost)
			}
		}
	}
	t.Run("silence", together(
		func(s *server, _ []runaway) { s.stop(t) },
		func(runaway) {},
	))
	t.Run("exec stopped", together(
		func(_ *server, all []runaway) {
			for _, r := range all {
				r.signal(t, syscall.SIGSTOP)
			}
		},
		func(r runaway) { r.signal(t, syscall.SIGCONT) },
	))
}

// A command that leaves its group itself gets the signals all the same.
func TestExec_CommandLeavesItsGroup(t *testing.T) {
	s := alone(t)
	p := launch(t, s.address, "exec", "a", "--", "timeout", "100", "sh", "-c", "trap 'echo done; exit 4' TERM; echo up; while :; do sleep 0.02; done")
	p.line(t)
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 4 {
		t.Errorf("exit code %d", code)
	}
	if rest := p.allGone(t, time.Now().Add(time.Second)); rest != "done\n" {
		t.Errorf("it said %q", rest)
	}
	s.given(t, "a")
}

// What the shell that became exec had started before is not the command's.
func TestExec_SparesWhatWasThereBefore(t *testing.T) {
	s := alone(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asProgram, "1")
	t.Setenv(serversVariable, s.address)
	for _, end := range []string{"exit 3", "kill -9 0"} { // the guard is in the group too
		p := launchCommand(t, "sh", "-c", `sleep 100 & echo $!; exec "$0" exec a -- sh -c '(setsid sleep 100 &); `+end+`'`, self)
		before, err := strconv.Atoi(p.line(t))
		if err != nil {
			t.Fatal(err)
		}
		if code := p.code(t); code != 3 && code != 137 {
			t.Errorf("%s: exit code %d; stderr %q", end, code, p.stderr.String())
		}
		if stateOf(before) == "" {
			t.Errorf("%s: what was there before is dead", end)
		}
		_ = syscall.Kill(before, syscall.SIGKILL)
		p.allGone(t, time.Now().Add(time.Second))
		s.given(t, "a")
	}
}
