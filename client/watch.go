package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"leasehold/httpapi/wire"
)

const (
	// quietStream is how long a stream may say nothing: a server sends a heartbeat
	// every second.
	quietStream = 3 * time.Second
	// leaderless is how long a watch stays with a server that knows no leader while
	// there are others to ask: it may be cut off from them and never learn anything.
	leaderless = 5 * time.Second
	// steadyStream is how long a stream lasts that is worth having. After a shorter
	// one the next server is asked, but with a pause now and then.
	steadyStream = time.Second
)

// WatchOptions of a [API.Watch].
type WatchOptions struct {
	// Prefix of the names of leases and registers. Changes of leader concern every
	// lease and always come.
	Prefix string
	// Since is the index after which events are wanted: that of a list, or of the
	// last event that was seen; 0 for all from the first entry on. Nil means from
	// now on, where now is that of the server that answers first.
	Since *uint64
	// Moved, if set, is called when the watch goes on at a server after another one
	// was lost, with the reason for that. The two may be the same.
	Moved func(server string, why error)
}

// Watch gives what happens in the cluster, in the order of the log, each event
// once. It goes on until the loop over it ends, ctx ends, or there is an error,
// which is then the last pair.
//
// Any server will do, for all have the same log. When one dies, goes silent or is
// cut off from the others, the watch goes on at the next, after the last entry
// whose events have been given. The events of one entry come together: there are
// no others between them, and they are given only once all of them are there.
//
// Errors besides the common ones: [ErrCompacted].
func (api *API) Watch(ctx context.Context, o WatchOptions) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		w := &watch{api: api, prefix: o.Prefix, moved: o.Moved, yield: yield}
		if o.Since != nil {
			w.place, w.placed = *o.Since, true
		}
		if err := w.follow(ctx); err != nil {
			yield(wire.Event{}, err)
		}
	}
}

// watch is one run of a Watch.
type watch struct {
	api    *API
	prefix string
	moved  func(string, error)
	yield  func(wire.Event, error) bool
	ended  bool // by the loop over it

	// place: everything up to this index has been given, or was not asked for. Not
	// known before the first heartbeat of a watch from now on.
	place  uint64
	placed bool

	lost *Error // why the stream before this one is over; nil for the first
}

// follow goes from stream to stream. It returns nil when the loop has ended.
func (w *watch) follow(ctx context.Context) error {
	var t tries
	var compacted *Error
	servers, alive := w.api.servers.given, time.Now()
	for at, failures := 0, 0; ; at++ {
		s := &stream{watch: w, server: servers[at%len(servers)]}
		err, final := s.run(ctx)
		switch {
		case w.ended:
			return nil
		case ctx.Err() != nil:
			cause := context.Cause(ctx)
			return &Error{Problem: wire.Problem{Code: codeCancelled, Detail: cause.Error()}, Cause: cause}
		case final:
			return err
		}
		if s.lasted > 0 {
			w.lost, alive = err, time.Now()
		}
		if s.lasted >= steadyStream {
			failures, compacted, t = 0, nil, tries{}
		}
		if errors.Is(err, ErrCompacted) {
			compacted = err // but another server may keep more
		} else {
			t.add(nothing, err)
		}
		if failures++; failures%len(servers) != 0 {
			continue
		}
		switch {
		case compacted != nil:
			return compacted
		case time.Since(alive) > w.api.timeout && t.refused != nil:
			return t.refused
		case time.Since(alive) > w.api.timeout:
			return &Error{Problem: wire.Problem{Code: codeUnreachable, Detail: t.silence()}, Cause: err.Cause}
		}
		sleep(ctx, pause(failures/len(servers)-1)) // if ctx ends the next stream does at once
	}
}

func (w *watch) path() string {
	query := url.Values{}
	if w.prefix != "" {
		query.Set("prefix", w.prefix)
	}
	if w.placed {
		query.Set("since", strconv.FormatUint(w.place, 10))
	}
	return get("/v1/events", query).path
}

// stream is what one server sends to a watch.
type stream struct {
	watch  *watch
	server string
	lasted time.Duration // until the last that was heard of it; 0 if nothing was

	entry []wire.Event // events of one entry, of which there are more to come
	led   time.Time    // when it last knew a leader
}

