package fsm_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/fsm"
	"leasehold/lease"
)

// follower reads the events of a machine as a stream does.
type follower struct {
	machine *fsm.Machine
	place   uint64
	late    bool     // it has come too late
	seen    []string // "index kind"
}

// read reads all there is, in pages of that size, and returns the last page.
func (f *follower) read(t *testing.T, limit int) fsm.EventPage {
	t.Helper()
	for {
		page := f.machine.Events(f.place, limit)
		if len(page.Entries) > limit {
			t.Fatalf("%d entries in a page of %d", len(page.Entries), limit)
		}
		if f.late = f.place < page.Floor; f.late {
			if len(page.Entries) != 0 {
				t.Fatalf("events after %d are given, although those up to %d are gone", f.place, page.Floor)
			}
			return page
		}
		for _, e := range page.Entries {
			for _, ev := range e.Events {
				if ev.Index != e.Index || e.Index <= f.place || e.Index > page.Upto {
					t.Fatalf("event of index %d in entry %d of a page from %d to %d", ev.Index, e.Index, f.place, page.Upto)
				}
				f.seen = append(f.seen, fmt.Sprintf("%d %s", ev.Index, ev.Kind))
			}
		}
		f.place = max(f.place, page.Upto)
		if page.Upto >= page.Applied.Index {
			return page
		}
	}
}

// handOvers applies an acquire with a waiter, and after it n releases by which
// the lease is handed on, with a new waiter after each. It returns what they did
// and the next index.
func handOvers(m *fsm.Machine, n int) (did []string, next uint64) {
	index, holder := uint64(0), 0
	apply := func(c lease.Command) {
		index++
		for _, ev := range m.Apply(entry(index, c)).(lease.Result).Events {
			did = append(did, fmt.Sprintf("%d %s", index, ev.Kind))
		}
	}
	ask := func() {
		holder++
		apply(lease.Acquire{Name: "a", Holder: "h", RequestID: fmt.Sprint(holder), TTL: time.Second, Wait: time.Second})
	}
	ask()
	token := index
	for range n {
		ask()
		apply(lease.Release{Name: "a", Holder: "h", Token: token})
		token = index
	}
	return did, index + 1
}

// A reader sees every event once and in order, whatever the size of its pages,
// and from any place on.
func TestMachine_Events(t *testing.T) {
	m := fsm.New(fsm.Config{Fail: noFailure(t)})
	if page := m.Events(0, 10); len(page.Entries) != 0 || page.Upto != 0 || page.Floor != 0 {
		t.Errorf("a new machine has %+v", page)
	}
	did, next := handOvers(m, 20)
	for _, limit := range []int{1, 2, 7, 1000} {
		for from := range next {
			f := &follower{machine: m, place: from}
			page := f.read(t, limit)
			want := did
			for len(want) > 0 && index(want[0]) <= from {
				want = want[1:]
			}
			if !slices.Equal(f.seen, want) || page.Floor != 0 || page.Upto != next-1 {
				t.Errorf("from %d, %d a page: %v, want %v", from, limit, f.seen, want)
			}
		}
	}
}

func index(event string) (i uint64) {
	fmt.Sscan(event, &i)
	return i
}

// An entry without events moves the place of a reader on: "everything up to here"
// is true of it too.
func TestMachine_Events_EntryWithout(t *testing.T) {
	m := fsm.New(fsm.Config{Fail: noFailure(t)})
	same := lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second}
	m.Apply(entry(5, same))
	m.Apply(entry(9, same)) // replayed
	f := &follower{machine: m}
	f.read(t, 10)
	if fmt.Sprint(f.seen) != "[5 granted]" || f.place != 9 {
		t.Errorf("seen %v, place %d; want the grant, and place 9", f.seen, f.place)
	}
}

// A place in the future is no error, and nothing comes before it is reached.
func TestMachine_Events_Future(t *testing.T) {
	m := fsm.New(fsm.Config{Fail: noFailure(t)})
	f := &follower{machine: m, place: 3}
	handOvers(m, 1)
	if f.read(t, 10); len(f.seen) != 0 || f.place != 3 {
		t.Errorf("after 3 entries: %v, place %d", f.seen, f.place)
	}
	m.Apply(entry(4, lease.Lead{Node: "n2"}))
	if f.read(t, 10); fmt.Sprint(f.seen) != "[4 leader]" {
		t.Errorf("after 4 entries: %v", f.seen)
	}
	if page := m.Events(1<<64-1, 10); len(page.Entries) != 0 || page.Upto != 4 {
		t.Errorf("at the end of all numbers: %+v", page)
	}
}

