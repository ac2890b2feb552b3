package cli

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asProgram in the environment makes the test binary behave as leasehold does, for
// tests that need processes of their own.
const asProgram = "LEASEHOLD_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asWorker); dir != "" && len(os.Args) == 2 {
		work(dir, os.Args[1] == "first")
	}
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(os.Args))
	}
	// Under nohup a HUP is ignored, after & in a script an INT and a QUIT are, and would
	// be by every process that a test starts. What is caught here is not ignored there.
	for _, sig := range stopSignals {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	os.Exit(m.Run())
}

// process is leasehold in a process of its own.
type process struct {
	cmd    *exec.Cmd
	out    *bufio.Reader // its stdout, which is that of its children too
	pipe   *os.File
	stderr output
	ended  chan struct{} // closed when it has
}

// launch starts leasehold.
func launch(t *testing.T, server string, args ...string) *process {
	t.Helper()
	t.Setenv(asProgram, "1")
	t.Setenv(serversVariable, server)
	return launchCommand(t, os.Args[0], args...)
}

// launchCommand starts a command that becomes leasehold.
func launchCommand(t *testing.T, name string, args ...string) *process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(name, args...), out: bufio.NewReader(r), pipe: r}
	p.cmd.Stdout, p.cmd.Stderr = w, &p.stderr
	p.cmd.WaitDelay = time.Second
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	p.ended = make(chan struct{})
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		r.Close()
		if t.Failed() {
			t.Logf("%q said: %s", args, p.stderr.String())
		}
	})
	return p
}

// line waits for a line of the command.
func (p *process) line(t *testing.T) string {
	t.Helper()
	_ = p.pipe.SetReadDeadline(time.Now().Add(patience))
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("got %q, %v; stderr %q", line, err, p.stderr.String())
	}
	return strings.TrimSpace(line)
}

func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Error(err)
	}
}

// code waits for the end of the process and gives its exit code, as a shell does.
func (p *process) code(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return codeOf(p.cmd.ProcessState.Sys().(syscall.WaitStatus))
	case <-time.After(patience):
		t.Fatalf("it goes on; stderr %q", p.stderr.String())
		return 0
	}
}

// allGone fails the test unless every process that had the stdout is gone by then:
// only so does it come to its end. It gives what was left to read.
func (p *process) allGone(t *testing.T, by time.Time) string {
	t.Helper()
	_ = p.pipe.SetReadDeadline(by)
	rest, err := io.ReadAll(p.out)
	if err != nil {
		t.Errorf("something has survived: %v", err)
	}
	return string(rest)
}

// alone starts a node for a test.
func alone(t *testing.T) *server {
	t.Helper()
	return start(t, filepath.Join(t.TempDir(), "data"), dead(t))
}
