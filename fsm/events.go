package fsm

import (
	"sort"
	"sync"

	"leasehold/lease"
)

// EventsKept is how many events a machine remembers at least, as long as it has
// seen as many since the snapshot that it started from.
//
// Names, holders, request ids and reasons are bounded, and so is an event: with
// its encoding it takes about 1 KB, and 6 KB at worst. An entry has two at most.
// The log of events thus takes 10 MB of a busy node, and never more than 60 MB.
const EventsKept = 10_000

// EventEntry is what one entry of the Raft log did. It is never changed, and all
// readers share it.
type EventEntry struct {
	Index  uint64
	Events []lease.Event // in order, at least one, all with this index

	once    sync.Once
	encoded []byte
}

// Encoded returns what encode makes of the entry. It is made for the first reader
// and kept for all the others, who must give the same function and must not
// change the result.
func (e *EventEntry) Encoded(encode func([]lease.Event) []byte) []byte {
	e.once.Do(func() { e.encoded = encode(e.Events) })
	return e.encoded
}

// EventPage is a part of what a machine has done, as [Machine.Events] gives it.
type EventPage struct {
	// Entries with events, in the order of their indexes.
	Entries []*EventEntry
	// Upto: the page holds every event after the index that was asked for and up
	// to this one. Not every entry of the log has events, so it may be past the
	// last of Entries. It is less than the index asked for if that is in the future.
	Upto uint64
	// Floor: the events up to this index are gone. A page that was asked for from
	// below it holds nothing.
	Floor uint64
	// Applied is the entry that the machine applied last. There is more than this
	// page if its index is greater than Upto.
	Applied lease.Entry
	// News is closed when there are events after Applied.
	News <-chan struct{}
}

// Events returns what the machine has done after that index, at most limit
// entries of it, which is 1 or more. It waits for nothing but the addition of one
// entry.
//
// A reader keeps its place itself, as an index, so a machine does not know its
// readers and holds nothing for them:
//
//	for {
//		page := m.Events(place, limit)
//		… if place < page.Floor it has come too late, else use page.Entries
//		place = max(place, page.Upto)
//		if page.Upto >= page.Applied.Index { <-page.News }
//	}
func (m *Machine) Events(after uint64, limit int) EventPage { return m.events.page(after, limit) }

// AnnounceEvents closes the News of the pages whenever there are some, until done
// is closed. Waking readers takes as long as there are readers, so it is not left
// to Raft's thread; and while they are being woken, more news gather into one.
func (m *Machine) AnnounceEvents(done <-chan struct{}) {
	for {
		select {
		case <-m.events.added:
			m.events.announce()
		case <-done:
			return
		}
	}
}

// eventLog holds the events of the latest entries that had any, in a ring. It
// drops whole entries only.
type eventLog struct {
	added chan struct{} // buffered 1: the ring has grown since the last announcement

	mu      sync.RWMutex // guards what follows: Raft's thread writes, readers read
	slots   [EventsKept]*EventEntry
	first   uint64 // entries dropped so far; the oldest is in slot first % EventsKept
	next    uint64 // entries ever added
	events  int    // in the ring
	floor   uint64
	applied lease.Entry
	news    chan struct{}
}

func newEventLog() *eventLog {
	return &eventLog{added: make(chan struct{}, 1), news: make(chan struct{})}
}

// add takes what an entry did. It is called on Raft's thread, and takes the same
// time whether there are readers or not.
func (l *eventLog) add(r lease.Result) {
	l.mu.Lock()
	l.applied = r.Entry
	if len(r.Events) > 0 {
		// Without the oldest entry there must still be enough. Each has at least one
		// event, so after this a slot is free.
		for l.next > l.first {
			oldest := l.slots[l.first%EventsKept]
			if l.events-len(oldest.Events)+len(r.Events) < EventsKept {
				break
			}
			l.slots[l.first%EventsKept] = nil
			l.floor = oldest.Index
			l.events -= len(oldest.Events)
			l.first++
		}
		l.slots[l.next%EventsKept] = &EventEntry{Index: r.Entry.Index, Events: r.Events}
		l.next++
		l.events += len(r.Events)
	}
	l.mu.Unlock()
	if len(r.Events) > 0 {
		l.tell()
	}
}

// restart begins anew after a snapshot: what was done before it is not in it.
func (l *eventLog) restart(at lease.Entry) {
	l.mu.Lock()
	clear(l.slots[:])
	l.first, l.next, l.events = 0, 0, 0
	l.floor, l.applied = at.Index, at
	l.mu.Unlock()
	l.tell() // its readers have come too late now, and shall know it
}

func (l *eventLog) tell() {
	select {
	case l.added <- struct{}{}:
	default: // an announcement is due anyway
	}
}

func (l *eventLog) announce() {
	l.mu.Lock()
	news := l.news
	l.news = make(chan struct{})
	l.mu.Unlock()
	close(news)
}

func (l *eventLog) page(after uint64, limit int) EventPage {
	l.mu.RLock()
	defer l.mu.RUnlock()
	p := EventPage{Upto: l.applied.Index, Floor: l.floor, Applied: l.applied, News: l.news}
	if after < l.floor || after >= l.applied.Index {
		return p
	}
	skip := sort.Search(int(l.next-l.first), func(i int) bool {
		return l.slots[(l.first+uint64(i))%EventsKept].Index > after
	})
	from := l.first + uint64(skip)
	to := min(l.next, from+uint64(limit))
	if from == to {
		return p
	}
	p.Entries = make([]*EventEntry, 0, to-from)
	for i := from; i < to; i++ {
		p.Entries = append(p.Entries, l.slots[i%EventsKept])
	}
	if to < l.next {
		p.Upto = p.Entries[len(p.Entries)-1].Index
	}
	return p
}
