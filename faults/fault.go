package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Fault is one thing that goes wrong, for a while. A field that is zero is absent.
type Fault struct {
	Kind Kind `json:"fault"`
	// Peers are the ids of the nodes at the other end, or [Clients]. None: all other
	// nodes.
	Peers     []string  `json:"peers,omitempty"`
	Direction Direction `json:"direction,omitempty"`

	DelayMillis  int64  `json:"delay_ms,omitempty"`
	JitterMillis int64  `json:"jitter_ms,omitempty"` // up to so much more, at random
	Percent      int64  `json:"percent,omitempty"`   // of packets lost, or of true time
	Count        int64  `json:"count,omitempty"`     // of answers
	Path         string `json:"path,omitempty"`      // of the requests whose answers
	ShiftMillis  int64  `json:"shift_ms,omitempty"`  // of the wall clock, also back

	// DurationMillis is how long it lasts. Only a kill or a stop may have none: that
	// node stays down until the schedule is over.
	DurationMillis int64 `json:"duration_ms,omitzero"`
}

// Bounds of what a fault may have.
const (
	MaxDuration = 10 * time.Minute
	MaxDelay    = time.Minute
	MaxShift    = 24 * time.Hour // to either side
	MaxCount    = 1000
	MaxPeers    = 16
	MaxPath     = 255 // bytes
	maxID       = 64  // bytes
)

// bounds of a whole number, both included.
type bounds struct{ min, max int64 }

func (b bounds) has(n int64) bool { return b.min <= n && n <= b.max }

// boundsOf the numbers. Those of percent depend on the kind.
var boundsOf = map[string]bounds{
	"duration_ms": {1, MaxDuration.Milliseconds()},
	"delay_ms":    {1, MaxDelay.Milliseconds()},
	"jitter_ms":   {1, MaxDelay.Milliseconds()},
	"count":       {1, MaxCount},
	"shift_ms":    {-MaxShift.Milliseconds(), MaxShift.Milliseconds()},
	"at_ms":       {0, (24 * time.Hour).Milliseconds()},
}

// FieldError says that a field is not acceptable, and what would be.
type FieldError struct {
	Field  string
	Detail string // goes on a sentence that begins with the field
}

func (e *FieldError) Error() string { return e.Field + " " + e.Detail }

