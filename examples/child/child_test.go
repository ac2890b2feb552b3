package child_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"leasehold/examples/child"
)

// lifetime of what is to be killed is longer than any test waits.
const lifetime = time.Hour

// TestMain is also what the processes of these tests run.
func TestMain(m *testing.M) {
	switch role := os.Args[len(os.Args)-1]; {
	case role == "parent": // of a deaf child, and lives until it is killed
		lines := make(chan string, 1)
		if _, err := child.Start(func(line []byte) { lines <- string(line) }, "deaf"); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(<-lines)
		<-time.After(lifetime)
	case child.IsThis() && role == "obedient":
		ctx, cancel := child.Context(context.Background())
		defer cancel()
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("goodbye")
	case child.IsThis(): // deaf: it does not look at its input
		fmt.Println("ready")
		<-time.After(lifetime)
	default:
		os.Exit(m.Run())
	}
}

// started starts a child that is ready, and gives what it prints from then on.
func started(t *testing.T, role string) (*child.Child, <-chan string) {
	t.Helper()
	lines := make(chan string, 10)
	c, err := child.Start(func(line []byte) { lines <- string(line) }, role)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Kill(); <-c.Ended() })
	if line := <-lines; line != "ready" {
		t.Fatalf("the child says %q", line)
	}
	return c, lines
}

// TestChild_Stop ensures that a child that is asked to stop ends in order, even if it
// was paused, and that one that does not listen is killed.
func TestChild_Stop(t *testing.T) {
	c, lines := started(t, "obedient")
	c.Pause()
	if err := c.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	if line := <-lines; line != "goodbye" {
		t.Errorf("the last line is %q", line)
	}
	c, _ = started(t, "deaf")
	if err := c.Stop(100 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Stop of a deaf child = %v", err)
	}
}

// TestChild_DiesWithParent ensures that a child whose parent was killed by -9 is
// killed too, although it does not look at its input.
func TestChild_DiesWithParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills the children of a process that has died")
	}
	// Parent and child have the writing end of this pipe, as their standard error. It
	// ends for the reader when both are gone.
	alive, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	parent := exec.Command(os.Args[0], "parent")
	parent.Stderr = held
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = parent.Process.Kill(); _ = parent.Wait() }()
	held.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the parent says %q, %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := alive.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(alive); err != nil || len(text) > 0 {
		t.Errorf("the child lives on: %q, %v", text, err)
	}
}
