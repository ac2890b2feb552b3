package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"leasehold/fsm"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// heartbeatPeriod is how often a stream of events says that it is alive.
const heartbeatPeriod = time.Second

// eventPage is how many entries of the log are sent in one write. It is small, so
// that a write which does not end says something about its reader.
const eventPage = 64

// The kinds of server-sent events that are no events of the log. They have no id.
const (
	heartbeatEvent = "heartbeat"
	compactedEvent = "compacted"
)

// compactedError: events that were asked for are no longer kept.
type compactedError struct{ since, floor uint64 }

func (e *compactedError) Error() string {
	return fmt.Sprintf("this node keeps the events after index %d, those after index %d are asked for", e.floor, e.since)
}

// feed is what one reader of events has asked for, and how far it has come.
type feed struct {
	server *Server
	prefix string
	place  uint64 // everything up to this index has been sent, or was not asked for
}

// events answers from the log of this node, whoever leads: what was applied was
// agreed on, and is the same everywhere.
func (s *Server) events(c *call) (answer, error) {
	prefix, err := c.partOfName("prefix")
	if err != nil {
		return answer{}, err
	}
	since, given, err := c.since()
	if err != nil {
		return answer{}, err
	}
	page := s.backend.Events(since, 1)
	if !given {
		since = page.Applied.Index
	}
	if since < page.Floor {
		return answer{}, &compactedError{since, page.Floor}
	}
	f := &feed{server: s, prefix: prefix, place: since}
	return answer{stream: f.run, at: positionOf(page.Applied)}, nil
}

// lastEventID is what a browser that reconnects adds to the URL that it was first
// given, so it counts for more than the since of that URL.
const lastEventID = "Last-Event-Id"

// since is the index after which events are asked for, if the request names one.
func (c *call) since() (index uint64, given bool, err error) {
	anyIndex := bounds{"a whole number", 0, math.MaxUint64}
	index, err = c.integer("since", anyIndex, 0)
	if err != nil {
		return 0, false, err
	}
	_, given = c.query["since"]
	header := c.r.Header[lastEventID]
	switch len(header) {
	case 0:
		return index, given, nil
	case 1:
		text := textproto.TrimString(header[0])
		if index, ok := anyIndex.parse(text); ok {
			return index, true, nil
		}
		return 0, false, anyIndex.refuse("Last-Event-ID", fmt.Sprintf("%q", clip(text)))
	}
	return 0, false, &lease.FieldError{Field: "Last-Event-ID", Detail: "is given twice"}
}

// run sends what happens, as it happens, until somebody ends it.
func (f *feed) run(out *stream) error {
	beat := time.NewTicker(heartbeatPeriod)
	defer beat.Stop()
	page := f.server.backend.Events(f.place, 1)
	if err := out.send(f.heartbeat(nil, page)); err != nil {
		return err
	}
	for due := false; ; {
		page = f.server.backend.Events(f.place, eventPage)
		if f.place < page.Floor {
			return out.send(f.compacted(page))
		}
		if err := f.sendPage(out, page, due); err != nil {
			return err
		}
		news := page.News
		if page.Upto < page.Applied.Index {
			news = closed // there is more already
		}
		select {
		case <-out.ctx.Done():
			return nil
		case <-beat.C:
			due = true
		case <-news:
			due = false
		}
	}
}

// closed is news that is there.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// sendPage sends what of a page passes the filter, in one write, and after it a
// heartbeat if one is due.
func (f *feed) sendPage(out *stream, page fsm.EventPage, due bool) error {
	entries := page.Entries
	if f.prefix != "" { // the page is this reader's own, its entries are not
		entries = slices.DeleteFunc(entries, func(e *fsm.EventEntry) bool { return !f.passes(e) })
	}
	f.place = max(f.place, page.Upto)
	if len(entries) == 1 && !due {
		return out.sendUpto(f.place, entries[0].Encoded(eventFrames))
	}
	b := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(b)
	b.Reset()
	for _, e := range entries {
		b.Write(e.Encoded(eventFrames))
	}
	if due {
		b.Write(f.heartbeat(b.AvailableBuffer(), page))
	}
	return out.sendUpto(f.place, b.Bytes())
}

// passes says whether a reader who asked for a prefix wants to know of an entry.
// It gets all events of an entry or none, for they belong together. A new leader
// concerns every lease: each has its full TTL again.
func (f *feed) passes(e *fsm.EventEntry) bool {
	return slices.ContainsFunc(e.Events, func(ev lease.Event) bool {
		return ev.Kind == lease.KindLeader || strings.HasPrefix(ev.Name, f.prefix)
	})
}

func (f *feed) heartbeat(to []byte, page fsm.EventPage) []byte {
	leader, term := f.server.backend.Leader()
	return appendFrame(to, "", heartbeatEvent, wire.Heartbeat{
		Index: page.Applied.Index, Since: f.place, Term: term,
		Leader: nodeOf(leader), Node: f.server.node[0],
	})
}

func (f *feed) compacted(page fsm.EventPage) []byte {
	p, _ := problem(&compactedError{f.place, page.Floor})
	return appendFrame(nil, "", compactedEvent, p)
}

// eventFrames writes the events of one entry, each as
//
//	id: INDEX
//	event: KIND
//	data: {…}
//
// and an empty line. All of them have the index of the entry as their id.
func eventFrames(events []lease.Event) []byte {
	var b []byte
	for i, ev := range events {
		data := eventOf(ev)
		data.More = i < len(events)-1
		b = appendFrame(b, strconv.FormatUint(ev.Index, 10), data.Kind, data)
	}
	return slices.Clip(b)
}

// appendFrame adds one server-sent event. JSON has no line breaks of its own.
func appendFrame(b []byte, id, kind string, data any) []byte {
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	b = append(append(append(b, "event: "...), kind...), "\ndata: "...)
	w := bytes.NewBuffer(b)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // it is no HTML, and & reads better as &
	if err := e.Encode(data); err != nil {
		panic(err) // the types of package wire can all be marshalled
	}
	w.WriteByte('\n')
	return w.Bytes()
}

func eventOf(ev lease.Event) wire.Event {
	w := wire.Event{
		Index: ev.Index, Term: ev.Term, At: wallTime(ev.At), Kind: string(ev.Kind),
		Holder: ev.Holder, RequestID: ev.RequestID, Token: ev.Token, Place: ev.Place,
		Reason: ev.Reason, LockDelayMillis: ev.Delay.Milliseconds(), Why: ev.Why(),
	}
	switch {
	case ev.Kind == lease.KindLeader:
		w.Node = ev.Name
	case ev.Register:
		w.Register = ev.Name
	default:
		w.Name = ev.Name
	}
	if ev.Cause != nil {
		w.Cause = causeOf(ev.Cause)
	}
	return w
}

// causeOf is the code of a refusal: the one that its client was given, or, if a
// leader proposed the entry by itself, one of the table below.
func causeOf(err error) string {
	for _, c := range proposersCauses {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	p, _ := problem(err)
	return p.Code
}

var proposersCauses = []struct {
	err  error
	code string
}{
	{lease.ErrRenewed, "renewed"},
	{lease.ErrOldTerm, "old_term"},
	{lease.ErrNotCooling, "not_cooling"},
	{lease.ErrNotQueued, "not_queued"},
}
