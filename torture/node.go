package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"leasehold/client"
)

var errStopped = errors.New("the run is over")

// Timeouts and snapshots of the nodes under test. Snapshots are frequent, so that a
// run takes many of them, and a node that was away needs one.
const (
	heartbeatTimeout  = 500 * time.Millisecond
	snapshotThreshold = 64
	snapshotInterval  = time.Second
	trailingLogs      = 16
)

// How long a node may take to answer after its start, and to stop when it is asked to.
const (
	startTimeout = 20 * time.Second
	stopTimeout  = 5 * time.Second
)

// node is one process of the cluster under test: it, or the ones after it that go on
// from its folder.
type node struct {
	id, address string
	folder      string
	args        []string
	output      *output
	start       func(*exec.Cmd) error
	program     string

	mu    sync.Mutex // guards what follows
	busy  bool       // somebody stops or starts it
	cmd   *exec.Cmd  // nil while it is down
	ended chan struct{}
}

// newNode prepares a node in a folder of its own, with its output in a file.
func newNode(cfg *Config, id, address, members, folder string, start func(*exec.Cmd) error) (*node, error) {
	n := &node{id: id, address: address, folder: folder, start: start, program: cfg.Program}
	n.args = []string{
		"serve", "--id", id, "--address", address, "--data", filepath.Join(folder, "data", id), "--cluster", members, "--lab",
		"--lab-seed", strconv.FormatUint(cfg.Seed, 10), "--heartbeat-timeout", heartbeatTimeout.String(), "--election-timeout", heartbeatTimeout.String(),
		"--snapshot-threshold", strconv.Itoa(snapshotThreshold), "--snapshot-interval", snapshotInterval.String(), "--trailing-logs", strconv.Itoa(trailingLogs),
	}
	var err error
	n.output, err = newOutput(filepath.Join(folder, id+".log"))
	return n, err
}

// claim makes the caller the one who stops and starts the node, if it runs and nobody
// else does.
func (n *node) claim() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy || n.cmd == nil {
		return false
	}
	n.busy = true
	return true
}

func (n *node) free() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy = false
}

// begin starts the process. ended is closed when it has ended.
func (n *node) begin() (ended <-chan struct{}, err error) {
	cmd := exec.Command(n.program, n.args...)
	cmd.Stdout, cmd.Stderr = n.output, n.output
	n.output.note("starts")
	if err := n.start(cmd); err != nil {
		return nil, fmt.Errorf("start node %s: %w", n.id, err)
	}
	done := make(chan struct{})
	n.mu.Lock()
	n.cmd, n.ended = cmd, done
	n.mu.Unlock()
	go func() {
		_ = cmd.Wait() // how it ended stands in its output
		n.output.note("ended: " + cmd.ProcessState.String())
		n.mu.Lock()
		n.cmd = nil
		n.mu.Unlock()
		close(done)
	}()
	return done, nil
}

// process is the one that runs, with the channel that is closed at its end; nil if
// none runs.
func (n *node) process() (*os.Process, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return nil, nil
	}
	return n.cmd.Process, n.ended
}

// kill ends the process at once and waits for its end.
func (n *node) kill() {
	if p, ended := n.process(); p != nil {
		_ = p.Kill() // it may just have ended
		<-ended
	}
}

// stop asks the process to end, and kills it if it does not.
func (n *node) stop() {
	p, ended := n.process()
	if p == nil {
		return
	}
	_ = terminate(p)
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		n.kill()
	}
}

// answers waits until the node answers, or its process has ended.
func (n *node) answers(ctx context.Context, api *client.API, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		try, done := context.WithTimeout(ctx, time.Second)
		_, err := api.Status(try, n.address)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("node %s ended: %s", n.id, n.output.lastLine())
		case <-ctx.Done():
			return fmt.Errorf("node %s did not answer within %v: %w", n.id, startTimeout, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// output is what a node writes. It goes to a file, and some of its lines tell of
// snapshots.
type output struct {
	mu   sync.Mutex // guards what follows
	file *os.File
	rest string // of a line that is not yet ended
	last string // line
	// own are the indexes of the snapshots that the node took of itself, and installed
	// counts those that it got from a leader.
	own       map[uint64]bool
	installed uint64
	arrived   uint64 // of those that it got, how many are at least on its disk
}

func newOutput(path string) (*output, error) {
	f, err := os.Create(path)
	return &output{file: f, own: make(map[uint64]bool)}, err
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.Split(o.rest+string(b), "\n")
	o.rest = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		o.last = line
		o.readLocked(line)
	}
	return o.file.Write(b)
}

// readLocked: these lines are Raft's.
func (o *output) readLocked(line string) {
	switch {
	case strings.Contains(line, "starting snapshot up to"):
		_, index, _ := strings.Cut(line, "index=")
		if i, err := strconv.ParseUint(strings.TrimSpace(index), 10, 64); err == nil {
			o.own[i] = true
		}
	case strings.Contains(line, "copied to local snapshot"):
		o.arrived++
	case strings.Contains(line, "Installed remote snapshot"):
		o.installed++
	}
}

// note adds a line of ours.
func (o *output) note(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.file, "--- %s %s ---\n", time.Now().UTC().Format(time.RFC3339Nano), text)
}

func (o *output) lastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// snapshots tells whether the node took the one of that index itself, and how many
// have arrived from a leader, and are installed.
func (o *output) snapshots(index uint64) (own bool, arrived, installed uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.own[index], o.arrived, o.installed
}

func (o *output) close() { _ = o.file.Close() }
