package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// answered is one answer of a server.
type answered struct {
	method, path string // of the request, the path as it was sent
	status       int
	header       http.Header
	body         []byte
	undecided    bool // the backend made up an error, perhaps one that no node has for this call
}

// find returns the operation that a request is for, and which methods its path
// has; none, if it is no path of the description.
func (d *document) find(method, path string) (o *operation, methods []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, known := range d.operations {
		start, _, open := strings.Cut(known.path, "{")
		if path != known.path && !(open && strings.HasPrefix(path, start)) {
			continue
		}
		methods = append(methods, known.method)
		if known.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		if known.method == method {
			o = known
		}
	}
	slices.Sort(methods)
	return o, methods
}

// judge says which of the described answers this is, and what about it is not as
// described.
func (d *document) judge(a answered) (key string, faults []string) {
	o, methods := d.find(a.method, a.path)
	name, replies := a.method+" "+a.path, d.elsewhere
	kind := 0 // which reply there must be
	switch {
	case !isClean(a.path):
		kind = 400
	case o == nil && a.status == 403 && a.method != "GET" && a.method != "HEAD":
		kind = 403
	case methods == nil:
		kind = 404
	case o == nil:
		kind = 405
	default:
		name, replies, kind = o.method+" "+o.path, o.replies, a.status
	}
	key = fmt.Sprint(name, " ", a.status)
	r, code := replies[kind], a.code()
	if code != "" {
		key += " " + code
	}
	if a.undecided && a.status >= 300 && (r == nil || !slices.Contains(r.codes, code)) {
		return key, d.anyProblem.judgeBody(a)
	}
	if r == nil || kind != a.status {
		return key, []string{fmt.Sprintf("status %d is not described", a.status)}
	}
	if kind == 405 && a.header.Get("Allow") != strings.Join(methods, ", ") {
		faults = append(faults, fmt.Sprintf("Allow is %q, described are %v", a.header.Get("Allow"), methods))
	}
	faults = append(faults, r.judgeHeader(a.header)...)
	if a.method == http.MethodHead && len(a.body) == 0 {
		return key, faults
	}
	return key, append(faults, r.judgeBody(a)...)
}

// code of a problem.
func (a answered) code() string {
	var problem struct{ Code string }
	if a.status >= 300 {
		_ = json.Unmarshal(a.body, &problem) // what is no problem will be refused by the schema
	}
	return problem.Code
}

func (r *reply) judgeHeader(h http.Header) (faults []string) {
	if got := h.Get("Content-Type"); got != r.media {
		faults = append(faults, fmt.Sprintf("the content type is %q, described is %q", got, r.media))
	}
	for name, schema := range r.headers {
		var value any = h.Get(name)
		if n := json.Number(h.Get(name)); schema.Types == nil || slices.Contains(schema.Types.ToStrings(), "integer") {
			if _, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
				value = n
			}
		}
		if h.Get(name) == "" {
			faults = append(faults, "the header "+name+" is described and missing")
		} else if err := schema.Validate(value); err != nil {
			faults = append(faults, fmt.Sprintf("the header %s: %v", name, err))
		}
	}
	for _, name := range []string{"Location", "Retry-After", "Allow"} {
		if r.headers[name] == nil && h.Get(name) != "" && r.headers["X-Leasehold-Node"] != nil {
			faults = append(faults, "the header "+name+" is there and not described")
		}
	}
	return faults
}

func (r *reply) judgeBody(a answered) []string {
	if r.events != nil {
		return r.judgeStream(a.body)
	}
	if r.schema == nil {
		return nil
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	if err == nil {
		err = r.schema.Validate(body)
	}
	if err != nil {
		return []string{fmt.Sprintf("%v in %s", err, a.body)}
	}
	return nil
}

// judgeStream judges those server-sent events that have come whole.
func (r *reply) judgeStream(stream []byte) (faults []string) {
	frames := strings.Split(string(stream), "\n\n")
	for _, frame := range frames[:len(frames)-1] {
		var got sent
		for line := range strings.SplitSeq(frame, "\n") {
			switch name, value, _ := strings.Cut(line, ": "); name {
			case "id":
				got.id = value
			case "event":
				got.event = value
			case "data":
				got.data = value
			default:
				faults = append(faults, fmt.Sprintf("the line %q of the stream is not described", line))
			}
		}
		schema := r.events[got.event]
		if schema == nil {
			schema = r.events["default"]
		}
		data, err := jsonschema.UnmarshalJSON(strings.NewReader(got.data))
		if err == nil {
			err = schema.Validate(data)
		}
		object, _ := data.(map[string]any)
		if err == nil && r.events[got.event] == nil && (fmt.Sprint(object["index"]) != got.id || object["kind"] != got.event) {
			err = fmt.Errorf("id %q and event %q are not those of the data", got.id, got.event)
		}
		if err == nil && r.events[got.event] != nil && got.id != "" {
			err = fmt.Errorf("it has the id %q", got.id)
		}
		if err != nil {
			faults = append(faults, fmt.Sprintf("event %s: %v in %s", got.event, err, got.data))
		}
	}
	return faults
}

// witness stands before a server in a test and holds every answer against the
// description. What a test makes its backend say is believed to be possible only
// as far as it is no error: which errors a node has for which call is shown by
// TestOpenAPI_EveryAnswer, with real nodes.
type witness struct {
	t      testing.TB
	server *Server
}

func (x witness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := answered{method: r.Method, path: r.URL.EscapedPath()}
	switch b := x.server.backend.(type) {
	case *fakeBackend:
		a.undecided = b.err != nil
	case *eventBackend:
		a.undecided = b.err != nil
	}
	tape := &tape{ResponseWriter: w}
	x.server.ServeHTTP(tape, r) // does not return if there was no answer
	a.status, a.header, a.body = tape.status, w.Header(), tape.body.Bytes()
	key, faults := described(x.t).judge(a)
	for _, fault := range faults {
		x.t.Errorf("openapi.yaml: %s: %s", key, fault)
	}
}

// tape keeps what is written.
type tape struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *tape) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *tape) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.body.Write(p[:n])
	return n, err
}

func (w *tape) Unwrap() http.ResponseWriter { return w.ResponseWriter }
