package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"

	"leasehold/lease"
)

// answer is what a handler has to say when all went well.
type answer struct {
	body any    // marshalled to JSON, or
	text string // plain text
	at   position
}

// position is a place in the log: that of the state, or of the entry, that an
// answer was made from. The zero position stands for what this node has applied.
type position struct{ term, index uint64 }

func positionOf(e lease.Entry) position { return position{e.Term, e.Index} }

func (s *Server) writeAnswer(w http.ResponseWriter, a answer) {
	if a.body == nil {
		s.write(w, http.StatusOK, "text/plain; charset=utf-8", []byte(a.text), a.at)
		return
	}
	s.writeJSON(w, http.StatusOK, "application/json", a.body, a.at)
}

func (s *Server) writeJSON(w http.ResponseWriter, status int, contentType string, body any, at position) {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // the types of package wire can all be marshalled
	}
	s.write(w, status, contentType, append(data, '\n'), at)
}

// write sends the whole response. The names in the map are in the form that
// net/http gives to all of them.
func (s *Server) write(w http.ResponseWriter, status int, contentType string, body []byte, at position) {
	if at == (position{}) {
		at = positionOf(s.backend.Applied())
	}
	h := w.Header()
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["Cache-Control"] = []string{"no-store"} // it was true at that index
	h["X-Leasehold-Node"] = s.node
	h["X-Leasehold-Term"] = []string{strconv.FormatUint(at.term, 10)}
	h["X-Leasehold-Index"] = []string{strconv.FormatUint(at.index, 10)}
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		s.log.Debug("could not write an answer", "error", err)
	}
}
