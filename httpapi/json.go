package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"leasehold/lease"
)

// object reads one JSON object whose members are strings, integers, booleans and
// lists of flat objects: all that requests consist of. It keeps no stack, since it
// refuses any other nested value at its first byte, so depth is no attack.
//
// encoding/json cannot be told to be strict about the case of names, about
// duplicates, null and broken text, and passing over the body again to find
// those costs more than reading it once, here.
type object struct {
	data  []byte
	pos   int
	field string // the member being read, "body" between members
}

// fields are the members that an object may have.
type fields struct {
	names    []string
	required int // so many of the first
}

// readObject calls member for each member of the object in data, with o before
// its value. member reads the value by one of the methods of o. Every error is a
// *lease.FieldError.
func readObject(data []byte, known fields, member func(o *object, name string) error) error {
	o := &object{data: data, field: "body"}
	if o.space(); o.pos == len(data) {
		return o.refuse("is empty; send one JSON object with the fields %s", known)
	}
	if !o.take('{') {
		return o.refuse("must be one JSON object with the fields %s", known)
	}
	if err := o.members(known, func(name string) error { return member(o, name) }); err != nil {
		return err
	}
	if o.space(); o.pos != len(data) {
		return o.refuse("goes on after the end of the JSON object, at byte %d", o.pos)
	}
	return nil
}

// members reads up to the closing brace.
func (o *object) members(known fields, member func(string) error) error {
	seen, err := o.pairs(known, member)
	if err != nil {
		return err
	}
	for i, name := range known.names[:known.required] {
		if seen&(1<<i) == 0 {
			return &lease.FieldError{Field: name, Detail: "is missing; required: " + strings.Join(known.names[:known.required], ", ")}
		}
	}
	return nil
}

// list reads a list of 1 to most flat objects. For each of them next gives what
// reads its members. The fields in errors are like "renewals[3].token".
func (o *object) list(most int, known fields, next func() func(string) error) error {
	list := o.field
	if !o.take('[') {
		return o.wrongType(fmt.Sprintf("a list of 1 to %d objects", most))
	}
	for i := 0; ; i++ {
		o.space()
		switch {
		case i == 0 && o.take(']'):
			return o.refuse("is empty; it must have 1 to %d objects", most)
		case i == most:
			return o.refuse("has more than %d objects", most)
		}
		o.field = fmt.Sprintf("%s[%d]", list, i)
		if !o.take('{') {
			return o.wrongType("an object with the fields " + known.String())
		}
		place := o.field
		if err := o.members(known, next()); err != nil {
			return within(place, err)
		}
		o.field = list
		o.space()
		if o.take(']') {
			return nil
		}
		if !o.take(',') {
			return o.broken("a comma or a closing bracket is missing")
		}
	}
}

// within is an error of a member of an object that is itself a part of another.
func within(place string, err error) error {
	bad, ok := errors.AsType[*lease.FieldError](err)
	if !ok || bad.Field == "body" {
		return err
	}
	return &lease.FieldError{Field: place + "." + bad.Field, Detail: bad.Detail}
}

// pairs reads names and values up to the closing brace. Bit i of seen stands for
// name i.
func (o *object) pairs(known fields, member func(string) error) (seen uint64, err error) {
	if o.space(); o.take('}') {
		return 0, nil
	}
	for {
		i, err := o.name(known)
		if err != nil {
			return 0, err
		}
		name := known.names[i]
		if seen&(1<<i) != 0 {
			return 0, &lease.FieldError{Field: name, Detail: "is given twice"}
		}
		seen |= 1 << i

		o.field = name
		if err := member(name); err != nil {
			return 0, err
		}
		o.field = "body"

		o.space()
		if o.take('}') {
			return seen, nil
		}
		if !o.take(',') {
			return 0, o.broken("a comma or a closing brace is missing")
		}
		o.space()
	}
}

