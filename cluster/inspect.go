package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"leasehold/fsm"
	"leasehold/lease"
)

// Inspection is what a data folder holds. Looking changes nothing.
type Inspection struct {
	Identity Identity
	// InUse: a process has the folder open. Its log can then be read only from
	// the process itself, and Term, Vote and Log are empty.
	InUse     bool
	Term      uint64 // the latest term that the node has seen
	Vote      string // for whom it voted last, with VoteTerm
	VoteTerm  uint64
	Log       LogPage
	Snapshots []SnapshotInfo // newest first
}

// SnapshotInfo is one snapshot, decoded.
type SnapshotInfo struct {
	Path        string // below the data folder
	Index, Term uint64
	Size        int64 // bytes
	State       *lease.Table
	Err         error // why it cannot be decoded; State is nil then
}

// Inspect decodes a data folder: up to limit entries of the log from index from
// on, and the snapshots.
func Inspect(path string, from uint64, limit int) (Inspection, error) {
	f := &Folder{Path: path, Logger: hclog.NewNullLogger()}
	identity, err := readIdentity(f.path(identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Inspection{}, fmt.Errorf("%s is not the data folder of a node: it has no %s", path, identityFile)
	}
	if err != nil {
		return Inspection{}, fmt.Errorf("data folder %s: %w", path, err)
	}
	in := Inspection{Identity: identity}
	if err := f.inspectLog(&in, from, limit); err != nil {
		return in, fmt.Errorf("data folder %s: %w", path, err)
	}
	in.Snapshots, err = f.inspectSnapshots()
	return in, err
}

func (f *Folder) inspectLog(in *Inspection, from uint64, limit int) error {
	log, err := openLogFile(f.path(logFile))
	if errors.Is(err, errInUse) {
		in.InUse = true
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) && in.Identity.Formed {
		return fmt.Errorf("%s is missing", logFile)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer log.Close()
	// These are the keys under which Raft keeps its state; absent ones are zero.
	term, err := log.number(termKey)
	voteTerm, voteErr := log.number(voteTermKey)
	if err := errors.Join(err, voteErr); err != nil {
		return fmt.Errorf("%s is damaged: %w", logFile, err)
	}
	in.Term, in.VoteTerm = term, voteTerm
	if vote, err := log.Get([]byte(voteKey)); err == nil {
		in.Vote = string(vote)
	}
	in.Log, err = readLog(log, from, limit)
	return err
}

// inspectSnapshots reads the snapshots' files itself: Raft's own store would try
// whether it can write into the folder.
func (f *Folder) inspectSnapshots() ([]SnapshotInfo, error) {
	entries, err := os.ReadDir(f.path(snapshotsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", snapshotsDir, cause(err))
	}
	var infos []SnapshotInfo
	for _, e := range entries {
		if snapshotName.MatchString(e.Name()) {
			infos = append(infos, f.inspectSnapshot(filepath.Join(snapshotsDir, e.Name())))
		}
	}
	slices.SortFunc(infos, func(a, b SnapshotInfo) int { return cmp.Compare(b.Index, a.Index) })
	return infos, nil
}

func (f *Folder) inspectSnapshot(path string) SnapshotInfo {
	info := SnapshotInfo{Path: path}
	data, err := os.ReadFile(filepath.Join(f.path(path), "meta.json"))
	var meta raft.SnapshotMeta
	if err == nil {
		err = json.Unmarshal(data, &meta)
	}
	if err != nil {
		info.Err = fmt.Errorf("meta.json: %w", cause(err))
		return info
	}
	info.Index, info.Term, info.Size = meta.Index, meta.Term, meta.Size
	state, err := os.Open(filepath.Join(f.path(path), "state.bin"))
	if err != nil {
		info.Err = fmt.Errorf("state.bin: %w", cause(err))
		return info
	}
	defer state.Close()
	info.State, info.Err = fsm.ReadSnapshot(state)
	return info
}
