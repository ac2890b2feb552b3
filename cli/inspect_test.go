package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inspect decodes a folder both ways, and fails the test unless that changes
// nothing on it.
func inspect(t *testing.T, path string, flags ...string) (text result, in inspection) {
	t.Helper()
	before := contents(t, path)
	args := append([]string{"inspect", "--data", path}, flags...)
	text = run(t, "", args...)
	asJSON := run(t, "", append(args, "--json")...)
	before.unchanged(t, path)
	if text.code != asJSON.code || text.stderr != asJSON.stderr {
		t.Errorf("with --json: exit code %d, %q; without: %d, %q", asJSON.code, asJSON.stderr, text.code, text.stderr)
	}
	if asJSON.code == exitDone {
		if err := json.Unmarshal([]byte(asJSON.stdout), &in); err != nil {
			t.Errorf("%v in %q", err, asJSON.stdout)
		}
	}
	for _, word := range []string{"panic", "goroutine ", ".go:"} {
		if strings.Contains(text.stderr, word) {
			t.Errorf("stderr has %q in it:\n%s", word, text.stderr)
		}
	}
	return text, in
}

// A stopped node's folder shows whose it is, and each entry of its log.
func TestInspect_Stopped(t *testing.T) {
	u := useOnce(t, 2)
	text, in := inspect(t, u.path)
	for _, want := range []string{
		"node     n1 at " + u.address + "\n", "cluster  " + u.grants[0].ClusterID + "\n",
		"voted for the node at " + u.address, "log      entries 1 to ",
		"name=jobs/0 holder=w1", "voter=n1 at " + u.address,
	} {
		text.expect(t, exitDone, want, "")
	}
	if in.ID != "n1" || !in.Formed || in.InUse || in.Term != 2 || in.Founders["n1"] != in.Incarnation || len(in.Log.Entries) != int(in.Log.Last) || len(in.Snapshots) != 0 {
		t.Errorf("%+v", in)
	}
	for _, g := range u.grants {
		e := in.Log.Entries[g.Token-in.Log.First]
		if e.Index != g.Token || e.Kind != "acquire" || e.Name != g.Name || e.RequestID != g.RequestID {
			t.Errorf("entry %d is %+v", g.Token, e)
		}
	}
	_, page := inspect(t, u.path, "--from", number(in.Log.Last), "--limit", "1")
	if len(page.Log.Entries) != 1 || page.Log.Entries[0].Index != in.Log.Last {
		t.Errorf("the last entry alone is %+v", page.Log.Entries)
	}
	// It is the folder that it was.
	u.serves(t, u.path)
}

// The log of a running node comes from the node.
func TestInspect_Running(t *testing.T) {
	path, address := filepath.Join(t.TempDir(), "data"), dead(t)
	s := start(t, path, address)
	g := s.acquire(t, "jobs/a")
	text, in := inspect(t, path)
	text.expect(t, exitDone, "read from the running node\n", "")
	if !in.InUse || in.Log.Last < g.Token {
		t.Errorf("%+v", in)
	}
	s.holds(t, g)
	s.stop(t)
}

// Snapshots are shown with their leases, newest first; a damaged one is called
// so, and does not keep the rest from being shown.
func TestInspect_Snapshots(t *testing.T) {
	u := useWithSnapshots(t)
	_, in := inspect(t, u.path)
	if len(in.Snapshots) != 2 || in.Snapshots[0].Index <= in.Snapshots[1].Index {
		t.Fatalf("%+v", in.Snapshots)
	}
	granted := map[string]uint64{}
	for _, g := range u.grants {
		granted[g.Name] = g.Token
	}
	for _, s := range in.Snapshots {
		if len(s.Leases) == 0 || s.StateHash == "" || s.Damage != "" {
			t.Errorf("%+v", s)
		}
		for _, l := range s.Leases {
			if granted[l.Name] != l.Token {
				t.Errorf("%s has token %d, want %d", l.Name, l.Token, granted[l.Name])
			}
		}
	}
	for _, tt := range []struct {
		name   string
		do     func(*testing.T, string)
		damage string
	}{
		{"state.bin cut", inNewest("state.bin", editing(half)), "the snapshot is damaged: "},
		{"state.bin with a bit flipped", inNewest("state.bin", editing(garbage(200, 1))), "the snapshot is damaged: "},
		{"state.bin empty", inNewest("state.bin", editing(cut(0))), "this is not a leasehold snapshot"},
		{"state.bin removed", inNewest("state.bin", remove), "state.bin: no such file or directory"},
		{"meta.json cut", inNewest("meta.json", editing(half)), "meta.json: unexpected end of JSON input"},
		{"meta.json removed", inNewest("meta.json", remove), "meta.json: no such file or directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := u.copy(t)
			tt.do(t, path)
			text, in := inspect(t, path)
			newest := filepath.Base(snapshotsIn(t, u.path)[1])
			text.expect(t, exitDone, filepath.Join("snapshots", newest)+"  DAMAGED: ", "")
			var damaged, whole int
			for _, s := range in.Snapshots {
				if s.Damage == "" {
					whole++
				} else if damaged++; !strings.Contains(s.Damage, tt.damage) || filepath.Base(s.Path) != newest {
					t.Errorf("%s is called %q, want %q", s.Path, s.Damage, tt.damage)
				}
			}
			if damaged != 1 || whole != 1 || in.Log.Last == 0 {
				t.Errorf("%d are damaged and %d whole: %+v", damaged, whole, in)
			}
		})
	}
}

// A damaged log is refused by name.
func TestInspect_DamagedLog(t *testing.T) {
	u := useOnce(t, 40)
	for _, d := range damagedLogs {
		t.Run(d.name, func(t *testing.T) {
			path := u.copy(t)
			d.do(t, path)
			text, _ := inspect(t, path)
			text.expect(t, exitError, "", "leasehold: data folder "+path+": "+d.want)
			if strings.Count(text.stderr, "\n") != 1 {
				t.Errorf("it says more than one line:\n%s", text.stderr)
			}
		})
	}
}

// What is not a node's folder is refused by name, and so is one that another
// program has open.
func TestInspect_Refuses(t *testing.T) {
	empty := t.TempDir()
	file := filepath.Join(empty, "file")
	absent := filepath.Join(t.TempDir(), "absent")
	u := useOnce(t, 1)
	damaged := u.copy(t)
	edit("node.json", half)(t, damaged)
	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, want string }{
		{empty, empty + " is not the data folder of a node: it has no node.json"},
		{absent, absent + " is not the data folder of a node: it has no node.json"},
		{file, "data folder " + file + ": node.json cannot be read: not a directory"},
		{damaged, "data folder " + damaged + ": node.json is damaged"},
	} {
		text, _ := inspect(t, tt.path)
		text.expect(t, exitError, "", "leasehold: "+tt.want)
	}
	if _, err := os.Stat(absent); err == nil {
		t.Error("it made the folder")
	}
	s := open(t, u.path)
	text, _ := inspect(t, u.path)
	s.Close()
	text.expect(t, exitUnavailable, "", "data folder "+u.path+" is in use, and the node that should have it open cannot be asked: unreachable: "+u.address)
}
