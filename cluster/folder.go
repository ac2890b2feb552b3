package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// A data folder holds
//
//	node.json    whose folder it is (Identity)
//	raft.db      Raft's log, term and vote (bbolt)
//	snapshots/   the latest two snapshots
const (
	identityFile    = "node.json"
	logFile         = "raft.db"
	snapshotsDir    = "snapshots"
	snapshotsKept   = 2
	identityVersion = 1
	lockTimeout     = 500 * time.Millisecond
)

// The names under which Raft keeps its term and vote in raft.db.
const (
	termKey     = "CurrentTerm"
	voteTermKey = "LastVoteTerm"
	voteKey     = "LastVoteCand"
)

// Folder is a [Disk] in a folder of the file system.
type Folder struct {
	Path   string
	Logger hclog.Logger
}

var _ Disk = (*Folder)(nil)

// Open implements [Disk].
func (f *Folder) Open() (*Stores, error) {
	s, err := f.open()
	if err != nil {
		return nil, fmt.Errorf("data folder %s: %w", f.Path, err)
	}
	return s, nil
}

func (f *Folder) open() (*Stores, error) {
	if err := os.MkdirAll(f.Path, 0o755); err != nil {
		return nil, fmt.Errorf("it cannot be created: %w", cause(err))
	}
	identity, err := f.check()
	if err != nil {
		return nil, err
	}
	if err := f.createLogFile(); err != nil {
		return nil, fmt.Errorf("%s cannot be created: %w", logFile, cause(err))
	}
	bolt, err := raftboltdb.New(raftboltdb.Options{
		Path: f.path(logFile),
		BoltOptions: &bbolt.Options{
			Timeout: lockTimeout,
			// The list of free pages is rebuilt at start instead of being written
			// with every commit, which halves what a small commit writes.
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
		MsgpackUseNewTimeFormat: true,
	})
	if err != nil {
		return nil, fmt.Errorf("%s cannot be opened: %w", logFile, lockError(err))
	}
	s, err := f.stores(bolt, identity)
	if err != nil {
		bolt.Close()
		return nil, err
	}
	return s, nil
}

func (f *Folder) stores(bolt *raftboltdb.BoltStore, identity Identity) (*Stores, error) {
	if err := f.removeUnfinishedSnapshots(); err != nil {
		return nil, fmt.Errorf("an unfinished snapshot cannot be removed: %w", cause(err))
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(f.Path, snapshotsKept, f.Logger.Named("snapshots"))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", snapshotsDir, cause(err))
	}
	opened, err := os.Stat(f.path(logFile))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be looked at: %w", logFile, cause(err))
	}
	return &Stores{
		Name: "data folder " + f.Path,
		Log:  sealedLog{bolt}, Stable: bolt, Snapshots: snapshots,
		Identity: identity,
		Save:     f.saveIdentity,
		Missing:  func() error { return f.missing(opened) },
		Close:    bolt.Close,
	}, nil
}

// missing fails if the log is no longer the file that was opened. Any other error
// says nothing about the file, and a disk that fails is noticed when it is used.
func (f *Folder) missing(opened fs.FileInfo) error {
	now, err := os.Stat(f.path(logFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(opened, now) {
		return fmt.Errorf("%s was deleted, moved or replaced while this node ran; it stops, because what it writes would be lost", logFile)
	}
	return nil
}

// check looks through all that is in the folder and changes nothing.
func (f *Folder) check() (Identity, error) {
	identity, err := readIdentity(f.path(identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return identity, f.mustBeEmpty()
	}
	if err != nil {
		return identity, err
	}
	log, err := openLogFile(f.path(logFile))
	if errors.Is(err, fs.ErrNotExist) {
		if identity.Formed {
			return identity, fmt.Errorf("%s is missing; this node has taken part in a cluster, so starting without it could undo what the cluster has promised", logFile)
		}
		return identity, nil // a first start that was cut off
	}
	if err != nil {
		return identity, err
	}
	defer log.Close()
	return identity, f.checkState(log)
}

// checkState makes sure that the snapshots are whole and fit the log.
func (f *Folder) checkState(log sealedLog) error {
	newest, err := f.checkSnapshots()
	if err != nil {
		return err
	}
	indexes, err := indexesIn(f.path(logFile))
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", logFile, cause(err))
	}
	before := uint64(0)
	for _, i := range indexes {
		if i > before+1 && i-1 > newest.Index {
			return fmt.Errorf("the log has no entries from %d to %d, and the newest snapshot ends at %d: the entries between are lost", before+1, i-1, newest.Index)
		}
		before = i
	}
	return checkTerms(log, before, newest.Term)
}

// checkTerms makes sure that Raft's term fits the rest. Raft saves a term before
// it votes or writes in it.
func checkTerms(log sealedLog, last, snapshotTerm uint64) error {
	term, err := log.number(termKey)
	voteTerm, voteErr := log.number(voteTermKey)
	if err := errors.Join(err, voteErr); err != nil {
		return fmt.Errorf("%s is damaged: %w", logFile, err)
	}
	var entry raft.Log
	if last > 0 {
		if err := log.GetLog(last, &entry); err != nil {
			return fmt.Errorf("%s is damaged: entry %d: %w", logFile, last, errUnreadable)
		}
	}
	if least := max(voteTerm, entry.Term, snapshotTerm); term < least {
		return fmt.Errorf("%s knows of term %d at most, but a vote, an entry or a snapshot here is of term %d: it is damaged or not the one that belongs here, and this node's vote is lost", logFile, term, least)
	}
	return nil
}

func (f *Folder) path(name string) string { return filepath.Join(f.Path, name) }

// mustBeEmpty refuses a folder that has no identity but is not fresh either. A
// first start that was cut off may have left an empty log and no snapshots.
func (f *Folder) mustBeEmpty() error {
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return fmt.Errorf("it cannot be read: %w", cause(err))
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == "lost+found" || strings.HasPrefix(name, "."):
		case name == logFile || name == snapshotsDir:
			empty, err := f.isEmpty(name)
			if err != nil {
				return err
			}
			if empty {
				continue
			}
			return fmt.Errorf("it holds %s but no %s; it is damaged, or a part of another node's folder", name, identityFile)
		default:
			return fmt.Errorf("it holds %q and was never a node's; use an empty folder", name)
		}
	}
	return nil
}

