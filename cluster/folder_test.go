package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// folderWith makes the folder of a node whose log holds the entries from..to for
// each pair, with a snapshot up to an index unless that is 0.
func folderWith(t *testing.T, snapshot uint64, entries ...[2]uint64) *Folder {
	t.Helper()
	f := &Folder{Path: t.TempDir(), Logger: hclog.NewNullLogger()}
	s, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(s.Save(Identity{ID: "n1", Address: "h:1", Incarnation: "i", Formed: true}))
	check(s.Stable.SetUint64([]byte(termKey), 1))
	for _, r := range entries {
		for i := r[0]; i <= r[1]; i++ {
			check(s.Log.StoreLog(&raft.Log{Index: i, Term: 1, Type: raft.LogNoop}))
		}
	}
	if snapshot > 0 {
		_, transport := raft.NewInmemTransport("h:1")
		sink, err := s.Snapshots.Create(1, snapshot, 1, raft.Configuration{}, 1, transport)
		check(err)
		_, err = fmt.Fprint(sink, "state")
		check(err)
		check(sink.Close())
	}
	return f
}

// A node that was sent a snapshot keeps the few entries it had long before it.
// Such a gap in its log is in order; one that the snapshot does not cover is not.
func TestFolder_GapInTheLog(t *testing.T) {
	for _, tt := range []struct {
		name     string
		snapshot uint64
		entries  [][2]uint64
		want     string // empty: it opens
	}{
		{"none", 0, [][2]uint64{{1, 9}}, ""},
		{"covered", 20, [][2]uint64{{1, 4}, {21, 25}}, ""},
		{"covered and more", 22, [][2]uint64{{1, 4}, {21, 25}}, ""},
		{"beyond the snapshot", 20, [][2]uint64{{1, 4}, {22, 25}}, "no entries from 5 to 21"},
		{"no snapshot", 0, [][2]uint64{{1, 4}, {21, 25}}, "no entries from 5 to 20"},
		{"beginning lost", 0, [][2]uint64{{5, 9}}, "no entries from 1 to 4"},
		{"beginning covered", 4, [][2]uint64{{5, 9}}, ""},
		{"all covered", 4, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := folderWith(t, tt.snapshot, tt.entries...)
			s, err := f.Open()
			if err == nil {
				s.Close()
			}
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A term that is older than what was voted, written or snapshot in it has been
// lost, and the vote with it.
func TestFolder_TermThatDoesNotFit_Refuses(t *testing.T) {
	for name, spoil := range map[string]func(s *Stores) error{
		"older than the vote":  func(s *Stores) error { return s.Stable.SetUint64([]byte(voteTermKey), 2) },
		"older than the entry": func(s *Stores) error { return s.Stable.SetUint64([]byte(termKey), 0) },
		"not a number":         func(s *Stores) error { return s.Stable.Set([]byte(termKey), []byte("7")) },
	} {
		t.Run(name, func(t *testing.T) {
			f := folderWith(t, 0, [2]uint64{1, 3})
			s, err := f.Open()
			if err == nil {
				err = spoil(s)
				s.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			if s, err := f.Open(); err == nil {
				s.Close()
				t.Error("it opens")
			}
		})
	}
}

// The log is missing once it is no longer the file that was opened, whether it
// was deleted, moved with its folder, or replaced.
func TestFolder_Missing(t *testing.T) {
	for name, take := range map[string]func(f *Folder) error{
		"deleted":        func(f *Folder) error { return os.RemoveAll(f.Path) },
		"moved":          func(f *Folder) error { return os.Rename(f.Path, f.Path+"-2") },
		"log deleted":    func(f *Folder) error { return os.Remove(f.path(logFile)) },
		"log replaced":   func(f *Folder) error { return f.replace(logFile, []byte("another")) },
		"folder emptied": func(f *Folder) error { return errors.Join(os.RemoveAll(f.Path), os.Mkdir(f.Path, 0o755)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := &Folder{Path: filepath.Join(t.TempDir(), "data"), Logger: hclog.NewNullLogger()}
			s, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := errors.Join(s.Save(Identity{ID: "n1", Incarnation: "i"}), s.Missing()); err != nil {
				t.Fatalf("before: %v", err)
			}
			if err := take(f); err != nil {
				t.Fatal(err)
			}
			if err := s.Missing(); err == nil || !strings.Contains(err.Error(), "raft.db was deleted, moved or replaced") {
				t.Errorf("got %v, want that raft.db is gone", err)
			}
		})
	}
}
