package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"
)

// benchConn is one keep-alive HTTP/1.1 connection that carries one request at a
// time. It is used instead of net/http because load and servers often share a
// machine, and what the load costs is missing from the servers: measured on 2
// cores with 64 clients, net/http takes 34 µs of CPU for a request,
// http.ReadResponse over such a connection 14 µs, this 10 µs.
type benchConn struct {
	conn net.Conn
	r    *bufio.Reader
	host string

	out []byte // the request, kept for its memory
	in  []byte // the body of the answer, likewise
}

// benchCallTimeout bounds one request. A server answers within 2 s.
const benchCallTimeout = 5 * time.Second

// benchMaxBody bounds an answer; those of the calls made here are below 10 KB.
const benchMaxBody = 1 << 20

func dialBench(ctx context.Context, address string) (*benchConn, error) {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return newBenchConn(conn, address), nil
}

func newBenchConn(conn net.Conn, host string) *benchConn {
	return &benchConn{conn: conn, r: bufio.NewReader(conn), host: host}
}

func (c *benchConn) close() { c.conn.Close() }

// post sends a request and gives the status and the body of the answer, which
// is valid until the next call. After an error the connection is of no use.
func (c *benchConn) post(path string, body []byte) (int, []byte, error) {
	if err := c.conn.SetDeadline(time.Now().Add(benchCallTimeout)); err != nil {
		return 0, nil, err
	}
	c.out = append(c.out[:0], "POST "...)
	c.out = append(c.out, path...)
	c.out = append(c.out, " HTTP/1.1\r\nHost: "...)
	c.out = append(c.out, c.host...)
	c.out = append(c.out, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.out = append(c.out, "\r\n\r\n"...)
	c.out = append(c.out, body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, nil, err
	}
	return c.answer()
}

func (c *benchConn) answer() (int, []byte, error) {
	status, err := c.status()
	if err != nil {
		return 0, nil, err
	}
	length, chunked, closes := int64(-1), false, false
	for {
		name, value, err := c.header()
		if err != nil {
			return 0, nil, err
		}
		if name == nil {
			break
		}
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil || length < 0 || length > benchMaxBody {
				return 0, nil, fmt.Errorf("the answer has the length %q", value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(name, []byte("Connection")):
			closes = bytes.EqualFold(value, []byte("close"))
		}
	}
	if err := c.body(length, chunked); err != nil {
		return 0, nil, err
	}
	if closes {
		// The answer counts; the next request fails and finds a new connection.
		c.conn.Close()
	}
	return status, c.in, nil
}

// status reads the line "HTTP/1.1 200 OK".
func (c *benchConn) status() (int, error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	version, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(rest, []byte(" "))
	status, err := strconv.Atoi(string(code))
	if !bytes.HasPrefix(version, []byte("HTTP/1.")) || len(code) != 3 || err != nil || status < 200 {
		return 0, fmt.Errorf("not an HTTP answer: %q", line)
	}
	return status, nil
}

// header reads one header. A nil name is the end of them.
func (c *benchConn) header() (name, value []byte, err error) {
	line, err := c.line()
	if err != nil || len(line) == 0 {
		return nil, nil, err
	}
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return nil, nil, fmt.Errorf("not an HTTP header: %q", line)
	}
	return name, bytes.TrimSpace(value), nil
}

// line reads up to the end of a line, which it leaves out. The line is valid
// until the next read.
func (c *benchConn) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

func (c *benchConn) body(length int64, chunked bool) error {
	switch {
	case chunked:
		body, err := io.ReadAll(io.LimitReader(httputil.NewChunkedReader(c.r), benchMaxBody))
		if err != nil {
			return err
		}
		c.in = body
		for { // trailers, up to an empty line
			name, _, err := c.header()
			if err != nil || name == nil {
				return err
			}
		}
	case length < 0:
		return errors.New("the answer has no length")
	}
	if int64(cap(c.in)) < length {
		c.in = make([]byte, length)
	}
	c.in = c.in[:length]
	_, err := io.ReadFull(c.r, c.in)
	return err
}
