package fsm

import (
	"encoding/binary"
	"errors"
)

// errMalformed: the bytes are not an encoding that this version wrote.
var errMalformed = errors.New("malformed encoding")

// writer appends fields: numbers as uvarints, strings with their length before
// them.
type writer struct{ buf []byte }

func (w *writer) num(n uint64) { w.buf = binary.AppendUvarint(w.buf, n) }

func (w *writer) str(s string) {
	w.num(uint64(len(s)))
	w.buf = append(w.buf, s...)
}

func (w *writer) flag(b bool) {
	if b {
		w.num(1)
	} else {
		w.num(0)
	}
}

// reader takes fields off in the same order. After the first malformed field
// bad is set and everything reads as zero, so callers check once, at the end.
type reader struct {
	buf []byte
	bad bool
}

func (r *reader) num() uint64 {
	n, size := binary.Uvarint(r.buf)
	if size <= 0 {
		r.bad, r.buf = true, nil
		return 0
	}
	r.buf = r.buf[size:]
	return n
}

func (r *reader) str() string {
	n := r.num()
	if n > uint64(len(r.buf)) {
		r.bad, r.buf = true, nil
		return ""
	}
	s := string(r.buf[:n])
	r.buf = r.buf[n:]
	return s
}

func (r *reader) flag() bool {
	n := r.num()
	if n > 1 {
		r.bad = true
	}
	return n == 1
}

// done reports whether everything was read and was well formed.
func (r *reader) done() error {
	if r.bad || len(r.buf) > 0 {
		return errMalformed
	}
	return nil
}
