package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Record is one of the things that a history is made of: [Run], [Operation],
// [Belief], [Entry], [Start], [Sample], [Leadership], [Arrival], [Fault] or [End].
type Record interface {
	// addTo adds the record to a history.
	addTo(h *History)
	// line is the record as a line of the file.
	line() line
}

// line is one line of the file: an object with one field, which names the kind
// of the record.
type line struct {
	Run        *Run        `json:"run,omitempty"`
	Operation  *Operation  `json:"operation,omitempty"`
	Belief     *Belief     `json:"belief,omitempty"`
	Entry      *entryJSON  `json:"entry,omitempty"`
	Start      *Start      `json:"start,omitempty"`
	Sample     *Sample     `json:"sample,omitempty"`
	Leadership *Leadership `json:"leadership,omitempty"`
	Arrival    *Arrival    `json:"arrival,omitempty"`
	Fault      *Fault      `json:"fault,omitempty"`
	End        *End        `json:"end,omitempty"`
}

func (r Run) addTo(h *History)        { h.Run = r }
func (r Operation) addTo(h *History)  { h.Operations = append(h.Operations, r) }
func (r Belief) addTo(h *History)     { h.Beliefs = append(h.Beliefs, r) }
func (r Entry) addTo(h *History)      { h.Entries = append(h.Entries, r) }
func (r Start) addTo(h *History)      { h.Start = &r }
func (r Sample) addTo(h *History)     { h.Samples = append(h.Samples, r) }
func (r Leadership) addTo(h *History) { h.Leaderships = append(h.Leaderships, r) }
func (r Arrival) addTo(h *History)    { h.Arrivals = append(h.Arrivals, r) }
func (r Fault) addTo(h *History)      { h.Faults = append(h.Faults, r) }
func (r End) addTo(h *History)        { h.End = &r }

func (r Run) line() line        { return line{Run: &r} }
func (r Operation) line() line  { return line{Operation: &r} }
func (r Belief) line() line     { return line{Belief: &r} }
func (r Entry) line() line      { return line{Entry: r.toJSON()} }
func (r Start) line() line      { return line{Start: &r} }
func (r Sample) line() line     { return line{Sample: &r} }
func (r Leadership) line() line { return line{Leadership: &r} }
func (r Arrival) line() line    { return line{Arrival: &r} }
func (r Fault) line() line      { return line{Fault: &r} }
func (r End) line() line        { return line{End: &r} }

// Recorder keeps a history while it is made. It is safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex // guards what follows
	out     io.Writer  // nil: memory only
	err     error      // the first of out
	history History
}

// NewRecorder also writes each record to out as a line, if out is not nil. Each
// line is one Write and nothing is kept back: if the process is killed, what
// was recorded before can be read.
func NewRecorder(out io.Writer) *Recorder { return &Recorder{out: out} }

// Add adds a record, and sets the ID of an [Operation].
func (r *Recorder) Add(rec Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if op, ok := rec.(Operation); ok {
		op.ID = len(r.history.Operations) + 1
		rec = op
	}
	rec.addTo(&r.history)
	if r.out == nil || r.err != nil {
		return
	}
	data, err := json.Marshal(rec.line())
	if err == nil {
		_, err = r.out.Write(append(data, '\n'))
	}
	r.err = err
}

// History is what was recorded so far. What comes later does not change it.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.history
	return &h
}

// Err is the first error of the writer. Recording in memory goes on after it.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Read reads what a [Recorder] wrote. A last line without its end is left out:
// see [History.Torn]. Any other line that is not as it should be is an error
// which names it.
func Read(in io.Reader) (*History, error) {
	h := new(History)
	lines := bufio.NewReader(in)
	for number := 1; ; number++ {
		data, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			h.Torn = len(data) > 0
			return h, nil
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		rec, err := parse(data)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		rec.addTo(h)
	}
}

func parse(data []byte) (Record, error) {
	var l line
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return nil, err
	}
	switch {
	case l.Run != nil:
		return *l.Run, nil
	case l.Operation != nil:
		return *l.Operation, nil
	case l.Belief != nil:
		return *l.Belief, nil
	case l.Entry != nil:
		return l.Entry.entry()
	case l.Start != nil:
		return *l.Start, nil
	case l.Sample != nil:
		return *l.Sample, nil
	case l.Leadership != nil:
		return *l.Leadership, nil
	case l.Arrival != nil:
		return *l.Arrival, nil
	case l.Fault != nil:
		return *l.Fault, nil
	case l.End != nil:
		return *l.End, nil
	}
	return nil, errors.New("it holds no record")
}
