package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"leasehold/cluster"
	"leasehold/faults"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// The description says what the code does, as far as that can be read off the
// code: routes, parameters, bounds, fields, lists of words, codes.
// TestOpenAPI_EveryAnswer compares it with what nodes really answer.
func TestOpenAPI(t *testing.T) {
	for _, fault := range described(t).faults(t) {
		t.Error(fault)
	}
}

// Every node serves the description.
func TestOpenAPI_IsServed(t *testing.T) {
	w := do(t, newServer(t, newFake()), "GET", "/openapi.yaml", "")
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/yaml" || w.Body.String() != description {
		t.Errorf("got %d %s and %d bytes", w.Code, w.Header().Get("Content-Type"), w.Body.Len())
	}
	checkPlace(t, w.Header())
}

// faults lists everything in which the description and the code differ.
func (d *document) faults(t testing.TB) (all []string) {
	for _, check := range []func(testing.TB, *document) []string{
		routeFaults, parameterFaults, requestFaults, wireFaults, wordFaults, codeFaults, replyFaults, exampleFaults,
	} {
		all = append(all, check(t, d)...)
	}
	return all
}

// differ says what is in one list and not in the other.
func differ(what string, described, real []string) (faults []string) {
	for _, x := range described {
		if !slices.Contains(real, x) {
			faults = append(faults, fmt.Sprintf("%s: %q is described and does not exist", what, x))
		}
	}
	for _, x := range real {
		if !slices.Contains(described, x) {
			faults = append(faults, fmt.Sprintf("%s: %q exists and is not described", what, x))
		}
	}
	return faults
}

// keyOf is how the description names a route.
func keyOf(rt route) string {
	return rt.method + " " + strings.NewReplacer("...", "", "{$}", "").Replace(rt.pattern)
}

func routeFaults(_ testing.TB, d *document) []string {
	var real []string
	for _, rt := range routes {
		real = append(real, keyOf(rt))
	}
	return differ("calls", slices.Collect(maps.Keys(d.operations)), real)
}

// boundsOf the schemas of numbers and texts, by the names of fields and
// parameters.
var (
	anyIndex    = bounds{"", 0, math.MaxUint64}
	intBoundsOf = map[string]bounds{
		"ttl_ms": defaultTTL, "wait_ms": waitBounds, "lock_delay_ms": lockDelayBounds, "token": anyToken,
		"duration_ms": {"", 1, uint64(faults.MaxDuration.Milliseconds())}, "delay_ms": {"", 1, uint64(faults.MaxDelay.Milliseconds())},
		"jitter_ms": {"", 1, uint64(faults.MaxDelay.Milliseconds())}, "percent": {"", 1, 200}, "count": {"", 1, faults.MaxCount},
		"limit": {"", 1, cluster.MaxPage}, "since": anyIndex, "from": anyIndex, "Last-Event-ID": anyIndex,
	}
	textBoundsOf = map[string][2]int{
		"name": {1, lease.MaxNameLen}, "lease": {1, lease.MaxNameLen}, "prefix": {0, lease.MaxNameLen}, "after": {0, lease.MaxNameLen},
		"holder": {1, lease.MaxHolderLen}, "request_id": {1, lease.MaxRequestIDLen}, "value": {0, lease.MaxValueLen}, "reason": {1, lease.MaxReasonLen},
		"path": {1, faults.MaxPath}, "id": {1, maxFaultID},
	}
)

const (
	maxShift = int64(faults.MaxShift / time.Millisecond)
	maxPeers = faults.MaxPeers
)

