package httpapi

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// How slow the reader of a stream may be. A reader that catches up from far back
// is not slow as long as it reads: what counts is a write that does not end.
const (
	// maxBlocked is how long a write may wait for its reader.
	maxBlocked = 10 * time.Second
	// A write may not wait longer than maxBlockedBehind while the reader falls more
	// than maxBehind entries of the log behind.
	maxBlockedBehind = 250 * time.Millisecond
	maxBehind        = 1000
	// sendBuffer is how many bytes wait in the kernel, about, before a write does.
	// Left to itself it would grow to several megabytes for each reader that does
	// not read, and such a reader would be noticed thousands of events too late.
	sendBuffer = 64 << 10
)

var errStopping = errors.New("the server is stopping")

// stream is an answer that goes on. Its maker sends and sees neither the
// connection nor how it is guarded.
type stream struct {
	ctx      context.Context // ends when the client has gone, and soon after the server stops
	stopping context.Context // ends when the server stops

	w       http.ResponseWriter
	control *http.ResponseController
	client  string // its address
	started time.Time

	// writing is when the write under way began, counted from started; 0 if none is.
	writing atomic.Int64
	// place is how far its reader has come in the log. It begins at the end of the
	// log even if the reader does not: to be behind what was there before it came
	// is not slow.
	place atomic.Uint64
}

// send writes data at once. It waits for the reader as long as a reader may take.
func (st *stream) send(data []byte) error {
	if st.stopping.Err() != nil {
		return errStopping // the guard has bounded the writes of those that had begun
	}
	st.writing.Store(max(1, int64(time.Since(st.started))))
	defer st.writing.Store(0)
	if _, err := st.w.Write(data); err != nil {
		return err
	}
	return st.control.Flush()
}

// sendUpto sends data, if there is any, that brings the reader up to an index.
func (st *stream) sendUpto(index uint64, data []byte) error {
	if len(data) > 0 {
		if err := st.send(data); err != nil {
			return err
		}
	}
	if index > st.place.Load() {
		st.place.Store(index)
	}
	return nil
}

// blocked is how long the write under way has been going on.
func (st *stream) blocked() time.Duration {
	began := st.writing.Load()
	if began == 0 {
		return 0
	}
	return time.Since(st.started) - time.Duration(began)
}

// tooSlow says whether a reader is to be cut off when the log has come to an index.
func (st *stream) tooSlow(applied uint64) bool {
	blocked := st.blocked()
	return blocked > maxBlocked ||
		blocked > maxBlockedBehind && applied > st.place.Load() && applied-st.place.Load() > maxBehind
}

// writeStream sends the headers of an answer that goes on, and then what its
// maker sends.
func (s *Server) writeStream(w http.ResponseWriter, r *http.Request, a answer) {
	s.setHeader(w.Header(), "text/event-stream", a.at)
	w.Header()["X-Accel-Buffering"] = []string{"no"} // for a proxy in between, which might collect it
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	if conn, ok := r.Context().Value(connKey{}).(*clientConn); ok {
		conn.limitBuffer(sendBuffer)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	st := &stream{
		ctx: ctx, stopping: s.stopping, w: w, control: http.NewResponseController(w), client: r.RemoteAddr, started: time.Now(),
	}
	st.place.Store(a.at.index)
	s.streams.add(st, s.guardStreams)
	defer s.streams.remove(st)
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			panic(v)
		default: // it is too late for an answer that says so
			s.log.Error("panic while serving a stream", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
			panic(http.ErrAbortHandler)
		}
	}()
	if err := a.stream(st); err != nil {
		s.log.Debug("a stream has ended", "client", st.client, "reason", err)
	}
}
