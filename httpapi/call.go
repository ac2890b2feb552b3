package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"leasehold/cluster"
	"leasehold/lease"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

// call is one request on its way to a handler: routed, with its query parsed
// and, unless it is a GET, its body read.
type call struct {
	r     *http.Request
	query map[string]string
	// body lies in buf, so handlers keep nothing of it when they return.
	body []byte
	buf  *bytes.Buffer
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readBody reads the whole body within the deadline that ServeHTTP has set.
func (c *call) readBody(w http.ResponseWriter) error {
	c.buf = buffers.Get().(*bytes.Buffer)
	c.buf.Reset()
	_, err := c.buf.ReadFrom(http.MaxBytesReader(w, c.r.Body, maxBody))
	if err == nil {
		c.body = c.buf.Bytes()
		// From here on it is the client who waits, and the deadline must not cut
		// its answer. net/http lifts it too, but does not promise to. After an
		// error it stays, for net/http may read on, to the end of the body.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return nil
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return fmt.Errorf("%w: at most %d bytes are taken", errBodyTooLarge, maxBody)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w: it must arrive within %v", errBodyTimeout, bodyTimeout)
	}
	return &lease.FieldError{Field: "body", Detail: fmt.Sprintf("did not arrive whole: %v", err)}
}

// noBody refuses a body where there is nothing to say in it.
func (c *call) noBody() error {
	if len(c.body) > 0 {
		return &lease.FieldError{Field: "body", Detail: "is not expected; this call takes none"}
	}
	return nil
}

// free gives the buffer back.
func (c *call) free() {
	if c.buf != nil {
		buffers.Put(c.buf)
		c.buf, c.body = nil, nil
	}
}

// consistency of a read, linearizable unless the query says otherwise.
func (c *call) consistency() (cluster.Consistency, error) {
	text, ok := c.query["consistency"]
	if !ok {
		return cluster.Linearizable, nil
	}
	switch as := cluster.Consistency(text); as {
	case cluster.Linearizable, cluster.Stale:
		return as, nil
	}
	return "", &lease.FieldError{
		Field:  "consistency",
		Detail: fmt.Sprintf("must be %s or %s, not %q", cluster.Linearizable, cluster.Stale, clip(text)),
	}
}

// integer is a whole number in the query, or absent if the query has none.
func (c *call) integer(name string, within bounds, absent uint64) (uint64, error) {
	text, ok := c.query[name]
	if !ok {
		return absent, nil
	}
	n, ok := within.parse(text)
	if !ok {
		return 0, within.refuse(name, fmt.Sprintf("%q", clip(text)))
	}
	return n, nil
}

// pageSize is the limit of a list.
func (c *call) pageSize() (int, error) {
	n, err := c.integer("limit", bounds{"a whole number", 1, cluster.MaxPage}, 100)
	return int(n), err
}

// partOfName is the beginning of a name in the query, perhaps empty.
func (c *call) partOfName(param string) (string, error) {
	text := c.query[param]
	if text == "" {
		return "", nil
	}
	err := lease.CheckName(text)
	if err == nil || lease.CheckName(text+"x") == nil { // "jobs/" is no name, but begins some
		return text, nil
	}
	return "", inField(param, err)
}
