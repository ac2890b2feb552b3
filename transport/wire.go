package transport

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// The channels that a preamble can ask for, as Config.Admit gets to see them.
const (
	ChannelRaft  = "raft"
	ChannelProbe = "probe"
)

// magic begins every frame. Its first byte can begin neither an HTTP request
// (a letter) nor a TLS handshake (0x16).
const magic = "\x00LSH"

// version of the protocol in doc.go.
const version = 1

// Kinds of a preamble.
const (
	kindRaft  byte = 1
	kindProbe byte = 2
)

// Kinds of an answer.
const (
	kindOK      byte = 1
	kindRefused byte = 2
)

// question asks for a fresh Hello on a probe connection.
const question byte = '?'

const (
	headerLen  = len(magic) + 4
	maxBody    = math.MaxUint16
	maxRefusal = 1024 // bytes of a refusal's text that are sent
)

// errNotNode: the bytes are not those of a leasehold node.
var errNotNode = errors.New("what is there does not speak as a leasehold node")

// frame is a preamble or an answer.
type frame struct {
	version byte
	kind    byte
	body    []byte
}

// newFrame makes a frame of this version around the JSON of v. It fails if that
// is longer than a frame can carry.
func newFrame(kind byte, v any) (frame, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return frame{}, err
	}
	if len(body) > maxBody {
		return frame{}, fmt.Errorf("%d bytes to say where a frame carries at most %d", len(body), maxBody)
	}
	return frame{version, kind, body}, nil
}

// bytes is the frame as it goes over the wire. It is sent in one write, so that
// it leaves in one packet.
func (f frame) bytes() []byte {
	b := make([]byte, 0, headerLen+len(f.body))
	b = append(b, magic...)
	b = append(b, f.version, f.kind)
	b = binary.BigEndian.AppendUint16(b, uint16(len(f.body)))
	return append(b, f.body...)
}

// readFrame reads one frame and not a byte beyond it: what follows belongs to
// whoever gets the connection next. It fails with errNotNode as soon as the
// magic is wrong, io.EOF if there was nothing, io.ErrUnexpectedEOF within a frame.
func readFrame(r io.Reader) (frame, error) {
	var header [headerLen]byte
	mark, rest := header[:len(magic)], header[len(magic):]
	if _, err := io.ReadFull(r, mark); err != nil {
		return frame{}, err
	}
	if string(mark) != magic {
		return frame{}, errNotNode
	}
	if _, err := io.ReadFull(r, rest); err != nil {
		return frame{}, noEOF(err)
	}
	f := frame{version: rest[0], kind: rest[1]}
	f.body = make([]byte, binary.BigEndian.Uint16(rest[2:]))
	if _, err := io.ReadFull(r, f.body); err != nil {
		return frame{}, noEOF(err)
	}
	return f, nil
}

// noEOF keeps an end in the middle from looking like a proper one.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkVersion fails with a message that makes sense on both sides.
func (f frame) checkVersion() error {
	if f.version == version {
		return nil
	}
	return fmt.Errorf("the other node speaks version %d of the protocol between nodes, this one version %d: run the same release on both", f.version, version)
}

// hello reads the body of a preamble or an ok. Fields it does not know are
// passed over, so that a later release can add some.
func (f frame) hello() (Hello, error) {
	var h Hello
	if err := json.Unmarshal(f.body, &h); err != nil {
		return Hello{}, fmt.Errorf("the other node's hello is not readable: %w", err)
	}
	return h, nil
}

// sender is the id in a preamble, empty if that cannot be read.
func (f frame) sender() string {
	h, _ := f.hello()
	return h.ID
}

// channel is the name of the channel that a preamble asks for.
func (f frame) channel() (string, error) {
	switch f.kind {
	case kindRaft:
		return ChannelRaft, nil
	case kindProbe:
		return ChannelProbe, nil
	}
	return "", fmt.Errorf("there is no channel %d", f.kind)
}

// RefusedError: the other node was reached, and does not let this one in.
type RefusedError struct {
	Address string // that was dialled
	Text    string // what the other node gave as its reason
	From    Hello  // what it said of itself
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("node at %s refused: %s", e.Address, e.Text)
}

// refusal is the body of a frame of kind refused.
type refusal struct {
	Text string `json:"text"`
	From Hello  `json:"from"`
}

// newRefusal makes the frame that carries the reason to the other node.
func newRefusal(reason error, self Hello) (frame, error) {
	text := reason.Error()
	if len(text) > maxRefusal {
		text = strings.ToValidUTF8(text[:maxRefusal], "") + "…"
	}
	return newFrame(kindRefused, refusal{text, self})
}

// answered reads an answer of the node at address. A refusal is a *RefusedError.
func (f frame) answered(address string) (Hello, error) {
	if err := f.checkVersion(); err != nil {
		return Hello{}, err
	}
	switch f.kind {
	case kindOK:
		return f.hello()
	case kindRefused:
		var r refusal
		if err := json.Unmarshal(f.body, &r); err != nil {
			return Hello{}, fmt.Errorf("the other node's refusal is not readable: %w", err)
		}
		return Hello{}, &RefusedError{Address: address, Text: r.Text, From: r.From}
	}
	return Hello{}, errNotNode
}
