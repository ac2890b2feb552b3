package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"leasehold/cluster"
	"leasehold/httpapi/wire"
)

// patience is how long a test waits for a node to do something that takes it
// well under a second, on a machine that is busy with other things.
const patience = 30 * time.Second

// output is written by a node and read by a test.
type output struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// server is a node that this process runs by the command line, on a real folder
// and a real port.
type server struct {
	data, address  string
	cancel         context.CancelFunc
	ended          chan struct{} // closed when code is set
	code           int
	stdout, stderr output
}

// begin starts a node of a cluster of one. Flags come after those that every
// start needs, and may repeat them.
func begin(t *testing.T, data, address string, flags ...string) *server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{data: data, address: address, cancel: cancel, ended: make(chan struct{})}
	args := append([]string{
		"leasehold", "serve", "--id", "n1", "--address", address, "--data", data, "--cluster", "n1=" + address,
		"--heartbeat-timeout", "50ms", "--election-timeout", "50ms",
	}, flags...)
	go func() {
		defer close(s.ended)
		s.code = Run(ctx, args, &s.stdout, &s.stderr, func(string) string { return "" })
	}()
	t.Cleanup(func() {
		cancel()
		<-s.ended
		if t.Failed() {
			t.Logf("node on %s, exit code %d:\n%s", data, s.code, s.stderr.String())
		}
	})
	// The command line library keeps flags in global variables. Once the node has
	// said something it is through with them, and other commands may be run.
	s.until(t, "it says anything", func() bool { return s.stderr.String() != "" })
	return s
}

// wait waits until the node has ended, and gives its exit code.
func (s *server) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-s.ended:
		return s.code
	case <-time.After(patience):
		t.Fatalf("the node goes on:\n%s", s.stderr.String())
		return 0
	}
}

// stop ends the node in an orderly way, as TERM does, and wants it to exit 0.
func (s *server) stop(t *testing.T) {
	t.Helper()
	s.cancel()
	if code := s.wait(t); code != exitDone {
		t.Fatalf("exit code %d after an orderly stop:\n%s", code, s.stderr.String())
	}
}

// until waits until something is so, and gives up when the node has ended.
func (s *server) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.After(patience)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !so() {
		select {
		case <-again.C:
		case <-s.ended:
			if so() {
				return
			}
			t.Fatalf("the node ended with %d before %s:\n%s", s.code, what, s.stderr.String())
		case <-deadline:
			t.Fatalf("not within %v: %s\n%s", patience, what, s.stderr.String())
		}
	}
}

// start starts a node and waits until it serves.
func start(t *testing.T, data, address string, flags ...string) *server {
	t.Helper()
	s := begin(t, data, address, flags...)
	s.until(t, "it is ready", func() bool {
		r, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		// A first start ends with a note of the cluster's id; after it the node
		// writes only what it is asked to.
		identity, _ := os.ReadFile(filepath.Join(data, "node.json"))
		return r.StatusCode == http.StatusOK && bytes.Contains(identity, []byte("cluster_id"))
	})
	return s
}

// acquire gets a lease that does not run out during a test.
func (s *server) acquire(t *testing.T, name string) wire.Grant {
	t.Helper()
	r := run(t, s.address, "acquire", "--holder", "w1", "--ttl", "1h", "--json", name)
	var g wire.Grant
	if err := json.Unmarshal([]byte(r.stdout), &g); r.code != exitDone || err != nil {
		t.Fatalf("acquire %s: exit code %d, %v\n%s%s", name, r.code, err, r.stdout, r.stderr)
	}
	return g
}

// holds fails the test unless the node knows the grant as live.
func (s *server) holds(t *testing.T, g wire.Grant) {
	t.Helper()
	r := run(t, s.address, "get", "--json", g.Name)
	var l wire.Lease
	if err := json.Unmarshal([]byte(r.stdout), &l); err != nil || l.Token != g.Token || l.Holder != g.Holder {
		t.Fatalf("%s is %+v, want token %d of %s (%v)\n%s", g.Name, l, g.Token, g.Holder, err, r.stderr)
	}
}