// name reads the name of a member up to its value, and returns its place among
// the known ones.
func (o *object) name(known fields) (int, error) {
	if o.peek() != '"' {
		return 0, o.broken("the name of a field, in double quotes, is missing")
	}
	text, err := o.text()
	if err != nil {
		return 0, err
	}
	o.space()
	if !o.take(':') {
		return 0, o.broken("a colon is missing")
	}
	o.space()
	if len(text) == 0 {
		return 0, o.refuse("has a field without a name")
	}
	for i, name := range known.names {
		if string(text) == name {
			return i, nil
		}
	}
	for _, name := range known.names {
		if strings.EqualFold(string(text), name) {
			return 0, &lease.FieldError{Field: clip(string(text)), Detail: fmt.Sprintf("is not a field; did you mean %q? Names are exact", name)}
		}
	}
	return 0, &lease.FieldError{Field: clip(string(text)), Detail: fmt.Sprintf("is not a field of this request, which has %s", known)}
}

// string reads a string.
func (o *object) string() (string, error) {
	if o.peek() != '"' {
		return "", o.wrongType("a string")
	}
	text, err := o.text()
	return string(text), err
}

// boolean reads true or false.
func (o *object) boolean() (bool, error) {
	for _, value := range []bool{true, false} {
		if o.takeWord(strconv.FormatBool(value)) {
			return value, nil
		}
	}
	return false, o.wrongType("true or false")
}

// integer reads a whole number. A fraction or an exponent is refused even where
// its value is whole: it comes from a program that counts in floats.
func (o *object) integer(within bounds) (uint64, error) {
	start := o.pos
	for o.pos < len(o.data) && strings.IndexByte("+-.0123456789eE", o.data[o.pos]) >= 0 {
		o.pos++
	}
	raw := o.data[start:o.pos]
	if len(raw) == 0 {
		return 0, o.wrongType(within.String())
	}
	n, ok := within.parse(string(raw))
	switch {
	case ok:
		return n, nil
	case !json.Valid(raw):
		return 0, o.broken("%s is no number", clip(string(raw)))
	}
	return 0, within.refuse(o.field, clip(string(raw)))
}

func (o *object) space() {
	for o.pos < len(o.data) && strings.IndexByte(" \t\r\n", o.data[o.pos]) >= 0 {
		o.pos++
	}
}

// peek is the next byte, 0 at the end.
func (o *object) peek() byte {
	if o.pos == len(o.data) {
		return 0
	}
	return o.data[o.pos]
}

func (o *object) take(c byte) bool {
	if o.peek() != c {
		return false
	}
	o.pos++
	return true
}

func (o *object) takeWord(word string) bool {
	if !bytes.HasPrefix(o.data[o.pos:], []byte(word)) {
		return false
	}
	o.pos += len(word)
	return true
}

// wrongType says what stands where something else was expected.
func (o *object) wrongType(want string) error {
	got := ""
	switch c := o.peek(); {
	case c == '"':
		got = "a string"
	case c == '{':
		got = "an object"
	case c == '[':
		got = "an array"
	case c == '-' || c >= '0' && c <= '9':
		got = "a number"
	case o.takeWord("true") || o.takeWord("false"):
		got = "a boolean"
	case o.takeWord("null"):
		got = "null; leave a field out that has no value"
	default:
		return o.broken("no value starts here")
	}
	return o.refuse("must be %s, not %s", want, got)
}

// broken refuses what is not JSON at all.
func (o *object) broken(format string, args ...any) error {
	return o.refuse("is not valid JSON at byte %d: %s", o.pos, fmt.Sprintf(format, args...))
}

func (o *object) refuse(format string, args ...any) error {
	return &lease.FieldError{Field: o.field, Detail: fmt.Sprintf(format, args...)}
}

func (f fields) String() string {
	text := strings.Join(f.names[:f.required], ", ")
	if f.required < len(f.names) {
		text += " and, if wanted, " + strings.Join(f.names[f.required:], ", ")
	}
	return text
}
