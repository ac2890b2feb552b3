package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// maxFrameLine bounds a line of a stream in bytes. The longest event of a server
// is far below it.
const maxFrameLine = 1 << 20

// frame is one server-sent event.
type frame struct {
	id, event string
	data      []byte
}

// frames reads the frames of a stream, in the form that the HTML standard gives
// for text/event-stream: lines of "name: value", and an empty line at the end.
type frames struct{ lines *bufio.Scanner }

func newFrames(r io.Reader) *frames {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxFrameLine)
	return &frames{lines}
}

// next reads a frame. A frame that was cut short is none: the error is io.EOF
// after a whole one, and io.ErrUnexpectedEOF within one.
func (f *frames) next() (frame, error) {
	var next frame
	begun := false
	for f.lines.Scan() {
		line := f.lines.Bytes()
		if len(line) == 0 {
			if begun {
				return next, nil
			}
			continue
		}
		begun = true
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			next.id = string(value)
		case "event":
			next.event = string(value)
		case "data":
			if next.data != nil {
				next.data = append(next.data, '\n')
			}
			next.data = append(next.data, value...)
		} // a comment, or what a later version adds
	}
	switch err := f.lines.Err(); {
	case err != nil:
		return frame{}, err
	case begun:
		return frame{}, io.ErrUnexpectedEOF
	}
	return frame{}, io.EOF
}

func (f frame) decode(into any) error {
	if err := json.Unmarshal(f.data, into); err != nil {
		return fmt.Errorf("the data of event %q is not what it should be: %s", f.event, excerpt(f.data))
	}
	return nil
}