// At least EventsKept events are kept, and no part of an entry: the ring goes
// round three times with entries of one and of two events.
func TestMachine_Events_Wrap(t *testing.T) {
	m := fsm.New(fsm.Config{Fail: noFailure(t)})
	did, _ := handOvers(m, fsm.EventsKept)
	page := m.Events(0, 10)
	if page.Floor == 0 || len(page.Entries) != 0 {
		t.Fatalf("after %d events nothing is gone", len(did))
	}
	f := &follower{machine: m, place: page.Floor}
	f.read(t, 100)
	if n := len(f.seen); n < fsm.EventsKept || n > fsm.EventsKept+1 {
		t.Errorf("%d events are kept, want %d, or one more", n, fsm.EventsKept)
	}
	kept := did[len(did)-len(f.seen):]
	if !slices.Equal(f.seen, kept) {
		t.Error("those that are kept are not the latest")
	}
	if before := did[len(did)-len(f.seen)-1]; index(before) != page.Floor {
		t.Errorf("the floor is %d, the last event that is gone is %s", page.Floor, before)
	}
	late := &follower{machine: m, place: page.Floor - 1}
	if late.read(t, 10); !late.late {
		t.Error("a reader from below the floor is not told so")
	}
}

// A snapshot has no events in it: all up to its index are gone, and a reader that
// had not come so far learns it at once.
func TestMachine_Events_Restore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := fsm.New(fsm.Config{Fail: noFailure(t)})
		_, next := handOvers(from, 10)
		taken, _ := from.Snapshot()
		sink := &sink{}
		if err := taken.Persist(sink); err != nil {
			t.Fatal(err)
		}

		m := fsm.New(fsm.Config{Fail: noFailure(t)})
		defer announcing(m)()
		handOvers(m, 3)
		f := &follower{machine: m}
		news := f.read(t, 10).News
		if err := m.Restore(io.NopCloser(bytes.NewReader(sink.Bytes()))); err != nil {
			t.Fatal(err)
		}
		<-news
		if page := f.read(t, 10); !f.late || page.Floor != next-1 {
			t.Errorf("the reader was not told that the events up to %d are gone: %+v", next-1, page)
		}
		g := &follower{machine: m, place: next - 1}
		m.Apply(entry(next, lease.Lead{Node: "n2"}))
		if g.read(t, 10); g.late || fmt.Sprint(g.seen) != fmt.Sprintf("[%d leader]", next) {
			t.Errorf("a reader from the snapshot on sees %v", g.seen)
		}
	})
}

// announcing runs AnnounceEvents until the function that it returns is called.
func announcing(m *fsm.Machine) (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		m.AnnounceEvents(done)
	}()
	return func() {
		close(done)
		<-gone
	}
}

// News comes to every reader, and none is lost between reading and waiting. An
// entry without events is none.
func TestMachine_Events_News(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fsm.New(fsm.Config{Fail: noFailure(t)})
		defer announcing(m)()
		same := lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second}
		m.Apply(entry(1, same))
		synctest.Wait()
		page := m.Events(1, 10)
		m.Apply(entry(2, same)) // replayed
		synctest.Wait()
		select {
		case <-page.News:
			t.Error("an entry without events is announced")
		default:
		}

		const readers, entries = 50, 400
		followers := make([]*follower, readers)
		var all sync.WaitGroup
		for i := range followers {
			f := &follower{machine: m, place: 2}
			followers[i] = f
			all.Go(func() {
				for {
					page := f.read(t, 1+i)
					if f.place == 2+entries {
						return
					}
					<-page.News
				}
			})
		}
		for i := range entries {
			m.Apply(entry(uint64(3+i), lease.Lead{Node: "n1"}))
			if i%10 == 0 {
				synctest.Wait() // they all sleep, so they depend on being woken
			}
		}
		all.Wait()
		for _, f := range followers {
			if len(f.seen) != entries {
				t.Errorf("a reader has seen %d of %d events", len(f.seen), entries)
			}
		}
	})
}

// An entry is encoded once, however many readers it has.
func TestEventEntry_Encoded_Once(t *testing.T) {
	m := fsm.New(fsm.Config{Fail: noFailure(t)})
	m.Apply(entry(1, lease.Lead{Node: "n1"}))
	calls := 0
	encode := func(events []lease.Event) []byte {
		calls++
		return []byte(events[0].Name)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := m.Events(0, 1).Entries[0].Encoded(encode); string(got) != "n1" {
				t.Errorf("encoded as %q", got)
			}
		})
	}
	all.Wait()
	if calls != 1 {
		t.Errorf("encoded %d times", calls)
	}
}
