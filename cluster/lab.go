package cluster

import (
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"leasehold/faults"
	"leasehold/faults/lab"
)

// This file does the faults of disk and clocks, in a lab. Those of links are done by
// package transport.

// labDisk is a disk with the faults of a board. What a node makes of a disk that is
// slow or full it makes of this one: the faults are below everything that handles
// errors.
func labDisk(s *Stores, board *lab.Board, leads func() bool) *Stores {
	with := *s
	with.Log = &labLog{s.Log, board, leads}
	with.Stable = &labStable{s.Stable, board}
	with.Snapshots = &labSnapshots{s.Snapshots, board}
	with.Save = func(id Identity) error {
		if err := beforeWrite(board); err != nil {
			return err
		}
		return s.Save(id)
	}
	return &with
}

// beforeWrite takes as long as a write takes longer, and fails if there is no room.
func beforeWrite(board *lab.Board) error {
	for a := range board.On(faults.SlowFsync) {
		timer := time.NewTimer(a.Fault.Delay())
		select {
		case <-timer.C:
		case <-a.Over():
		}
		timer.Stop()
	}
	for range board.On(faults.DiskFull) {
		return &diskFullError{}
	}
	return nil
}

// diskFullError is syscall.ENOSPC that says who made it up.
type diskFullError struct{}

func (*diskFullError) Error() string { return syscall.ENOSPC.Error() + " (a fault of this lab)" }
func (*diskFullError) Unwrap() error { return syscall.ENOSPC }

// labLog is a log whose writes may be slow or fail, and which has the wall clock
// wrong.
type labLog struct {
	raft.LogStore
	board *lab.Board
	// leads is asked on Raft's thread, so what it says holds until StoreLogs returns.
	leads func() bool
}

func (s *labLog) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs shifts the wall time of the entries that this node has just made as the
// leader. Here and nowhere later: these very entries are what Raft sends to the
// followers and hands to the state machine, so that all nodes have the same time for
// an entry. Those that come from another leader have their time already.
func (s *labLog) StoreLogs(logs []*raft.Log) error {
	if shift := s.board.WallShift(); shift != 0 && s.leads() {
		for _, l := range logs {
			l.AppendedAt = l.AppendedAt.Add(shift)
		}
	}
	if err := beforeWrite(s.board); err != nil {
		return err
	}
	return s.LogStore.StoreLogs(logs)
}

// labStable is a stable store whose writes may be slow or fail.
type labStable struct {
	raft.StableStore
	board *lab.Board
}

func (s *labStable) Set(key, value []byte) error {
	if err := beforeWrite(s.board); err != nil {
		return err
	}
	return s.StableStore.Set(key, value)
}

func (s *labStable) SetUint64(key []byte, value uint64) error {
	if err := beforeWrite(s.board); err != nil {
		return err
	}
	return s.StableStore.SetUint64(key, value)
}

// labSnapshots is where snapshots may find no room.
type labSnapshots struct {
	raft.SnapshotStore
	board *lab.Board
}

func (s *labSnapshots) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, configIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	if err := beforeWrite(s.board); err != nil {
		return nil, err
	}
	return s.SnapshotStore.Create(v, index, term, c, configIndex, trans)
}

// rate is how fast the lease clock of a lab runs, in percent of true time, 0 if it
// stands still. Of several rates the latest counts.
func rate(board *lab.Board) (percent int64) {
	for range board.On(faults.ClockStall) {
		return 0
	}
	percent = 100
	for a := range board.On(faults.ClockRate) {
		percent = a.Fault.Percent
	}
	return percent
}