func refuse(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// Duration is how long the fault lasts, Delay how long it delays, Shift how far it
// shifts the wall clock.
func (f Fault) Duration() time.Duration { return millis(f.DurationMillis) }

// Delay is how long it delays, without the jitter.
func (f Fault) Delay() time.Duration { return millis(f.DelayMillis) }

// Jitter is up to how much longer it delays.
func (f Fault) Jitter() time.Duration { return millis(f.JitterMillis) }

// Shift is how far it puts the wall clock forward.
func (f Fault) Shift() time.Duration { return millis(f.ShiftMillis) }

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Touches says whether it is a fault of the link to a peer in one direction. The peer
// is the id of a node, or [Clients].
func (f Fault) Touches(peer string, d Direction) bool {
	if !f.Kind.OfLink() || f.Direction != "" && f.Direction != Both && f.Direction != d {
		return false
	}
	if len(f.Peers) == 0 {
		return peer != Clients
	}
	return slices.Contains(f.Peers, peer)
}

// Validate says what is wrong with a fault, if anything, as a *[FieldError].
func (f Fault) Validate() error {
	form := formOf(f.Kind)
	if form == nil {
		return refuse("fault", "must be one of %s, not %q", kindList(Kinds()), clip(string(f.Kind)))
	}
	numbers, given := f.numbers(), f.given()
	for _, name := range given {
		if !slices.Contains(form.fields, name) {
			return refuse(name, "is not a field of %s, which takes %s", f.Kind, form)
		}
		if b, ok := form.boundsOf(name); ok && !b.has(numbers[name]) {
			return refuse(name, "must be a whole number from %d to %d, not %d", b.min, b.max, numbers[name])
		}
	}
	for _, name := range form.fields[:form.required] {
		if !slices.Contains(given, name) {
			return refuse(name, "is missing; %s takes %s", f.Kind, form)
		}
	}
	if b := boundsOf["duration_ms"]; !b.has(f.DurationMillis) && !(f.DurationMillis == 0 && form.mayLast()) {
		return refuse("duration_ms", "must be a whole number from %d to %d, not %d", b.min, b.max, f.DurationMillis)
	}
	return f.checkTexts()
}

// numbers by name.
func (f Fault) numbers() map[string]int64 {
	return map[string]int64{
		"delay_ms": f.DelayMillis, "jitter_ms": f.JitterMillis, "percent": f.Percent, "count": f.Count, "shift_ms": f.ShiftMillis,
	}
}

// given names the fields that are not absent, but for fault and duration_ms.
func (f Fault) given() (names []string) {
	for name, n := range f.numbers() {
		if n != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names) // so that of two mistakes always the same one is told
	if f.Peers != nil {
		names = append(names, "peers")
	}
	if f.Direction != "" {
		names = append(names, "direction")
	}
	if f.Path != "" {
		names = append(names, "path")
	}
	return names
}

func (f Fault) checkTexts() error {
	if f.Peers != nil && (len(f.Peers) == 0 || len(f.Peers) > MaxPeers) {
		return refuse("peers", "must be a list of 1 to %d ids of nodes, or %q for HTTP; leave it out for all other nodes", MaxPeers, Clients)
	}
	for i, id := range f.Peers {
		if !isID(id) {
			return refuse("peers", "has %q in it, but an id is 1 to %d of A-Z a-z 0-9 . _ -", clip(id), maxID)
		}
		if slices.Contains(f.Peers[:i], id) {
			return refuse("peers", "has %s in it twice", id)
		}
	}
	switch f.Direction {
	case "", Out, In, Both:
	default:
		return refuse("direction", "must be %s, %s or %s, not %q", Out, In, Both, clip(string(f.Direction)))
	}
	if f.Path != "" && !isPath(f.Path) {
		return refuse("path", "must be 1 to %d printable ASCII characters, the first of them a slash, not %q", MaxPath, clip(f.Path))
	}
	return nil
}

// mayLast says whether a fault may have no duration.
func (f *form) mayLast() bool { return f.kind == Kill || f.kind == Stop }

// boundsOf a number of this kind.
func (f *form) boundsOf(name string) (bounds, bool) {
	if name == "percent" {
		return f.percent, true
	}
	b, ok := boundsOf[name]
	return b, ok
}

// String lists the fields.
func (f *form) String() string {
	text := strings.Join(append(slices.Clone(f.fields[:f.required]), "duration_ms"), ", ")
	if rest := f.fields[f.required:]; len(rest) > 0 {
		text += " and, if wanted, " + strings.Join(rest, ", ")
	}
	return text
}

// isID accepts what can be the id of a node.
func isID(text string) bool {
	return text != "" && len(text) <= maxID && strings.Trim(text, inID) == ""
}

const inID = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

func isPath(text string) bool {
	return len(text) <= MaxPath && text[0] == '/' && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// clip shortens text of a stranger for a message.
func clip(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// String is the fault as a person would say it: "cut out to n2 for 2.5s".
func (f Fault) String() string {
	parts := []string{string(f.Kind)}
	add := func(given bool, format string, args ...any) {
		if given {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(f.Kind == DropReply, "%d", f.Count)
	add(f.Path != "", "of %s", f.Path)
	add(f.Percent != 0, "%d%%", f.Percent)
	add(f.DelayMillis != 0, "by %v", f.Delay())
	add(f.JitterMillis != 0, "to %v", f.Delay()+f.Jitter())
	add(f.ShiftMillis != 0, "by %v", f.Shift())
	if f.Kind.OfLink() {
		peers := "all nodes"
		if len(f.Peers) > 0 {
			peers = strings.Join(f.Peers, ",")
		}
		switch f.Direction {
		case Out:
			add(true, "what goes to %s", peers)
		case In:
			add(true, "what comes from %s", peers)
		default:
			add(true, "to and from %s", peers)
		}
	}
	add(f.DurationMillis != 0, "for %v", f.Duration())
	return strings.Join(parts, " ")
}
