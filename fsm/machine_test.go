package fsm_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"leasehold/fsm"
	"leasehold/lease"
)

var at = time.UnixMilli(1_700_000_000_000)

// entry is a log entry that carries c.
func entry(index uint64, c lease.Command) *raft.Log {
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: fsm.EncodeCommand(c), AppendedAt: at}
}

// noFailure is for machines that must not fail.
func noFailure(t *testing.T) func(error) {
	return func(err error) { t.Errorf("the machine has failed: %v", err) }
}

// An entry's index, term and wall time reach the table, its result goes to the
// proposer and to Observe, and the state hash after it can be asked for.
func TestMachine_Apply(t *testing.T) {
	var observed []lease.Result
	m := fsm.New(fsm.Config{Fail: noFailure(t), Observe: func(r lease.Result) { observed = append(observed, r) }})
	l := entry(7, lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second})
	l.Term = 3
	r, ok := m.Apply(l).(lease.Result)
	if want := (lease.Entry{Index: 7, Term: 3, At: at.UnixMilli()}); !ok || r.Entry != want || r.Err != nil {
		t.Fatalf("the response is %+v, want a result of entry %+v", r, want)
	}
	if g := r.Lease.Grant; g.Token != 7 || g.Term != 3 || g.GrantedAt != at.UnixMilli() {
		t.Errorf("the grant is %+v", g)
	}
	if len(observed) != 1 || observed[0].Entry != r.Entry {
		t.Errorf("observed %+v, want the one result", observed)
	}
	hash, known := m.HashAt(7)
	m.View(func(table *lease.Table) {
		if !known || hash != table.Hash() {
			t.Errorf("the hash at 7 is %x, %v, want %x", hash, known, table.Hash())
		}
	})
	for _, index := range []uint64{0, 6, 8, 7 + 1024} {
		if hash, known := m.HashAt(index); known {
			t.Errorf("the hash at %d is %x, although that entry was never applied", index, hash)
		}
	}
}

// An entry that this version cannot read stops the machine: Fail is called once,
// neither that entry nor any after it has an effect, each of them is answered by
// an error, and no snapshot is made or taken in.
func TestMachine_Apply_UnreadableEntry_Stops(t *testing.T) {
	for what, data := range map[string][]byte{
		"an unknown kind":    {2, 99},
		"an unknown version": {99, 1},
		"the version before": {1, 1},
		"damage":             {2, 2, 200},
		"an empty entry":     {},
	} {
		t.Run(what, func(t *testing.T) {
			var failures []error
			observed := 0
			m := fsm.New(fsm.Config{
				Fail:    func(err error) { failures = append(failures, err) },
				Observe: func(lease.Result) { observed++ },
			})
			m.Apply(entry(1, lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second}))
			before := m.Freeze().Header

			good := small(t)
			for i, l := range []*raft.Log{
				{Index: 2, Term: 1, Type: raft.LogCommand, Data: data},
				entry(3, lease.Acquire{Name: "b", Holder: "h", RequestID: "r", TTL: time.Second}),
				{Index: 4, Term: 1, Type: raft.LogCommand, Data: data},
			} {
				if response := m.Apply(l); response != any(failures[0]) {
					t.Errorf("entry %d comes to %v, want the failure", i+2, response)
				}
			}
			if s, err := m.Snapshot(); err == nil {
				t.Errorf("it gives a snapshot: %+v", s)
			}
			if err := m.Restore(io.NopCloser(bytes.NewReader(good))); err == nil {
				t.Error("it takes a snapshot in")
			}
			if len(failures) != 1 {
				t.Fatalf("Fail was called %d times, want once: %v", len(failures), failures)
			}
			var unknown *fsm.UnknownCommandError
			if isUnknown := errors.As(failures[0], &unknown); isUnknown != (len(data) == 2) {
				t.Errorf("the failure is %v", failures[0])
			}
			if after := m.Freeze().Header; after != before || observed != 1 {
				t.Errorf("the entry had an effect: %+v, was %+v; %d results observed", after, before, observed)
			}
		})
	}
}

// A machine that is given a snapshot has the state, and says so; one that is
// given a damaged snapshot keeps the state it had.
func TestMachine_Restore(t *testing.T) {
	from := fsm.New(fsm.Config{Fail: noFailure(t)})
	from.Apply(entry(1, lease.Lead{Node: "n1", Address: "n1:1", ClusterID: "c"}))
	from.Apply(entry(2, lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second}))
	taken, err := from.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	want := from.Freeze().Header
	from.Apply(entry(3, lease.Release{Name: "a", Holder: "h", Token: 2})) // after it was taken
	sink := &sink{}
	if err := taken.Persist(sink); err != nil || !sink.closed || sink.cancelled {
		t.Fatalf("persist: %v, closed %v, cancelled %v", err, sink.closed, sink.cancelled)
	}
	taken.Release()

	restored := 0
	to := fsm.New(fsm.Config{Fail: noFailure(t), Restored: func() { restored++ }})
	to.Apply(entry(1, lease.Acquire{Name: "other", Holder: "h", RequestID: "r", TTL: time.Second}))
	before := to.Freeze().Header
	cut := sink.Bytes()[:sink.Len()-1]
	if err := to.Restore(io.NopCloser(bytes.NewReader(cut))); err == nil {
		t.Error("a snapshot without its last byte was restored")
	}
	if after := to.Freeze().Header; after != before || restored != 0 {
		t.Errorf("a damaged snapshot changed the state to %+v, was %+v; Restored was called %d times", after, before, restored)
	}
	if err := to.Restore(io.NopCloser(bytes.NewReader(sink.Bytes()))); err != nil {
		t.Fatal(err)
	}
	if got := to.Freeze().Header; got != want || restored != 1 {
		t.Errorf("restored %+v, want %+v; Restored was called %d times", got, want, restored)
	}
	if hash, known := to.HashAt(2); !known || hash != want.Hash {
		t.Errorf("the hash at 2 is %x, %v, want %x", hash, known, want.Hash)
	}
}

// A snapshot that cannot be written is cancelled, so that it is never taken for
// a whole one.
func TestSnapshot_Persist_FullDisk_Cancels(t *testing.T) {
	m := fsm.New(fsm.Config{Fail: noFailure(t)})
	m.Apply(entry(1, lease.Lead{Node: "n1"}))
	taken, _ := m.Snapshot()
	full := &sink{room: -1}
	if err := taken.Persist(full); !errors.Is(err, errFull) || !full.cancelled || full.closed {
		t.Errorf("persist: %v, cancelled %v, closed %v", err, full.cancelled, full.closed)
	}
}

// sink is a raft.SnapshotSink in memory.
type sink struct {
	bytes.Buffer
	room              int // negative: the disk is full
	closed, cancelled bool
}

var _ raft.SnapshotSink = (*sink)(nil)

var errFull = errors.New("the disk is full")

func (s *sink) Write(b []byte) (int, error) {
	if s.room < 0 {
		return 0, errFull
	}
	return s.Buffer.Write(b)
}
func (s *sink) Close() error  { s.closed = true; return nil }
func (s *sink) Cancel() error { s.cancelled = true; return nil }
func (s *sink) ID() string    { return "sink" }
