package sqlfencetest

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// postgresServer is a server of our own, reached by a socket in its folder only.
type postgresServer struct {
	dir       string
	databases atomic.Int64 // made so far

	process *exec.Cmd
	stdin   io.Closer // to close it stops the server
}

// shared is the server of all tests of one run.
var shared struct {
	once   sync.Once
	server *postgresServer
	err    error
}

// errNoPostgres: the server is not installed.
var errNoPostgres = errors.New("PostgreSQL is not on this machine, neither in PATH nor in /usr/lib/postgresql")

// startedPostgres gives the server of the tests, started by the first that asks.
// Without the binaries the test is skipped, but never in CI.
func startedPostgres(t *testing.T) *postgresServer {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = startPostgres() })
	switch {
	case errors.Is(shared.err, errNoPostgres) && os.Getenv("CI") == "":
		t.Skipf("NOT TESTED: %v", shared.err)
	case shared.err != nil:
		t.Fatal(shared.err)
	}
	return shared.server
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.stop()
	}
	os.Exit(code)
}

// startPostgres makes a new cluster of databases and starts a server on it. It
// does not flush its files: no test pulls the plug.
func startPostgres() (*postgresServer, error) {
	bin, err := postgresBinaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pg") // short, since the path of a socket has at most 100 bytes or so
	if err != nil {
		return nil, err
	}
	s := &postgresServer{dir: dir}
	identity, err := unprivileged(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, identity
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w\n%s", err, out), os.RemoveAll(dir))
	}
	// The shell stops the server and clears up when its standard input ends, which
	// happens however this process dies.
	s.process = exec.Command("sh", "-c", `"$@" </dev/null & read -r _; kill -INT $!; wait $!; rm -rf "$0"`, dir,
		filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off",
		"-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	s.process.Dir, s.process.SysProcAttr = dir, identity
	var log strings.Builder
	s.process.Stdout, s.process.Stderr = &log, &log
	if s.stdin, err = s.process.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.answers(); err != nil {
		s.stop()
		return nil, fmt.Errorf("PostgreSQL does not start: %w\n%s", err, log.String())
	}
	return s, nil
}

// answers waits until the server takes connections.
func (s *postgresServer) answers() error {
	db, err := sql.Open("pgx", s.dsn("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		if err = db.Ping(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (s *postgresServer) dsn(database string) string {
	return fmt.Sprintf("host=%s user=postgres dbname=%s", s.dir, database)
}

func (s *postgresServer) stop() {
	s.stdin.Close()
	_ = s.process.Wait() // the shell tells how the server ended, and that does not matter any more
	_ = os.RemoveAll(s.dir)
}

// postgresBinaries finds the folder of the server's programs: Debian keeps them
// out of PATH.
func postgresBinaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", errNoPostgres
	}
	return filepath.Dir(path), nil
}

// unprivileged says as whom to run the server, which refuses to run as root, and
// gives that user the folder.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err1 := strconv.ParseUint(who.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(who.Gid, 10, 32)
	if err := errors.Join(err1, err2, os.Chown(dir, int(uid), int(gid))); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}
