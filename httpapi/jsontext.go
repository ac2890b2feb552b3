package httpapi

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string from its opening quote to its closing one. The result may
// lie in the data.
func (o *object) text() ([]byte, error) {
	o.pos++
	var out []byte // nil until the first escape
	start := o.pos // of what is not in out yet
	for o.pos < len(o.data) {
		switch c := o.data[o.pos]; {
		case c == '"':
			rest := o.data[start:o.pos]
			o.pos++
			if out == nil {
				return rest, nil
			}
			return append(out, rest...), nil
		case c == '\\':
			out = append(out, o.data[start:o.pos]...)
			r, err := o.escape()
			if err != nil {
				return nil, err
			}
			out = utf8.AppendRune(out, r)
			start = o.pos
		case c < ' ':
			return nil, o.broken("a control character in a string must be escaped")
		case c < utf8.RuneSelf:
			o.pos++
		default:
			r, size := utf8.DecodeRune(o.data[o.pos:])
			if r == utf8.RuneError && size == 1 {
				return nil, o.refuse("is not valid UTF-8 at byte %d", o.pos)
			}
			o.pos += size
		}
	}
	return nil, o.broken("a string does not end")
}

// escape reads an escape sequence from its backslash on.
func (o *object) escape() (rune, error) {
	if o.pos+1 >= len(o.data) {
		return 0, o.broken("a string does not end")
	}
	c := o.data[o.pos+1]
	if c == 'u' {
		return o.unicodeEscape()
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return 0, o.broken("there is no such escape")
	}
	o.pos += 2
	return rune("\"\\/\b\f\n\r\t"[i]), nil
}

// unicodeEscape reads \uXXXX, or two of them that make one character. Half of
// such a pair is no character: to replace it, as encoding/json does, would make
// two different holders one.
func (o *object) unicodeEscape() (rune, error) {
	r, ok := o.hex(o.pos)
	if !ok {
		return 0, o.broken(`\u needs four hexadecimal digits`)
	}
	size := len(`\u0000`)
	if utf16.IsSurrogate(r) {
		low, _ := o.hex(o.pos + size)
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return 0, o.refuse(`has half of a surrogate pair at byte %d, which is no character`, o.pos)
		}
		size *= 2
	}
	o.pos += size
	return r, nil
}

// hex is the value of the \uXXXX at pos.
func (o *object) hex(pos int) (rune, bool) {
	end := pos + len(`\u0000`)
	if end > len(o.data) || !bytes.HasPrefix(o.data[pos:], []byte(`\u`)) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(o.data[pos+2:end]), 16, 16)
	return rune(n), err == nil
}
