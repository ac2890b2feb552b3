package httpapi

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// guardPeriod is how often the streams are looked at.
	guardPeriod = 100 * time.Millisecond
	// stopGrace is what a stopping server gives its readers to take what is being
	// sent to them.
	stopGrace = 250 * time.Millisecond
	// manyStreams leave enough behind for it to be worth collecting.
	manyStreams = 1000
)

// streams are those that are open.
type streams struct {
	mu    sync.Mutex // guards what follows
	open  map[*stream]struct{}
	ended int           // since the last collection
	none  chan struct{} // closed when the last one is gone
}

// add starts the guard with the first stream. There is one for all of them, and
// none when there is nothing to guard.
func (x *streams) add(st *stream, guard func(none <-chan struct{})) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.open) == 0 {
		x.open, x.none = make(map[*stream]struct{}), make(chan struct{})
		go guard(x.none)
	}
	x.open[st] = struct{}{}
}

func (x *streams) remove(st *stream) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, st)
	x.ended++
	if len(x.open) == 0 {
		close(x.none)
	}
}

// cut bounds every write from now on, of those streams that ought to be cut. The
// lock keeps their connections from passing on to another request meanwhile.
func (x *streams) cut(at time.Time, which func(*stream) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for st := range x.open {
		if which(st) {
			_ = st.control.SetWriteDeadline(at) // every connection has deadlines
		}
	}
}

// collect gives the memory of many ended streams back to the system. Left to
// itself the garbage collector comes when as much again has been used, or after
// minutes; and what net/http keeps for the next connection survives its first
// visit.
func (x *streams) collect() {
	x.mu.Lock()
	many := x.ended >= manyStreams && x.ended >= len(x.open)
	if many {
		x.ended = 0
	}
	x.mu.Unlock()
	if many {
		runtime.GC()
		debug.FreeOSMemory() // the second visit is part of it
	}
}

// guardStreams cuts off the readers that are too slow, and all of them when the
// server stops.
func (s *Server) guardStreams(none <-chan struct{}) {
	defer s.streams.collect()
	check := time.NewTicker(guardPeriod)
	defer check.Stop()
	for {
		select {
		case <-check.C:
			s.cutSlow(s.backend.Applied().Index)
			s.streams.collect()
		case <-s.stopping.Done():
			// Whoever has not begun to write by now will not; see send.
			s.streams.cut(time.Now().Add(stopGrace), func(*stream) bool { return true })
			return
		case <-none:
			return
		}
	}
}

func (s *Server) cutSlow(applied uint64) {
	s.streams.cut(time.Now(), func(st *stream) bool {
		slow := st.tooSlow(applied)
		if slow {
			s.log.Info("a reader is too slow and is cut off",
				"client", st.client, "blocked", st.blocked(), "place", st.place.Load(), "applied", applied)
		}
		return slow
	})
}
