package cli

import (
	"encoding/json"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// damage does something to a data folder.
type damage struct {
	name string
	do   func(t *testing.T, path string)
	want string // in the line that says why
}

// edit passes a file of the folder through f.
func edit(name string, f func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		file := filepath.Join(path, name)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		after := f(data)
		if string(after) == string(data) && len(data) > 0 {
			t.Fatalf("%s is as it was; this test shows nothing", name)
		}
		if err := os.WriteFile(file, after, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func cut(size int) func([]byte) []byte { return func(b []byte) []byte { return b[:size] } }

func half(b []byte) []byte { return b[:len(b)/2] }

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// garbage overwrites size bytes from a place on with what is not there by chance.
func garbage(at, size int) func([]byte) []byte {
	return func(b []byte) []byte {
		b = append([]byte(nil), b...)
		for i := range size {
			b[at+i] ^= byte(0xa5 + 31*i | 1)
		}
		return b
	}
}

// inNewest does something to a file of the newest snapshot.
func inNewest(name string, do func(name string) func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		all := snapshotsIn(t, path)
		rel, err := filepath.Rel(path, all[len(all)-1])
		if err != nil {
			t.Fatal(err)
		}
		do(filepath.Join(rel, name))(t, path)
	}
}

func editing(f func([]byte) []byte) func(string) func(*testing.T, string) {
	return func(name string) func(*testing.T, string) { return edit(name, f) }
}

// freshLog replaces the log by that of a node that has never run.
func freshLog(t *testing.T, path string) {
	t.Helper()
	remove("raft.db")(t, path)
	log, err := raftboltdb.NewBoltStore(filepath.Join(path, "raft.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// otherDatabase replaces the log by a database that is whole, and of no node.
func otherDatabase(t *testing.T, path string) {
	t.Helper()
	remove("raft.db")(t, path)
	db, err := bbolt.Open(filepath.Join(path, "raft.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// usedPage gives the place of a leaf page that is reached from the root of the
// database, and that holds log entries.
func usedPage(t *testing.T, path string) int {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(path, "raft.db"), 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	at := 0
	err = db.View(func(tx *bbolt.Tx) error {
		size := db.Info().PageSize
		logs := tx.Bucket([]byte("logs"))
		for id := 2; ; id++ {
			page, err := tx.Page(id)
			if err != nil || page == nil {
				return err
			}
			// A page of the tree of logs has its number in the place of a key: 8 bytes.
			if page.Type == "leaf" && page.Count >= 4 && (at == 0 || int(logs.Root()) == id) {
				at = id * size
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if at == 0 {
		t.Fatal("no page of the log is in use; this test shows nothing")
	}
	return at
}

// inUsedPage damages size bytes at a place in a page that holds log entries.
func inUsedPage(at, size int) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		edit("raft.db", garbage(usedPage(t, path)+at, size))(t, path)
	}
}

// check does the damage to a copy of the folder and starts a node on it.
func (d damage) check(t *testing.T, u used, flags ...string) {
	t.Run(d.name, func(t *testing.T) {
		path := u.copy(t)
		d.do(t, path)
		before := contents(t, path)
		s := begin(t, path, u.address, flags...)
		s.refused(t, exitError, d.want)
		if !strings.Contains(s.stderr.String(), path) {
			t.Errorf("it does not name the folder %s", path)
		}
		before.unchanged(t, path)
	})
}

var damagedLogs = []damage{
	{"garbage at the start of a used page", inUsedPage(0, 64), "raft.db is damaged"},
	{"garbage in the items of a used page", inUsedPage(16, 64), "raft.db is damaged"},
	{"garbage in the keys and values of a used page", inUsedPage(500, 64), "raft.db is damaged"},
	{"one wrong byte in a value", inUsedPage(500, 1), "raft.db is damaged"},
	{"first page zeroed", edit("raft.db", func(b []byte) []byte { return append(make([]byte, 4096), b[4096:]...) }), "raft.db is damaged"},
	{"second page zeroed", edit("raft.db", func(b []byte) []byte {
		return append(append(append([]byte(nil), b[:4096]...), make([]byte, 4096)...), b[8192:]...)
	}), "raft.db is damaged"},
	{"cut to half", edit("raft.db", half), "raft.db is damaged"},
	{"cut to a page and a half", edit("raft.db", cut(6000)), "raft.db is damaged"},
	{"cut to 100 bytes", edit("raft.db", cut(100)), "raft.db is damaged"},
	{"cut to nothing", edit("raft.db", cut(0)), "raft.db is damaged"},
	{"all zeros", edit("raft.db", func(b []byte) []byte { return make([]byte, len(b)) }), "raft.db is damaged"},
	{"another database in its place", otherDatabase, `raft.db is damaged: it has no part named "logs"`},
	{"removed", remove("raft.db"), "raft.db is missing"},
	{"a folder in its place", func(t *testing.T, path string) {
		remove("raft.db")(t, path)
		if err := os.Mkdir(filepath.Join(path, "raft.db"), 0o700); err != nil {
			t.Fatal(err)
		}
	}, "raft.db is not a file"},
}

// A node whose log is damaged refuses to start, says so, and leaves the damaged
// folder for whoever may still save something from it.
func TestServe_DamagedLog_Refuses(t *testing.T) {
	u := useOnce(t, 40)
	u.serves(t, u.copy(t)) // undamaged it is accepted
	for _, d := range damagedLogs {
		d.check(t, u)
	}
}

// The same where there are snapshots, so that a lost log does not look like a
// node that has none.
func TestServe_DamagedLogBesideSnapshots_Refuses(t *testing.T) {
	u := useWithSnapshots(t)
	u.serves(t, u.copy(t), withSnapshots...)
	for _, d := range damagedLogs {
		if strings.Contains(d.name, "used page") || d.name == "one wrong byte in a value" || d.name == "cut to half" {
			continue // the log is too short for that: see the test above
		}
		d.check(t, u, withSnapshots...)
	}
}

// Wherever a few bytes of the log are wrong, a node either refuses or has every
// grant: a wrong byte in a free page, for example, does no harm. It never ends in
// another way.
func TestServe_GarbageAnywhereInTheLog_RefusesOrServes(t *testing.T) {
	u := useOnce(t, 40)
	info, err := os.Stat(filepath.Join(u.path, "raft.db"))
	if err != nil {
		t.Fatal(err)
	}
	refusals := 0
	for at := 0; at+16 <= int(info.Size()); at += 997 {
		path := u.copy(t)
		edit("raft.db", garbage(at, 16))(t, path)
		s := begin(t, path, u.address)
		s.until(t, "it serves or ends", func() bool { return s.hasEnded() || strings.Contains(s.stderr.String(), "serving") })
		if s.hasEnded() {
			s.refused(t, exitError, "raft.db is damaged")
			refusals++
			continue
		}
		for _, g := range u.grants {
			s.holds(t, g)
		}
		s.stop(t)
	}
	if refusals < 5 {
		t.Errorf("%d refusals; this test shows little", refusals)
	}
}

func (s *server) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// A whole but empty log in the place of the one that was there is refused, with
// and without a snapshot: the node's vote is lost with it.
func TestServe_FreshLog_Refuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		u    used
		want string
	}{
		{"no snapshot", useOnce(t, 1), "its log is empty"},
		{"snapshots", useWithSnapshots(t), "raft.db knows of term 0 at most, but a vote, an entry or a snapshot here is of term"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.u.copy(t)
			freshLog(t, path)
			before := contents(t, path)
			begin(t, path, tt.u.address).refused(t, exitError, tt.want)
			// Without a snapshot only Raft can tell that entries are missing, and for
			// that the log is opened, which counts a transaction.
			after := contents(t, path)
			delete(before, "raft.db")
			delete(after, "raft.db")
			if !maps.Equal(after, before) {
				t.Error("the folder has changed")
			}
			// With the log that belongs there it goes on.
			edit("raft.db", func([]byte) []byte { return []byte(contents(t, tt.u.path)["raft.db"]) })(t, path)
			tt.u.serves(t, path)
		})
	}
}

// A damaged snapshot is refused, even where Raft could start from an older one.
func TestServe_DamagedSnapshot_Refuses(t *testing.T) {
	u := useWithSnapshots(t)
	u.serves(t, u.copy(t), withSnapshots...)
	all := snapshotsIn(t, u.path)
	newest := filepath.Base(all[len(all)-1])
	damaged := "snapshot " + filepath.Join("snapshots", newest) + " is damaged"
	for _, d := range []damage{
		{"state.bin cut to half", inNewest("state.bin", editing(half)), damaged},
		{"state.bin empty", inNewest("state.bin", editing(cut(0))), damaged},
		{"state.bin with one bit flipped", inNewest("state.bin", editing(func(b []byte) []byte {
			b = append([]byte(nil), b...)
			b[len(b)/2] ^= 8
			return b
		})), damaged},
		{"state.bin removed", inNewest("state.bin", remove), damaged},
		{"meta.json cut to half", inNewest("meta.json", editing(half)), damaged},
		{"meta.json empty", inNewest("meta.json", editing(cut(0))), damaged},
		{"meta.json removed", inNewest("meta.json", remove), damaged},
		{"meta.json of another snapshot", func(t *testing.T, path string) {
			older, err := os.ReadFile(filepath.Join(snapshotsIn(t, path)[0], "meta.json"))
			if err != nil {
				t.Fatal(err)
			}
			inNewest("meta.json", editing(func([]byte) []byte { return older }))(t, path)
		}, damaged},
		{"meta.json with another index", inNewest("meta.json", editing(func(b []byte) []byte {
			var meta map[string]any
			if err := json.Unmarshal(b, &meta); err != nil {
				t.Fatal(err)
			}
			meta["Index"] = 1
			b, _ = json.Marshal(meta)
			return b
		})), damaged},
		{"newest removed", func(t *testing.T, path string) {
			all := snapshotsIn(t, path)
			if err := os.RemoveAll(all[len(all)-1]); err != nil {
				t.Fatal(err)
			}
		}, "the entries between are lost"},
		{"all removed", remove("snapshots"), "the entries between are lost"},
	} {
		d.check(t, u, withSnapshots...)
	}
}

// A folder of which it cannot be said whose it is, is refused.
func TestServe_Identity_Refuses(t *testing.T) {
	u := useOnce(t, 1)
	other := func(key string, value any) func(*testing.T, string) {
		return edit("node.json", func(b []byte) []byte {
			var id map[string]any
			if err := json.Unmarshal(b, &id); err != nil {
				t.Fatal(err)
			}
			id[key] = value
			b, _ = json.Marshal(id)
			return b
		})
	}
	for _, d := range []damage{
		{"cut", edit("node.json", half), "node.json is damaged"},
		{"empty", edit("node.json", cut(0)), "node.json is damaged (0 bytes)"},
		{"removed", remove("node.json"), "it holds raft.db but no node.json"},
		{"no id", other("id", ""), "node.json is damaged"},
		{"another version", other("version", 2), "node.json has version 2, this version of leasehold knows 1"},
	} {
		d.check(t, u)
	}
}

// A folder that holds something else is refused; what a file system or a desktop
// leaves in an empty one is not.
func TestServe_ForeignFolder(t *testing.T) {
	address := dead(t)
	for _, tt := range []struct{ make, want string }{
		{"thesis.tex", `it holds "thesis.tex" and was never a node's; use an empty folder`},
		{"pictures/", `it holds "pictures" and was never a node's; use an empty folder`},
		{"snapshots/1-2-3/", "it holds snapshots but no node.json"},
		{"raft.db", "raft.db is damaged"},
		{"lost+found/", ""},
		{".DS_Store", ""},
		{"raft.db-is-not-ours", `it holds "raft.db-is-not-ours"`},
	} {
		t.Run(tt.make, func(t *testing.T) {
			path := t.TempDir()
			name := filepath.Join(path, tt.make)
			if strings.HasSuffix(tt.make, "/") {
				if err := os.MkdirAll(name, 0o755); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(name, []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
			if tt.want == "" {
				start(t, path, address).stop(t)
				if _, err := os.Stat(name); err != nil {
					t.Error(err)
				}
				return
			}
			before := contents(t, path)
			begin(t, path, address).refused(t, exitError, tt.want)
			before.unchanged(t, path)
		})
	}
}

// A first start that was cut off between its steps is taken up again.
func TestServe_FirstStartCutOff_Starts(t *testing.T) {
	for _, tt := range []struct {
		name string
		left func(t *testing.T, path string)
	}{
		{"an empty log", freshLog},
		{"an empty log and no snapshots", func(t *testing.T, path string) {
			freshLog(t, path)
			if err := os.Mkdir(filepath.Join(path, "snapshots"), 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{"half a log under another name", func(t *testing.T, path string) {
			if err := os.Rename(filepath.Join(path, "raft.db"), filepath.Join(path, ".raft.db-123")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := t.TempDir()
			if err := os.WriteFile(filepath.Join(path, "raft.db"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			tt.left(t, path)
			s := start(t, path, dead(t))
			s.acquire(t, "jobs/a")
			s.stop(t)
		})
	}
}

// A folder that a running node has open is refused, and the node goes on.
func TestServe_FolderInUse_Refuses(t *testing.T) {
	path, address := filepath.Join(t.TempDir(), "data"), dead(t)
	s := start(t, path, address)
	g := s.acquire(t, "jobs/a")
	before := contents(t, path)
	begin(t, path, address).refused(t, exitError, "data folder "+path+": it is in use by another process")
	before.unchanged(t, path)
	s.holds(t, g)
	s.stop(t)
}

// The folder of another node, or of this one at another address, is refused.
func TestServe_FolderOfAnotherNode_Refuses(t *testing.T) {
	u := useOnce(t, 1)
	elsewhere := dead(t)
	for _, tt := range []struct {
		name  string
		flags []string
		want  string
	}{
		{"another id", []string{"--id", "n2", "--cluster", "n2=" + u.address}, "the data is that of node n1, this is node n2"},
		{
			"another address",
			[]string{"--address", elsewhere, "--cluster", "n1=" + elsewhere},
			"the data is that of node n1 at " + u.address + ", but it was started with the address " + elsewhere,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := u.copy(t)
			s := begin(t, path, u.address, tt.flags...)
			s.refused(t, exitError, tt.want)
			if !strings.Contains(s.stderr.String(), path) {
				t.Errorf("it does not name the folder %s", path)
			}
			sameState(t, path, u.path)
			u.serves(t, path)
		})
	}
}

// An address that another process listens on is refused.
func TestServe_AddressInUse_Refuses(t *testing.T) {
	u := useOnce(t, 1)
	path := u.copy(t)
	l, err := net.Listen("tcp", u.address)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, path, u.address).refused(t, exitError, "cannot listen on "+u.address+": another process on this machine already does")
	l.Close()
	sameState(t, path, u.path)
	u.serves(t, path)
}

// A first start that could not listen does not tie the folder to its address.
func TestServe_FirstStartCannotListen_StartsElsewhere(t *testing.T) {
	path, right := filepath.Join(t.TempDir(), "data"), dead(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, wrong := range []string{l.Addr().String(), "203.0.113.1:8001"} { // in use; not of this machine
		begin(t, path, wrong).refused(t, exitError, "cannot listen on "+wrong)
	}
	s := start(t, path, right)
	s.acquire(t, "jobs/a")
	s.stop(t)
	begin(t, path, l.Addr().String()).refused(t, exitError, "the data is that of node n1 at "+right+", but it was started with the address "+l.Addr().String())
}

// A node whose folder is taken away stops and says so. It would acknowledge what
// nobody can ever read.
func TestServe_FolderTakenAway_Stops(t *testing.T) {
	for name, take := range map[string]func(string) error{
		"deleted": os.RemoveAll,
		"moved":   func(path string) error { return os.Rename(path, path+"-2") },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data")
			s := start(t, path, dead(t))
			if err := take(path); err != nil {
				t.Fatal(err)
			}
			s.refused(t, exitError, "data folder "+path+": raft.db was deleted, moved or replaced while this node ran")
		})
	}
}

// A list that contradicts the rest of the command line is refused before the
// folder is looked at.
func TestServe_ClusterList_Refuses(t *testing.T) {
	u := useOnce(t, 1)
	path := u.copy(t)
	before := contents(t, path)
	for _, tt := range []struct{ list, want string }{
		{"n2=" + dead(t), "the cluster list does not contain this node (n1): n2="},
		{"n1=" + u.address + ",n1=127.0.0.1:1", "the cluster list names n1 twice"},
		{"n1=127.0.0.1:1", "the cluster list gives n1 the address 127.0.0.1:1, but it was started with " + u.address},
	} {
		begin(t, path, u.address, "--cluster", tt.list).refused(t, exitUsage, tt.want)
	}
	before.unchanged(t, path)
	u.serves(t, path)
}

// A path that cannot be a folder is refused by its name.
func TestServe_PathIsNoFolder_Refuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		begin(t, path, dead(t)).refused(t, exitError, "data folder "+path+": it cannot be created: not a directory")
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

// A node that was stopped in an orderly way exits 0, and has everything when it
// is started again, without the list.
func TestServe_StopAndStart(t *testing.T) {
	u := useOnce(t, 3)
	path := u.copy(t)
	for range 2 {
		u.serves(t, path)
	}
	s := begin(t, path, u.address, "--log-level", "warn")
	s.until(t, "it answers", func() bool { return run(t, u.address, "get", "jobs/0").code == exitDone })
	s.stop(t)
}
