package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// sealedLog keeps a checksum with each entry of the log. The file has none of its
// own, and an entry with a wrong byte in it may still be a command: this node
// would apply another one than the rest of the cluster.
type sealedLog struct {
	*raftboltdb.BoltStore
}

var _ raft.LogStore = sealedLog{}

var (
	errChecksum   = errors.New("its checksum is wrong")
	errUnreadable = errors.New("it cannot be read as an entry")
)

func (s sealedLog) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores copies: the entries are Raft's, and go to followers as well.
func (s sealedLog) StoreLogs(logs []*raft.Log) error {
	sealed := make([]*raft.Log, len(logs))
	for i, l := range logs {
		entry := *l
		entry.Extensions = seal(l)
		sealed[i] = &entry
	}
	return s.BoltStore.StoreLogs(sealed)
}

func (s sealedLog) GetLog(index uint64, l *raft.Log) error {
	var entry raft.Log
	if err := s.BoltStore.GetLog(index, &entry); err != nil {
		return err
	}
	if entry.Index != index || string(entry.Extensions) != string(seal(&entry)) {
		return errChecksum
	}
	entry.Extensions = nil
	*l = entry
	return nil
}

// check reads the entries with those indexes.
func (s sealedLog) check(indexes []uint64) error {
	for _, i := range indexes {
		if err := s.GetLog(i, new(raft.Log)); err != nil {
			if !errors.Is(err, errChecksum) {
				err = errUnreadable // the decoder's own words are a stack trace's
			}
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return nil
}

// number reads what Raft keeps beside the log, 0 if it is absent.
func (s sealedLog) number(key string) (uint64, error) {
	value, err := s.Get([]byte(key))
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil || len(value) != 8 {
		return 0, fmt.Errorf("%s is not what it should be", key)
	}
	return binary.BigEndian.Uint64(value), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func seal(l *raft.Log) []byte {
	head := make([]byte, 0, 32)
	head = binary.LittleEndian.AppendUint64(head, l.Index)
	head = binary.LittleEndian.AppendUint64(head, l.Term)
	head = append(head, byte(l.Type))
	head = binary.LittleEndian.AppendUint64(head, uint64(l.AppendedAt.Unix()))
	head = binary.LittleEndian.AppendUint32(head, uint32(l.AppendedAt.Nanosecond()))
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, l.Data)
	return binary.LittleEndian.AppendUint32(nil, sum)
}