// logLine is a line of a node's log, as opposed to what the command says.
var logLine = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\S+ \[`)

// refused waits until the node has ended by itself, and fails the test unless it
// exits with an error and says why in one line that contains want.
func (s *server) refused(t *testing.T, code int, want string) {
	t.Helper()
	if got := s.wait(t); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	s.plain(t)
	var said []string
	for line := range strings.Lines(s.stderr.String()) {
		if !logLine.MatchString(line) {
			said = append(said, strings.TrimSuffix(line, "\n"))
		}
	}
	if code == exitUsage && len(said) == 2 && strings.HasPrefix(said[1], "see leasehold serve --help") {
		said = said[:1]
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "leasehold") || !strings.Contains(said[0], want) {
		t.Errorf("it says %q, want one line with %q", said, want)
	}
}

// plain fails the test if a reader of stderr is shown the insides of the program.
func (s *server) plain(t *testing.T) {
	t.Helper()
	for _, word := range []string{"panic", "goroutine ", "runtime error", "unexpected fault", ".go:"} {
		if strings.Contains(s.stderr.String(), word) {
			t.Errorf("stderr has %q in it", word)
		}
	}
}

// folder is what is in a data folder: the bytes of each file, by its name.
type folder map[string]string

func contents(t *testing.T, path string) folder {
	t.Helper()
	all := make(folder)
	err := filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == path {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		rel, _ := filepath.Rel(path, name)
		all[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// unchanged fails the test unless a data folder holds what it held before.
func (before folder) unchanged(t *testing.T, path string) {
	t.Helper()
	after := contents(t, path)
	for name, data := range before {
		if now, there := after[name]; !there {
			t.Errorf("%s is gone", name)
		} else if now != data {
			t.Errorf("%s has changed (%d bytes, were %d)", name, len(now), len(data))
		}
	}
	for name := range after {
		if _, there := before[name]; !there {
			t.Errorf("%s is new", name)
		}
	}
}

// sameState fails the test unless both folders hold the same, down to each log
// entry. (The file of the log may differ: opening it counts a transaction.)
func sameState(t *testing.T, got, want string) {
	t.Helper()
	a, b := contents(t, got), contents(t, want)
	delete(a, "raft.db")
	delete(b, "raft.db")
	for _, name := range []string{"node.json"} {
		if a[name] != b[name] {
			t.Errorf("%s is %s, was %s", name, a[name], b[name])
		}
	}
	if len(a) != len(b) {
		t.Errorf("there are %d files besides the log, there were %d", len(a), len(b))
	}
	x, y := readState(t, got), readState(t, want)
	if x != y {
		t.Errorf("the log is\n%s\nit was\n%s", x, y)
	}
}

// open opens a data folder as a node does.
func open(t *testing.T, path string) *cluster.Stores {
	t.Helper()
	s, err := (&cluster.Folder{Path: path, Logger: hclog.NewNullLogger()}).Open()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readState writes out what Raft has on disk.
func readState(t *testing.T, path string) string {
	t.Helper()
	s := open(t, path)
	defer s.Close()
	var out strings.Builder
	for _, key := range []string{"CurrentTerm", "LastVoteTerm"} {
		n, _ := s.Stable.GetUint64([]byte(key))
		fmt.Fprintln(&out, key, n)
	}
	first, err := s.Log.FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	last, err := s.Log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for i := first; i <= last; i++ {
		var l raft.Log
		if err := s.Log.GetLog(i, &l); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%d %d %v %x\n", l.Index, l.Term, l.Type, l.Data)
	}
	return out.String()
}

// used is the data folder of a node that has run and was stopped.
type used struct {
	path    string // not to be written to; copies are made
	address string
	grants  []wire.Grant
}

// useOnce runs a node that makes some grants.
func useOnce(t *testing.T, grants int, flags ...string) used {
	t.Helper()
	u := used{path: filepath.Join(t.TempDir(), "data"), address: dead(t)}
	s := start(t, u.path, u.address, flags...)
	for i := range grants {
		u.grants = append(u.grants, s.acquire(t, fmt.Sprintf("jobs/%d", i)))
	}
	s.stop(t)
	return u
}

// withSnapshots makes snapshots often, and keeps few entries behind them.
var withSnapshots = []string{"--snapshot-threshold", "4", "--snapshot-interval", "5ms", "--trailing-logs", "2"}

// useWithSnapshots is as useOnce, and leaves two snapshots and a log that begins
// after the older one.
func useWithSnapshots(t *testing.T) used {
	t.Helper()
	u := used{path: filepath.Join(t.TempDir(), "data"), address: dead(t)}
	for range 20 {
		s := start(t, u.path, u.address, withSnapshots...)
		for range 20 {
			u.grants = append(u.grants, s.acquire(t, fmt.Sprintf("jobs/%d", len(u.grants))))
		}
		s.stop(t)
		in, err := cluster.Inspect(u.path, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(in.Snapshots) == 2 && in.Log.First > in.Snapshots[1].Index+1 {
			return u
		}
	}
	t.Fatalf("no two snapshots after %d grants", len(u.grants))
	return u
}

// snapshotsIn lists the finished snapshots in a data folder, oldest first.
func snapshotsIn(t *testing.T, path string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(path, "snapshots", "*[0-9]"))
	if err != nil {
		t.Fatal(err)
	}
	made := func(name string) string { return name[strings.LastIndex(name, "-"):] } // in milliseconds
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(made(a), made(b)) })
	return all
}

// copy gives the test a folder of its own.
func (u used) copy(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(path, os.DirFS(u.path)); err != nil {
		t.Fatal(err)
	}
	return path
}

// serves fails the test unless a node can be started on the folder and has every
// grant.
func (u used) serves(t *testing.T, path string, flags ...string) {
	t.Helper()
	s := start(t, path, u.address, flags...)
	for _, g := range u.grants {
		s.holds(t, g)
	}
	s.stop(t)
}
