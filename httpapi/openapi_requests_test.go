package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"leasehold/faults"
	"leasehold/lease"
)

// The description and the decoders are of one mind about bodies and queries:
// values at their bounds and beyond, of other types, absent and unknown.
func TestOpenAPI_RequestsAreJudgedAlike(t *testing.T) {
	for _, fault := range described(t).requestsJudgedOtherwise(t) {
		t.Error(fault)
	}
}

func (d *document) requestsJudgedOtherwise(t *testing.T) (faults []string) {
	for key, request := range requestTypes {
		o := d.operations[key]
		if o == nil || o.body == nil {
			faults = append(faults, key+" has no body")
			continue
		}
		bodies := bodiesOf(request.fields, "")
		if key == "POST /v1/faults" {
			for _, kind := range nodeKinds() {
				names, required := kind.Fields()
				bodies = append(bodies, bodiesOf(fields{append([]string{"fault", "duration_ms"}, names...), 2 + required}, kind)...)
			}
		}
		for _, body := range bodies {
			refused, decoded := o.body.Validate(anyJSON(t, body)), request.decode([]byte(body))
			if (refused == nil) != (decoded == nil) {
				faults = append(faults, fmt.Sprintf("%s: %.300s\nis judged by the description: %v\nby the decoder: %v", key, body, refused, decoded))
			}
		}
	}
	s := newServer(t, newFake())
	for _, rt := range routes {
		if rt.method != "GET" || rt.pattern == "/v1/events" { // it would not end
			continue
		}
		for _, name := range rt.query {
			schema, err := d.compile(parameterPath(d, keyOf(rt), name)...)
			if err != nil {
				faults = append(faults, fmt.Sprintf("%s: %s: %v", keyOf(rt), name, err))
				continue
			}
			target := strings.NewReplacer("{name...}", "a", "{request_id...}", "r").Replace(rt.pattern)
			for _, value := range queryValues {
				var typed any = value
				if intBoundsOf[name].max > 0 && json.Valid([]byte(value)) {
					typed = anyJSON(t, value)
				}
				r := httptest.NewRequest("GET", target, nil)
				r.URL.RawQuery = name + "=" + escape(value)
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if refused := schema.Validate(typed); (refused == nil) != (w.Code == 200) {
					faults = append(faults, fmt.Sprintf("%s: %s=%q is judged by the description: %v, by the server: %d", keyOf(rt), name, value, refused, w.Code))
				}
			}
		}
	}
	return faults
}

func anyJSON(t testing.TB, text string) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

var queryValues = []string{
	"", "0", "1", "2", "1000", "1001", "-1", "x", "18446744073709551615", "18446744073709551616", "linearizable", "stale", "Stale",
	"jobs", "jobs/", "jobs/a", "jobs//a", "/jobs", "a b", "ä", "a/./b", "a/.", ".", "..", "../a", "a..b", "a/.../b", ".a", "a.", "+", "a\x00",
}

// parameterPath is where the schema of a query parameter stands.
func parameterPath(d *document, key, name string) []string {
	method, path, _ := strings.Cut(key, " ")
	list := d.node("paths", path, strings.ToLower(method))["parameters"].([]any)
	for i, p := range list {
		p := p.(map[string]any)
		if d.resolved(p)["name"] != name {
			continue
		}
		if ref, ok := p["$ref"].(string); ok {
			return append(strings.Split(strings.TrimPrefix(ref, "#/"), "/"), "schema")
		}
		return []string{"paths", path, strings.ToLower(method), "parameters", strconv.Itoa(i), "schema"}
	}
	return nil
}

func nodeKinds() []faults.Kind { return faults.NodeKinds() }

// renewals is a list of so many grants. That no two have the same name is more
// than a schema can say.
func renewals(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"name":"jobs/%d","token":1}`, i))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// bodiesOf makes bodies that differ in one field from one with all of them, and
// from one with the required ones.
func bodiesOf(f fields, kind faults.Kind) (bodies []string) {
	good := map[string]string{"name": `"jobs/a"`, "lease": `"jobs/a"`, "holder": `"h"`, "request_id": `"r"`, "value": `"v"`, "reason": `"r"`, "reclaim": `true`, "renewals": renewals(2)}
	maps.Copy(good, map[string]string{"fault": fmt.Sprintf("%q", kind), "peers": `["n2"]`, "direction": `"in"`, "path": `"/v1/acquire"`, "shift_ms": `-1000`})
	values := []string{
		`null`, `true`, `false`, `[]`, `{}`, `""`, `"a"`, `"a b"`, `" "`, `"é"`, `"a/b"`, `"a//b"`, `"/a"`, `"a/"`, `"."`, `".."`, `"..."`, `"a/../b"`, `"..a"`, `"a.."`,
		`"a.b_c:d@e=f+g-h"`, `"a\u0000"`, `"a\nb"`, `"\u200b"`, `"\u00a0"`, `"😀"`, `"~"`, `"\\"`, `"%"`, `"1000"`, `-1`, `0`, `1`, `1.5`, `1000`, `18446744073709551616`,
	}
	values = append(
		values, `[{}]`, `[1]`, `[[]]`, `[{"name":"a"}]`, `[{"name":"a","token":0}]`, `[{"name":"a//b","token":1}]`, `[{"name":"a","token":1,"ttl_ms":1000}]`,
		renewals(lease.MaxRenewals), renewals(lease.MaxRenewals+1),
		`"cut"`, `"kill"`, `"loss"`, `"out"`, `"/"`, `"/a b"`, `["n2","n3"]`, `["n2","n2"]`, `["clients"]`, `["a b"]`, `[""]`, `[null]`, `86400000`, `-86400001`,
		`["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16"]`, `["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]`,
	)
	for name, b := range intBoundsOf {
		good[name] = fmt.Sprint(b.min)
		if name == "percent" {
			good[name] = "50" // which every kind takes that takes any
		}
		values = append(values, fmt.Sprint(b.min), fmt.Sprint(b.max))
		if b.min > 0 {
			values = append(values, fmt.Sprint(b.min-1))
		}
		if b.max < math.MaxUint64 {
			values = append(values, fmt.Sprint(b.max+1))
		}
	}
	for _, b := range textBoundsOf {
		values = append(values, `"`+strings.Repeat("a", b[1])+`"`, `"`+strings.Repeat("a", b[1]+1)+`"`)
	}
	body := func(names []string, changed, value string) string {
		var members []string
		for _, name := range names {
			if name == changed && value == "" {
				continue
			}
			v := good[name]
			if name == changed {
				v = value
			}
			members = append(members, `"`+name+`":`+v)
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	bodies = []string{`null`, `[]`, `"a"`, `1`, `{}`, body(append(slices.Clone(f.names), "other"), "other", `1`)}
	for i, name := range f.names {
		for _, value := range append(values, "") {
			bodies = append(bodies, body(f.names, name, value))
			if names := f.names[:f.required]; i >= f.required {
				bodies = append(bodies, body(append(slices.Clone(names), name), name, value))
			}
		}
	}
	return bodies
}