func (f *Folder) isEmpty(name string) (bool, error) {
	if name == logFile {
		log, err := openLogFile(f.path(name))
		if err != nil {
			return false, err
		}
		defer log.Close()
		last, err := log.LastIndex()
		term, termErr := log.number(termKey)
		return last == 0 && term == 0, errors.Join(err, termErr)
	}
	entries, err := os.ReadDir(f.path(name))
	if err != nil {
		return false, fmt.Errorf("%s cannot be read: %w", name, cause(err))
	}
	return len(entries) == 0, nil
}

// readIdentity returns an empty identity and fs.ErrNotExist if there is none.
func readIdentity(path string) (Identity, error) {
	var id Identity
	data, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return id, fs.ErrNotExist
		}
		return id, fmt.Errorf("%s cannot be read: %w", identityFile, cause(err))
	}
	if err := json.Unmarshal(data, &id); err != nil || id.ID == "" || id.Incarnation == "" {
		return id, fmt.Errorf("%s is damaged (%d bytes)", identityFile, len(data))
	}
	if id.Version != identityVersion {
		return id, fmt.Errorf("%s has version %d, this version of leasehold knows %d", identityFile, id.Version, identityVersion)
	}
	return id, nil
}

// saveIdentity replaces the file in one step: a crash leaves the old or the new.
func (f *Folder) saveIdentity(id Identity) error {
	id.Version = identityVersion
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	if err := f.replace(identityFile, append(data, '\n')); err != nil {
		return fmt.Errorf("%s cannot be saved: %w", identityFile, cause(err))
	}
	return nil
}

func (f *Folder) replace(name string, data []byte) error {
	tmp, err := os.CreateTemp(f.Path, "."+name+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), f.path(name)); err != nil {
		return err
	}
	return syncFolder(f.Path)
}

var snapshotName = regexp.MustCompile(`^[0-9]+-[0-9]+-[0-9]+$`)

// checkSnapshots reads every snapshot and returns what the newest says of itself.
// Raft itself would pass over a damaged one and take an older state, without
// asking whether the log still holds what came between.
func (f *Folder) checkSnapshots() (newest raft.SnapshotMeta, err error) {
	names, err := f.snapshotNames("")
	if err != nil || len(names) == 0 {
		return newest, err
	}
	// A store of its own, which does not log: whoever reports the error does.
	store, err := raft.NewFileSnapshotStoreWithLogger(f.Path, snapshotsKept, hclog.NewNullLogger())
	if err != nil {
		return newest, fmt.Errorf("%s cannot be used: %w", snapshotsDir, cause(err))
	}
	for _, name := range names {
		meta, state, err := store.Open(name)
		if err == nil {
			state.Close() // Open has read all of it and compared the checksum
			// What it says of itself has no checksum, but stands in its name too.
			if meta.ID != name || !strings.HasPrefix(name, fmt.Sprintf("%d-%d-", meta.Term, meta.Index)) {
				err = fmt.Errorf("its meta.json says that it is %s, of term %d up to index %d", meta.ID, meta.Term, meta.Index)
			}
		}
		if err != nil {
			return newest, fmt.Errorf("snapshot %s is damaged: %w", filepath.Join(snapshotsDir, name), cause(err))
		}
		if meta.Index > newest.Index {
			newest = *meta
		}
	}
	return newest, nil
}

// removeUnfinishedSnapshots removes what a process left that died while it wrote.
func (f *Folder) removeUnfinishedSnapshots() error {
	names, err := f.snapshotNames(".tmp")
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(f.path(snapshotsDir), name+".tmp")))
	}
	return err
}

// snapshotNames lists the snapshots whose folders have that ending, without it.
func (f *Folder) snapshotNames(ending string) ([]string, error) {
	entries, err := os.ReadDir(f.path(snapshotsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s cannot be read: %w", snapshotsDir, cause(err))
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ending); ok && e.IsDir() && snapshotName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// errInUse: another process, or another node in this one, has the folder open.
var errInUse = errors.New("it is in use by another process")

func lockError(err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return errInUse
	}
	return cause(err)
}

// cause strips the path that os puts before an error: our messages name it.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