// run follows one server until it has no more to say. The error is final if no
// other server would say anything else.
func (s *stream) run(ctx context.Context) (err *Error, final bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(quietStream, func() { cancel(errQuiet) })
	defer quiet.Stop()

	req, e := http.NewRequestWithContext(ctx, http.MethodGet, s.server+s.watch.path(), nil)
	if e != nil {
		return unreachable(s.server, e), true
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, e := s.watch.api.http.Do(req)
	if e != nil {
		return s.over(ctx, e), false
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/event-stream") {
		return s.refused(ctx, resp)
	}
	start := time.Now()
	s.led = start
	for frames := newFrames(resp.Body); ; {
		f, e := frames.next()
		if e != nil {
			return s.over(ctx, e), false
		}
		quiet.Stop() // the loop may take its time
		first := s.lasted == 0
		s.lasted = max(time.Since(start), 1)
		if first && s.watch.lost != nil && s.watch.moved != nil {
			s.watch.moved(s.server, s.watch.lost)
		}
		if err := s.take(f); err != nil || s.watch.ended {
			return err, err != nil && err.Code == codeUnexpected
		}
		quiet.Reset(quietStream)
	}
}

// take takes one frame in.
func (s *stream) take(f frame) *Error {
	var err error
	switch {
	case f.id != "":
		var ev wire.Event
		if err = f.decode(&ev); err == nil {
			return s.event(ev)
		}
	case f.event == "heartbeat":
		var beat wire.Heartbeat
		if err = f.decode(&beat); err == nil {
			return s.heartbeat(beat)
		}
	case f.event == "compacted":
		e := &Error{Server: s.server}
		if err = f.decode(&e.Problem); err == nil {
			return e
		}
	}
	if err != nil {
		return unexpected(s.server, http.StatusOK, err.Error())
	}
	return nil
}

func (s *stream) event(ev wire.Event) *Error {
	w := s.watch
	switch {
	case !w.placed:
		return unexpected(s.server, http.StatusOK, "an event came before the first heartbeat")
	case ev.Index <= w.place:
		return nil
	case len(s.entry) > 0 && s.entry[0].Index != ev.Index:
		return unexpected(s.server, http.StatusOK, fmt.Sprintf("more of index %d was announced, but index %d came", s.entry[0].Index, ev.Index))
	}
	if s.entry = append(s.entry, ev); ev.More {
		return nil
	}
	w.place = ev.Index
	for _, ev := range s.entry {
		if w.ended = !w.yield(ev, nil); w.ended {
			return nil
		}
	}
	s.entry = s.entry[:0]
	return nil
}

func (s *stream) heartbeat(beat wire.Heartbeat) *Error {
	w := s.watch
	if !w.placed || beat.Since > w.place {
		w.place, w.placed = beat.Since, true
	}
	now := time.Now()
	switch {
	case beat.Leader != nil:
		s.led = now
	case now.Sub(s.led) >= leaderless && len(w.api.servers.given) > 1:
		return &Error{
			Problem: wire.Problem{Code: "no_leader", Detail: fmt.Sprintf("%s: has known no leader for %v", host(s.server), leaderless)},
			Server:  s.server,
		}
	}
	return nil
}

// refused reads an answer that is no stream.
func (s *stream) refused(ctx context.Context, resp *http.Response) (err *Error, final bool) {
	body, e := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if e != nil {
		return s.over(ctx, e), false
	}
	a := answer{status: resp.StatusCode, body: body}
	v, err := a.judge(s.server, request{})
	if err == nil {
		return unexpected(s.server, a.status, "it is no stream of events"), true
	}
	return err, v == answered && !errors.Is(err, ErrCompacted)
}

var errQuiet = errors.New("it says nothing")

// over is the error of a stream that has ended.
func (s *stream) over(ctx context.Context, cause error) *Error {
	switch {
	case errors.Is(context.Cause(ctx), errQuiet):
		cause = fmt.Errorf("no heartbeat for %v", quietStream)
	case s.lasted > 0 && errors.Is(cause, io.EOF):
		cause = errors.New("it has ended the stream")
	case s.lasted > 0 && errors.Is(cause, io.ErrUnexpectedEOF):
		cause = errors.New("the connection broke")
	}
	return unreachable(s.server, cause)
}
