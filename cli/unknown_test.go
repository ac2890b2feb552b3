package cli

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// appendEntry adds a command to the log of a stopped node, as a version of
// leasehold would that knows it. It returns its index.
func appendEntry(t *testing.T, path string, data []byte) uint64 {
	t.Helper()
	s := open(t, path)
	defer s.Close()
	last, err := s.Log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	term, err := s.Stable.GetUint64([]byte("CurrentTerm"))
	if err != nil {
		t.Fatal(err)
	}
	entry := &raft.Log{Index: last + 1, Term: term, Type: raft.LogCommand, Data: data, AppendedAt: time.Now()}
	if err := s.Log.StoreLog(entry); err != nil {
		t.Fatal(err)
	}
	return entry.Index
}

// A node whose log has a command that it does not know stops and says what to do,
// each time it is started: to pass over the command would be to part from the
// nodes that know it.
func TestServe_UnknownCommand_Stops(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		data       []byte
	}{
		{"unknown kind", "a command of kind 99 in encoding version 1, which this version of leasehold does not know", []byte{1, 99}},
		{"unknown version", "a command of kind 1 in encoding version 7, which this version of leasehold does not know", []byte{7, 1, 1, 'a'}},
		{"malformed", "cannot be applied", []byte{1, 2, 200}},
		{"empty", "cannot be applied", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := useOnce(t, 2)
			index := appendEntry(t, u.path, tt.data)
			for range 3 {
				s := begin(t, u.path, u.address)
				s.refused(t, exitError, fmt.Sprintf("leasehold: log entry %d cannot be applied: ", index))
				s.refused(t, exitError, tt.want)
			}
			// All that was there before is there still, and can be looked at.
			r := run(t, "", "inspect", "--json", "--data", u.path)
			var in inspection
			if err := json.Unmarshal([]byte(r.stdout), &in); r.code != exitDone || err != nil {
				t.Fatalf("inspect: %d, %v\n%s", r.code, err, r.stderr)
			}
			granted := map[string]uint64{}
			for _, e := range in.Log.Entries {
				if e.Kind == "acquire" {
					granted[e.Name] = e.Index
				}
			}
			for _, g := range u.grants {
				if granted[g.Name] != g.Token {
					t.Errorf("the entry that granted %s is %d, want %d", g.Name, granted[g.Name], g.Token)
				}
			}
		})
	}
}
