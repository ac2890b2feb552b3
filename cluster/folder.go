package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
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
	logCacheSize    = 4096 // entries kept in memory for followers
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
	identity, err := readIdentity(f.path(identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = f.mustBeEmpty()
	}
	if err != nil {
		return nil, err
	}
	if identity.Formed {
		if _, err := os.Stat(f.path(logFile)); err != nil {
			return nil, fmt.Errorf("%s is missing; this node has taken part in a cluster, so starting without it could undo what the cluster has promised", logFile)
		}
	}
	if err := checkLogFile(f.path(logFile)); err != nil {
		return nil, err
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
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(f.Path, snapshotsKept, f.Logger.Named("snapshots"))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", snapshotsDir, cause(err))
	}
	newest, err := f.checkSnapshots(snapshots)
	if err != nil {
		return nil, err
	}
	first, err := bolt.FirstIndex()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", logFile, err)
	}
	if first > newest+1 {
		return nil, fmt.Errorf("the log begins at entry %d and the newest snapshot ends at %d: the entries between are lost", first, newest)
	}
	log, err := raft.NewLogCache(logCacheSize, bolt)
	if err != nil {
		return nil, err
	}
	return &Stores{
		Log: log, Stable: bolt, Snapshots: snapshots,
		Identity: identity,
		Save:     func(id Identity) error { return f.saveIdentity(id) },
		Close:    bolt.Close,
	}, nil
}

func (f *Folder) path(name string) string { return filepath.Join(f.Path, name) }

// mustBeEmpty refuses a folder that has no identity but is not fresh either.
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
			return fmt.Errorf("it holds %s but no %s; it is damaged, or a part of another node's folder", name, identityFile)
		default:
			return fmt.Errorf("it holds %q and was never a node's; use an empty folder", name)
		}
	}
	return nil
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
	tmp, err := os.CreateTemp(f.Path, "."+identityFile+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(append(data, '\n'))
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), f.path(identityFile))
	}
	if err != nil {
		return fmt.Errorf("%s cannot be saved: %w", identityFile, cause(err))
	}
	folder, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// checkLogFile walks through the whole database, read-only. Opening a damaged
// one for writing might destroy what could still be saved.
func checkLogFile(path string) (err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// A file cut short is found as a fault on a mapped page.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s is damaged: %v", logFile, p)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout, PreLoadFreelist: false})
	if err != nil {
		if errors.Is(err, bolterrors.ErrTimeout) {
			return lockError(err)
		}
		return fmt.Errorf("%s is damaged or cannot be read: %w", logFile, cause(err))
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			return fmt.Errorf("%s is damaged: %w", logFile, err)
		}
		return nil
	})
}

var snapshotName = regexp.MustCompile(`^[0-9]+-[0-9]+-[0-9]+$`)

// checkSnapshots reads every snapshot and returns the index of the newest.
// Raft itself would pass over a damaged one and take an older state, without
// asking whether the log still holds what came between.
func (f *Folder) checkSnapshots(store *raft.FileSnapshotStore) (newest uint64, err error) {
	entries, err := os.ReadDir(f.path(snapshotsDir))
	if err != nil {
		return 0, fmt.Errorf("%s cannot be read: %w", snapshotsDir, cause(err))
	}
	for _, e := range entries {
		name, unfinished := strings.CutSuffix(e.Name(), ".tmp")
		if !e.IsDir() || !snapshotName.MatchString(name) {
			continue
		}
		path := filepath.Join(f.path(snapshotsDir), e.Name())
		if unfinished { // the process died while it wrote this one
			if err := os.RemoveAll(path); err != nil {
				return 0, fmt.Errorf("an unfinished snapshot cannot be removed: %w", cause(err))
			}
			continue
		}
		meta, state, err := store.Open(name)
		if err != nil {
			return 0, fmt.Errorf("snapshot %s is damaged: %w", filepath.Join(snapshotsDir, name), err)
		}
		state.Close() // Open has read all of it and compared the checksum
		newest = max(newest, meta.Index)
	}
	return newest, nil
}

func lockError(err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return errors.New("it is in use by another process")
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
