package fence

import (
	"encoding/json"
	"errors"
	"net/http"
)

// Errors that only the middleware has.
var (
	errMissing    = errors.New("a token is required: send the one of your grant in the header " + TokenHeader)
	errNoResource = errors.New("the server does not know which resource this request writes")
)

// problem is the body of a refusal, in the form of leasehold's own.
type problem struct {
	Type         string `json:"type"`
	Title        string `json:"title"`
	Status       int    `json:"status"`
	Code         string `json:"code"`
	Detail       string `json:"detail"`
	Field        string `json:"field,omitempty"`
	Token        uint64 `json:"token,omitempty"`
	HighestToken uint64 `json:"highest_token,omitempty"`
}

// table is where errors get their status and code, and the client is told what
// to do next. The last row matches all.
var table = []struct {
	is     error
	status int
	code   string
	next   string
}{
	{ErrToken, http.StatusBadRequest, "invalid_argument", ""},
	{ErrStale, http.StatusPreconditionFailed, "stale_token", "nothing was written, and nothing with this token ever will be: a newer holder has come"},
	{ErrCluster, http.StatusPreconditionFailed, "wrong_cluster", "nothing was written"},
	{errMissing, http.StatusPreconditionRequired, "token_required", ""},
	{ErrFull, http.StatusTooManyRequests, "too_many_resources", "nothing was written; write to one that is known"},
	{ErrBusy, http.StatusServiceUnavailable, "busy", "nothing was written, ask again"},
	{errNoResource, http.StatusInternalServerError, "no_resource", ""},
}

// writeProblem answers with an error of read or enter.
func writeProblem(w http.ResponseWriter, err error) {
	row := table[len(table)-1]
	for _, r := range table {
		if errors.Is(err, r.is) {
			row = r
			break
		}
	}
	p := problem{Type: "about:blank", Title: http.StatusText(row.status), Status: row.status, Code: row.code, Detail: err.Error()}
	if row.next != "" {
		p.Detail += "; " + row.next
	}
	if row.code == "invalid_argument" {
		p.Field = TokenHeader
	}
	if stale, ok := errors.AsType[*StaleError](err); ok {
		p.Token, p.HighestToken = stale.Token, stale.Highest
	}
	if row.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(row.status)
	_ = json.NewEncoder(w).Encode(p) // a client that has gone cannot be told
}