// boundFaults compares the bounds of what a client sends.
func boundFaults(d *document, where, name string, schema map[string]any) (faults []string) {
	s := d.resolved(schema)
	check := func(keyword string, want any) {
		if got := fmt.Sprint(s[keyword]); got != fmt.Sprint(want) && (s[keyword] != nil || fmt.Sprint(want) != "0") {
			faults = append(faults, fmt.Sprintf("%s: %s of %s is %s, want %v", where, keyword, name, got, want))
		}
	}
	switch i, isInt := intBoundsOf[name]; {
	case isInt:
		check("type", "integer")
		check("minimum", i.min)
		check("maximum", i.max)
	case name == "reclaim":
		check("type", "boolean")
	case name == "shift_ms":
		check("type", "integer")
		check("minimum", -maxShift)
		check("maximum", maxShift)
	case name == "fault", name == "direction": // see wordFaults
	case name == "peers":
		check("type", "array")
		check("minItems", 1)
		check("maxItems", maxPeers)
	case name == "renewals":
		check("type", "array")
		check("minItems", 1)
		check("maxItems", lease.MaxRenewals)
		items := d.resolved(s["items"].(map[string]any))
		return append(faults, bodyFaults(d, where+": renewals", items, renewalFields)...)
	case name == "consistency":
		return differ(where+": consistency", texts(s["enum"]), []string{string(cluster.Linearizable), string(cluster.Stale)})
	case name == via:
		check("type", "string")
	default:
		text, known := textBoundsOf[name]
		if !known {
			return []string{fmt.Sprintf("%s: this test does not know the bounds of %s", where, name)}
		}
		check("type", "string")
		check("minLength", text[0])
		check("maxLength", text[1])
	}
	return faults
}

func parameterFaults(_ testing.TB, d *document) (faults []string) {
	for _, rt := range routes {
		o := d.operations[keyOf(rt)]
		if o == nil {
			continue
		}
		real := []string{"query " + via}
		for _, name := range rt.query {
			real = append(real, "query "+name)
		}
		var required []string
		if _, rest, inPath := strings.Cut(rt.pattern, "{"); inPath && rest != "$}" {
			name, _, _ := strings.Cut(rest, ".")
			real, required = append(real, "path "+name), append(required, "path "+name)
		}
		if rt.pattern == "/v1/events" {
			real = append(real, "header Last-Event-ID")
		}
		faults = append(faults, differ(keyOf(rt)+": parameters", slices.Collect(maps.Keys(o.parameters)), real)...)
		faults = append(faults, differ(keyOf(rt)+": required parameters", o.required, required)...)
		for name, schema := range o.parameters {
			_, name, _ := strings.Cut(name, " ")
			faults = append(faults, boundFaults(d, keyOf(rt), name, schema)...)
		}
	}
	// What a parameter is worth that is not there.
	size, _ := new(call).pageSize()
	from, _ := new(call).integer("from", anyIndex, 0)
	as, _ := new(call).consistency()
	for key, want := range map[string]any{"GET /v1/leases query limit": size, "GET /v1/log query from": from, "GET /v1/leases/{name} query consistency": as} {
		call, name, _ := strings.Cut(key, " query ")
		if o := d.operations[call]; o != nil {
			if got := d.resolved(o.parameters["query "+name])["default"]; fmt.Sprint(got) != fmt.Sprint(want) {
				faults = append(faults, fmt.Sprintf("%s: the default is %v, want %v", key, got, want))
			}
		}
	}
	return faults
}

// requestTypes are the bodies of requests: the fields that the decoders know, and
// the type that clients use.
var requestTypes = map[string]struct {
	fields fields
	schema string
	decode func([]byte) error
}{
	"POST /v1/faults":     {faultFields, "FaultRequest", func(b []byte) error { _, err := decodeFault(b); return err }},
	"POST /v1/acquire":    {acquireFields, "AcquireRequest", func(b []byte) error { _, err := decodeAcquire(b, defaultTTL); return err }},
	"POST /v1/renew":      {renewFields, "RenewRequest", func(b []byte) error { _, err := decodeRenew(b, defaultTTL); return err }},
	"POST /v1/renew-many": {renewManyFields, "RenewManyRequest", func(b []byte) error { _, err := decodeRenewMany(b); return err }},
	"POST /v1/release":    {releaseFields, "ReleaseRequest", func(b []byte) error { _, err := decodeRelease(b); return err }},
	"POST /v1/revoke":     {revokeFields, "RevokeRequest", func(b []byte) error { _, err := decodeRevoke(b); return err }},
	"PUT /v1/registers/{name}": {writeFields, "WriteRequest", func(b []byte) error {
		_, err := decodeWrite("a", b)
		return err
	}},
}

