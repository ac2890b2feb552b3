package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// createLogFile makes an empty raft.db if there is none. A crash leaves none, or
// a whole one: half of one would be taken for damage at the next start.
func (f *Folder) createLogFile() error {
	if _, err := os.Stat(f.path(logFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil // there is one, or whoever opens it says what is wrong
	}
	tmp, err := os.CreateTemp(f.Path, "."+logFile+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if err := tmp.Close(); err != nil {
		return err
	}
	log, err := raftboltdb.New(raftboltdb.Options{Path: tmp.Name()})
	if err != nil {
		return err
	}
	if err := log.Close(); err != nil {
		return err
	}
	// Not by renaming: another process might be starting on the same folder, and
	// each would then have the lock of a raft.db of its own.
	err = os.Link(tmp.Name(), f.path(logFile))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(f.Path)
}

// openLogFile checks raft.db and opens it for reading only. Opening a damaged one
// for writing might destroy what could still be saved.
func openLogFile(path string) (sealedLog, error) {
	// First of all: bbolt takes an empty file for a new one, and reads the start of
	// the file without asking how long it is.
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sealedLog{}, fs.ErrNotExist
	case err != nil:
		return sealedLog{}, fmt.Errorf("%s cannot be read: %w", logFile, cause(err))
	case !info.Mode().IsRegular():
		return sealedLog{}, fmt.Errorf("%s is not a file", logFile)
	case info.Size() < boltMinPages*int64(os.Getpagesize()):
		return sealedLog{}, fmt.Errorf("%s is damaged: it is cut short, to %d bytes", logFile, info.Size())
	}
	log, err := raftboltdb.New(raftboltdb.Options{
		Path:        path,
		BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: lockTimeout},
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return sealedLog{}, errInUse
	case err != nil:
		return sealedLog{}, fmt.Errorf("%s is damaged or cannot be read: %w", logFile, cause(err))
	}
	// Nobody writes any more.
	sealed := sealedLog{log}
	err = checkLogFile(path, "logs", "conf")
	if err == nil {
		var indexes []uint64
		if indexes, err = indexesIn(path); err == nil {
			err = sealed.check(indexes)
		}
	}
	if err != nil {
		log.Close()
		return sealedLog{}, fmt.Errorf("%s is damaged: %w", logFile, cause(err))
	}
	return sealed, nil
}

// indexesIn lists the entries in a log file, in order. A log may have a gap: a
// node that was sent a snapshot keeps the few entries it had long before it.
func indexesIn(path string) ([]uint64, error) {
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var indexes []uint64
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("logs")).ForEach(func(key, _ []byte) error {
			if len(key) != 8 {
				return fmt.Errorf("an entry has the key %x", key)
			}
			indexes = append(indexes, binary.BigEndian.Uint64(key))
			return nil
		})
	})
	return indexes, err
}

// checkLogFile walks through the whole database, which must have those buckets.
// bbolt has a check of its own, but on some damaged pages that ends the process.
func checkLogFile(path string, buckets ...string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	b := boltFile{file: file, size: uint64(info.Size()), seen: make(map[uint64]bool), buckets: make(map[string]bool)}
	if err := b.check(); err != nil {
		return err
	}
	for _, name := range buckets {
		if !b.buckets[name] {
			return fmt.Errorf("it has no part named %q", name)
		}
	}
	return nil
}

// A database of bbolt is a file of pages. Numbers are in the byte order of all
// machines that matter, little-endian:
//
//	page     id 8 · flags 2 · count 2 · overflow 4 · items … · their keys and values
//	meta     (pages 0 and 1, by turns) magic 4 · version 4 · page size 4 · flags 4 ·
//	         root page 8 · sequence 8 · free list 8 · pages 8 · transaction 8 · FNV-1a 8
//	branch   each item: position 4 · key size 4 · page 8
//	leaf     each item: flags 4 · position 4 · key size 4 · value size 4
//	bucket   (value of a leaf item with flag 1) root page 8 · sequence 8 · if the root
//	         page is 0, a page of its own
//
// A position counts from the start of its item. Only the meta pages have a
// checksum; the entries of the log have ours, see sealedLog.
const (
	boltMinPages   = 4 // of a new, empty database
	boltHeaderSize = 16
	boltItemSize   = 16
	boltMetaSize   = 64
	boltMagic      = 0xED0CDAED
	boltBranch     = 1
	boltLeaf       = 2
	boltBucketItem = 1
)

type boltFile struct {
	file     io.ReaderAt
	size     uint64
	pageSize uint64
	pages    uint64          // the pages from this one on are not in use
	seen     map[uint64]bool // pages that something refers to
	buckets  map[string]bool // their names
}

