package httpapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"

	"leasehold/lease"
)

// answer is what a handler has to say when all went well.
type answer struct {
	body   any                 // marshalled to JSON, or
	text   string              // of contentType, plain if that is empty, or
	stream func(*stream) error // goes on until this returns
	at     position

	contentType string // of text

	// answered, if set, is told whether the client can have got the answer.
	answered func(written bool)
}

// position is a place in the log: that of the state, or of the entry, that an
// answer was made from. The zero position stands for what this node has applied.
type position struct{ term, index uint64 }

func positionOf(e lease.Entry) position { return position{e.Term, e.Index} }

func (s *Server) writeAnswer(w http.ResponseWriter, c *call, a answer) {
	if a.answered != nil {
		s.writeToTheLiving(w, c, a)
		return
	}
	if a.stream != nil {
		s.writeStream(w, c.r, a)
		return
	}
	if a.body == nil {
		s.write(w, http.StatusOK, cmp.Or(a.contentType, "text/plain; charset=utf-8"), []byte(a.text), a.at)
		return
	}
	s.writeJSON(w, http.StatusOK, "application/json", a.body, a.at)
}

// writeToTheLiving writes an answer that counts only if the client is there to
// get it. Once it is on its way it cannot be called back, so whether the client is
// there is asked by the connection itself, right before it sends.
func (s *Server) writeToTheLiving(w http.ResponseWriter, c *call, a answer) {
	written := false
	defer func() { a.answered(written) }()
	conn, real := c.r.Context().Value(connKey{}).(*clientConn)
	if real {
		defer conn.sendIfHere()()
	}
	if c.r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	s.writeJSON(w, http.StatusOK, "application/json", a.body, a.at)
	// A flush hands all of it to the kernel, or fails because the client's side is
	// closed. One that was closed between that look and the sending has reset the
	// connection by now, if it is near; later it may have read the answer first, and
	// then a reset means nothing.
	written = http.NewResponseController(w).Flush() == nil && !(real && conn.isReset())
	if !written {
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) writeJSON(w http.ResponseWriter, status int, contentType string, body any, at position) {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // the types of package wire can all be marshalled
	}
	s.write(w, status, contentType, append(data, '\n'), at)
}

// write sends the whole response.
func (s *Server) write(w http.ResponseWriter, status int, contentType string, body []byte, at position) {
	s.setHeader(w.Header(), contentType, at)
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		s.log.Debug("could not write an answer", "error", err)
	}
}

// setHeader sets what every answer has. The names in the map are in the form that
// net/http gives to all of them.
func (s *Server) setHeader(h http.Header, contentType string, at position) {
	if at == (position{}) {
		at = positionOf(s.backend.Applied())
	}
	h["Content-Type"] = []string{contentType}
	h["Cache-Control"] = []string{"no-store"} // it was true at that index
	if s.lab != nil {
		h["Date"] = []string{s.lab.WallTime().UTC().Format(http.TimeFormat)}
	}
	h["X-Leasehold-Node"] = s.node
	h["X-Leasehold-Term"] = []string{strconv.FormatUint(at.term, 10)}
	h["X-Leasehold-Index"] = []string{strconv.FormatUint(at.index, 10)}
}