// faultFields are those of all kinds of faults together.
var faultFields = fields{[]string{"fault", "duration_ms", "peers", "direction", "delay_ms", "jitter_ms", "percent", "count", "path", "shift_ms"}, 2}

func requestFaults(_ testing.TB, d *document) (faults []string) {
	for key, o := range d.operations {
		request, takes := requestTypes[key]
		if takes != (o.method != "GET" && o.method != "DELETE") {
			faults = append(faults, fmt.Sprintf("%s: this test does not know its body", key))
		}
		if takes != (o.body != nil) {
			faults = append(faults, fmt.Sprintf("%s: a body is described: %v, want %v", key, o.body != nil, takes))
		}
		if !takes {
			continue
		}
		schema := d.node("components", "schemas", request.schema)
		at := []string{"paths", o.path, strings.ToLower(o.method), "requestBody"}
		if ref := d.node(append(at, "content", "application/json", "schema")...)["$ref"]; ref != "#/components/schemas/"+request.schema || d.node(at...)["required"] != true {
			faults = append(faults, fmt.Sprintf("%s: its body is %v, want a required %s", key, ref, request.schema))
		}
		faults = append(faults, bodyFaults(d, key, schema, request.fields)...)
	}
	return faults
}

// bodyFaults compares the schema of an object with the fields that its decoder
// knows.
func bodyFaults(d *document, where string, schema map[string]any, known fields) (faults []string) {
	properties, _ := schema["properties"].(map[string]any)
	faults = append(faults, differ(where+": fields", slices.Collect(maps.Keys(properties)), known.names)...)
	faults = append(faults, differ(where+": required fields", texts(schema["required"]), known.names[:known.required])...)
	if schema["additionalProperties"] != false {
		faults = append(faults, where+": other fields are refused, which is not described")
	}
	for name, property := range properties {
		faults = append(faults, boundFaults(d, where, name, property.(map[string]any))...)
	}
	return faults
}

// codeFaults compares the codes, and the statuses they come with, with the table
// in problem.go and with the constants that fill its empty places.
func codeFaults(t testing.TB, d *document) (faults []string) {
	real := make(map[string]bool)
	for _, r := range table {
		if r.code != "" {
			real[fmt.Sprint(r.status, " ", r.code)] = true
		}
	}
	for _, code := range constants(t, "../cluster", "Reason") {
		real["503 "+code] = true
	}
	for _, code := range limitCodes(t) {
		real["429 "+code] = true
	}
	var codes, listed []string
	for _, code := range d.codes() {
		_, code, _ := strings.Cut(code, " ")
		codes = append(codes, code)
	}
	either, _ := d.node("components", "schemas", "Code")["oneOf"].([]any)
	for _, one := range either {
		code, _ := one.(map[string]any)
		listed = append(listed, fmt.Sprint(code["const"]))
		if code["description"] == nil {
			faults = append(faults, fmt.Sprintf("the code %v has no description", code["const"]))
		}
	}
	faults = append(faults, differ("codes", d.codes(), slices.Collect(maps.Keys(real)))...)
	return append(faults, differ("list of codes", listed, codes)...)
}

// codes lists those that are described, each with its status.
func (d *document) codes() (all []string) {
	d.eachReply(func(_ string, status int, r *reply) {
		for _, code := range r.codes {
			all = append(all, fmt.Sprint(status, " ", code))
		}
	})
	return all
}

func (d *document) eachReply(do func(where string, status int, r *reply)) {
	for status, r := range d.elsewhere {
		do(fmt.Sprint(status), status, r)
	}
	for key, o := range d.operations {
		for status, r := range o.replies {
			do(fmt.Sprint(key, " ", status), status, r)
		}
	}
}