func (b *boltFile) check() error {
	root, last := uint64(0), uint64(0)
	for id := range uint64(2) {
		// bbolt goes on with one whole meta page: a crash in the midst of writing
		// the other one loses only what nobody was told. But a meta page is smaller
		// than a sector of a disk, which is written whole or not at all; and if
		// somebody else has spoilt it, the one left may lack a commit.
		m := make([]byte, boltMetaSize)
		if _, err := b.file.ReadAt(m, int64(id*b.pageSize+boltHeaderSize)); err != nil {
			return fmt.Errorf("page %d: %w", id, cause(err))
		}
		sum := fnv.New64a()
		sum.Write(m[:boltMetaSize-8])
		if word(m) != boltMagic || long(m[56:]) != sum.Sum64() {
			return fmt.Errorf("page %d is not what it should be", id)
		}
		b.pageSize = uint64(word(m[8:]))
		if transaction := long(m[48:]); transaction >= last {
			root, b.pages, last = long(m[16:]), long(m[40:]), transaction
		}
	}
	if b.pages*b.pageSize > b.size {
		return fmt.Errorf("it is cut short, to %d bytes of %d", b.size, b.pages*b.pageSize)
	}
	return b.checkTree(root, nil, nil)
}

// checkTree checks the pages from a root down. Keys must be at least low, and
// less than high unless that is nil.
func (b *boltFile) checkTree(id uint64, low, high []byte) error {
	page, err := b.read(id)
	if err == nil {
		err = b.checkItems(page, low, high)
	}
	if err != nil && !errors.As(err, new(*pageError)) {
		err = &pageError{id, err}
	}
	return err
}

// pageError names the page where the damage is.
type pageError struct {
	id  uint64
	err error
}

func (e *pageError) Error() string { return fmt.Sprintf("page %d: %v", e.id, e.err) }

func (b *boltFile) read(id uint64) ([]byte, error) {
	header := make([]byte, boltHeaderSize)
	if id < 2 || id >= b.pages {
		return nil, errors.New("referred to, but not in use")
	}
	if _, err := b.file.ReadAt(header, int64(id*b.pageSize)); err != nil {
		return nil, cause(err)
	}
	count := uint64(word(header[12:])) + 1
	if long(header) != id || count > b.pages-id {
		return nil, errors.New("not what it should be")
	}
	for i := id; i < id+count; i++ {
		if b.seen[i] {
			return nil, errors.New("referred to twice")
		}
		b.seen[i] = true
	}
	page := make([]byte, count*b.pageSize)
	if _, err := b.file.ReadAt(page, int64(id*b.pageSize)); err != nil {
		return nil, cause(err)
	}
	return page, nil
}

// boltItem is an item of a page.
type boltItem struct {
	key, value []byte
	page       uint64 // of a branch
	isBucket   bool
}

// checkItems checks the items of a page and all that is below them.
func (b *boltFile) checkItems(page, low, high []byte) error {
	items, err := boltItems(page)
	if err != nil {
		return err
	}
	for i, it := range items {
		least := low
		if i > 0 {
			least = items[i-1].key
		}
		if c := bytes.Compare(it.key, least); c < 0 || c == 0 && i > 0 || high != nil && bytes.Compare(it.key, high) >= 0 {
			return fmt.Errorf("item %d is out of order", i)
		}
	}
	for i, it := range items {
		below := high
		if i+1 < len(items) {
			below = items[i+1].key
		}
		switch {
		case it.page != 0:
			err = b.checkTree(it.page, it.key, below)
		case it.isBucket:
			err = b.checkBucket(it)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *boltFile) checkBucket(it boltItem) error {
	b.buckets[string(it.key)] = true
	switch {
	case len(it.value) < boltHeaderSize:
		return errors.New("a bucket is cut short")
	case long(it.value) != 0:
		return b.checkTree(long(it.value), nil, nil)
	default:
		return b.checkItems(it.value[boltHeaderSize:], nil, nil)
	}
}

// boltItems finds the items of a page, all of which must lie within it.
func boltItems(page []byte) ([]boltItem, error) {
	if len(page) < boltHeaderSize {
		return nil, errors.New("cut short")
	}
	kind, count := binary.LittleEndian.Uint16(page[8:]), int(binary.LittleEndian.Uint16(page[10:]))
	if kind != boltBranch && kind != boltLeaf || boltHeaderSize+count*boltItemSize > len(page) {
		return nil, errors.New("not what it should be")
	}
	items := make([]boltItem, count)
	for i := range items {
		at := boltHeaderSize + i*boltItemSize
		head, it := page[at:], &items[i]
		position, keySize, valueSize := word(head), word(head[4:]), uint32(0)
		if kind == boltLeaf {
			it.isBucket = word(head) == boltBucketItem
			position, keySize, valueSize = word(head[4:]), word(head[8:]), word(head[12:])
		} else if it.page = long(head[8:]); it.page == 0 {
			return nil, fmt.Errorf("item %d refers to nothing", i)
		}
		key := uint64(at) + uint64(position)
		value := key + uint64(keySize)
		end := value + uint64(valueSize)
		if end > uint64(len(page)) {
			return nil, fmt.Errorf("item %d goes beyond its end", i)
		}
		it.key, it.value = page[key:value], page[value:end]
	}
	return items, nil
}

func word(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func long(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// syncFolder makes new names in a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
