package transport

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

var someHello = Hello{
	ID: "n1", Address: "127.0.0.1:8001", Incarnation: "a7", ClusterID: "c1",
	Founders: map[string]string{"n1": "a7", "n2": "b8"},
	Formed:   true, Running: true, Term: 3, LastIndex: 17,
}

// A Hello comes out of a frame as it went in, however the bytes trickle in.
func TestFrame_RoundTrip(t *testing.T) {
	f, err := newFrame(kindRaft, someHello)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readFrame(iotest.OneByteReader(bytes.NewReader(f.bytes())))
	if err != nil {
		t.Fatal(err)
	}
	if hello, err := got.hello(); err != nil || !reflect.DeepEqual(hello, someHello) {
		t.Errorf("hello: got %+v, %v, want %+v", hello, err, someHello)
	}
	if channel, err := got.channel(); err != nil || channel != ChannelRaft {
		t.Errorf("channel: got %q, %v, want %q", channel, err, ChannelRaft)
	}
}

// A frame that ends early is told from one that never began and from other
// protocols.
func TestReadFrame_Errors(t *testing.T) {
	whole := string(frame{version, kindRaft, []byte("{}")}.bytes())
	tests := map[string]struct {
		in   string
		want error
	}{
		"nothing":        {"", io.EOF},
		"half the magic": {whole[:2], io.ErrUnexpectedEOF},
		"the magic only": {whole[:4], io.ErrUnexpectedEOF},
		"half a header":  {whole[:7], io.ErrUnexpectedEOF},
		"no body":        {whole[:8], io.ErrUnexpectedEOF},
		"half a body":    {whole[:9], io.ErrUnexpectedEOF},
		"HTTP":           {"HTTP/1.1 400 Bad Request\r\n\r\n", errNotNode},
		"wrong magic":    {"\x00LSX" + whole[4:], errNotNode},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := readFrame(strings.NewReader(test.in)); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// What does not fit is an error where it is made, not a broken frame where it
// is read; a long reason is shortened instead, to valid UTF-8.
func TestFrame_TooLong(t *testing.T) {
	if _, err := newFrame(kindRaft, Hello{ID: strings.Repeat("x", maxBody)}); err == nil {
		t.Error("a hello of more than 64 KiB: no error")
	}
	f, err := newRefusal(errors.New(strings.Repeat("€", maxBody)), someHello)
	if err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if _, err := f.answered("n1:1"); !errors.As(err, &refused) {
		t.Fatalf("got %v, want a *RefusedError", err)
	}
	if len(refused.Text) > maxRefusal+len("…") || !utf8.ValidString(refused.Text) || strings.ContainsRune(refused.Text, utf8.RuneError) {
		t.Errorf("got a text of %d bytes, valid: %v", len(refused.Text), utf8.ValidString(refused.Text))
	}
}

// Whatever comes in, reading a frame does not panic, takes no byte that is not
// the frame's, and a frame that was read is the one that was sent.
func FuzzPreamble(f *testing.F) {
	hello, err := newFrame(kindProbe, someHello)
	if err != nil {
		f.Fatal(err)
	}
	refused, err := newRefusal(errors.New("another cluster"), someHello)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(hello.bytes())
	f.Add(append(refused.bytes(), "what follows"...))
	f.Add(frame{version + 1, 9, []byte("?")}.bytes())
	f.Add([]byte(magic + "\x01\x01\xff\xff{"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("\x16\x03\x01"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		got, err := readFrame(r)
		if err != nil {
			return
		}
		taken := in[:len(in)-r.Len()]
		if !bytes.Equal(got.bytes(), taken) {
			t.Errorf("took % x but read % x", taken, got.bytes())
		}
		got.channel()
		if err := got.checkVersion(); (err == nil) != (got.version == version) {
			t.Errorf("version %d: got error %v", got.version, err)
		}
		if hello, err := got.answered("n1:1"); err == nil && got.kind != kindOK {
			t.Errorf("kind %d was taken for an ok with %+v", got.kind, hello)
		}
	})
}