// replyFaults checks what every reply of a status must have.
func replyFaults(t testing.TB, d *document) (faults []string) {
	d.eachReply(func(where string, status int, r *reply) {
		want := []string{"X-Leasehold-Node", "X-Leasehold-Term", "X-Leasehold-Index"}
		switch {
		case status == 307:
			want = append(want, "Location")
		case status == 405:
			want = append(want, "Allow")
		case slices.Contains(r.needs, "retry_after_ms"):
			want = append(want, "Retry-After")
		}
		faults = append(faults, differ(where+": headers", slices.Collect(maps.Keys(r.headers)), want)...)
		if (r.media == "application/problem+json") != (status >= 300) {
			faults = append(faults, fmt.Sprintf("%s: its content type is %s", where, r.media))
		}
		if status < 300 {
			return
		}
		if len(r.codes) == 0 {
			faults = append(faults, where+": it has no code")
			return
		}
		other, _ := json.Marshal(wire.Problem{Type: "about:blank", Status: status + 1, Code: r.codes[0]})
		if err := r.schema.Validate(anyJSON(t, string(other))); err == nil || !strings.Contains(err.Error(), "'/status'") {
			faults = append(faults, where+": a body with another status is allowed")
		}
	})
	return faults
}

// printedOnPage is every JSON body in docs/API.md.
var printedOnPage = sync.OnceValues(func() (bodies []any, err error) {
	page, err := os.ReadFile("../docs/API.md")
	for line := range strings.Lines(strings.ReplaceAll(string(page), "\n ", "")) {
		if body, err := jsonschema.UnmarshalJSON(strings.NewReader(line)); err == nil {
			bodies = append(bodies, body)
		}
	}
	return bodies, err
})

// exampleFaults holds the examples against their own schemas, and looks for each
// among what the lines of docs/API.md print, which a test in package cli runs
// against real nodes.
func exampleFaults(t testing.TB, d *document) (faults []string) {
	printed, err := printedOnPage()
	if err != nil {
		t.Fatal(err)
	}
	d.eachReply(func(where string, _ int, r *reply) {
		for name, example := range r.examples {
			value := example.(map[string]any)["value"]
			if r.schema == nil || r.schema.Validate(value) != nil {
				faults = append(faults, fmt.Sprintf("%s: the example %s is not as described", where, name))
			}
			if !slices.ContainsFunc(printed, func(p any) bool { return reflect.DeepEqual(p, value) }) {
				faults = append(faults, fmt.Sprintf("%s: the example %s is not printed in docs/API.md", where, name))
			}
		}
	})
	return faults
}

// docs/API.md lists every code with its status, and every field of an acquire with
// its bounds.
func TestOpenAPI_Page(t *testing.T) {
	page, err := os.ReadFile("../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string) // of all tables, by the first code in them
	var codes []string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		rows[strings.Trim(cells[1], " `")] = line
		if status, err := strconv.Atoi(strings.TrimSpace(cells[1])); err == nil {
			codes = append(codes, fmt.Sprint(status, " ", strings.Trim(cells[2], " `")))
		}
	}
	for _, fault := range differ("codes of docs/API.md", codes, described(t).codes()) {
		t.Error(fault)
	}
	for _, name := range acquireFields.names {
		row := rows[name]
		if row == "" {
			t.Errorf("docs/API.md: the field %s of an acquire is missing", name)
		}
		var want []string
		if b, ok := intBoundsOf[name]; ok {
			want = []string{fmt.Sprint(b.min), fmt.Sprint(b.max)}
		} else if b, ok := textBoundsOf[name]; ok {
			want = []string{fmt.Sprint(b[1])}
		}
		for _, n := range want {
			if !strings.Contains(row, n) {
				t.Errorf("docs/API.md: the row of %s does not say %s", name, n)
			}
		}
	}
}
