package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"leasehold/lease"
)

// checkRefused sends a request, compares the problem, and ensures that the
// backend never hears of it.
func checkRefused(t *testing.T, method, target, body string, status int, code, field, says string) {
	t.Helper()
	b := newFake()
	w := do(t, newServer(t, b), method, target, body)
	raw := w.Body.String()
	p := problemIn(t, w)
	if p.Status != status || p.Code != code || p.Field != field {
		t.Errorf("got %d %s field %q, want %d %s field %q", p.Status, p.Code, p.Field, status, code, field)
	}
	if !strings.Contains(raw, says) {
		t.Errorf("the detail %q does not say %q", p.Detail, says)
	}
	if len(b.calls) != 0 {
		t.Errorf("the backend was asked: %v", b.calls)
	}
	if len(p.Detail) > 600 {
		t.Errorf("the detail is %d bytes long", len(p.Detail))
	}
}

// Nothing that is not exactly as documented reaches the backend.
func TestServer_HostileInput(t *testing.T) {
	for _, tc := range hostile {
		t.Run(tc.name, func(t *testing.T) {
			checkRefused(t, tc.method, tc.target, tc.body, tc.status, tc.code, tc.field, tc.says)
		})
	}
}

// Numbers that are not whole, in bounds and written as plain digits are refused
// with the bounds, for ttl_ms of both calls and for token.
func TestServer_HostileNumbers(t *testing.T) {
	numbers := []string{
		`0`, `-0`, `-1`, `1.5`, `1000.0`, `1e3`, `1E3`, `1e300`, `-1e300`, `1e-3`, `"1000"`, `""`, `"x"`, `[1000]`, `{"ms":1000}`,
		`18446744073709551616`, `99999999999999999999999999`, strings.Repeat("9", 5000), `0.1e1`,
	}
	ttls := append([]string{
		`1`, `99`, `86400001`, `9223372036854`, `9223372036855`, `9223372036854775807`, `9223372036854775808`,
		`18446744073709551615`, `18446744073710`, // times 1,000,000 these come round to small durations
	}, numbers...)
	for _, n := range ttls {
		t.Run("ttl_ms "+clip(n), func(t *testing.T) {
			const says = "a whole number of milliseconds from 100 to 86400000"
			checkRefused(t, "POST", "/v1/acquire", acquireWith(`1000`, n), 400, "invalid_argument", "ttl_ms", says)
			checkRefused(t, "POST", "/v1/renew", `{"name":"a","holder":"h","token":1,"ttl_ms":`+n+`}`, 400, "invalid_argument", "ttl_ms", says)
		})
	}
	for _, n := range numbers {
		t.Run("token "+clip(n), func(t *testing.T) {
			const says = "a whole number from 1 to 18446744073709551615"
			checkRefused(t, "POST", "/v1/renew", `{"name":"a","holder":"h","token":`+n+`}`, 400, "invalid_argument", "token", says)
			checkRefused(t, "POST", "/v1/release", `{"name":"a","holder":"h","token":`+n+`}`, 400, "invalid_argument", "token", says)
		})
	}
	for _, n := range []string{`01`, `+1`, `1.`, `.5`, `1e`, `--1`, `0x10`, `1_000`, `NaN`, `Infinity`} {
		t.Run("no number "+n, func(t *testing.T) {
			b := newFake()
			p := problemIn(t, do(t, newServer(t, b), "POST", "/v1/acquire", acquireWith(`1000`, n)))
			if p.Code != "invalid_argument" || p.Field != "ttl_ms" && p.Field != "body" || len(b.calls) != 0 {
				t.Errorf("got %+v", p)
			}
		})
	}
}

// The names that are refused are the same on every verb, in the body and in the
// path, and none is redirected to another name.
func TestServer_Names(t *testing.T) {
	long := strings.Repeat("n", lease.MaxNameLen)
	for _, name := range []string{
		"", ".", "..", "/", "/a", "a/", "a//b", "a/../b", "a/./b", "../a", "a/..", "./a", "a b", "a?b", "a#b", "a%b", "ä", "a\x00b", "a\\b", long + "n",
	} {
		t.Run(fmt.Sprintf("%q", clip(name)), func(t *testing.T) {
			escaped := strings.NewReplacer("\x00", `\u0000`, `\`, `\\`).Replace(name)
			checkRefused(t, "POST", "/v1/acquire", `{"name":"`+escaped+`","holder":"h","ttl_ms":1000}`, 400, "invalid_argument", "name", "")
			checkRefused(t, "POST", "/v1/renew", `{"name":"`+escaped+`","holder":"h","token":1}`, 400, "invalid_argument", "name", "")
			checkRefused(t, "POST", "/v1/release", `{"name":"`+escaped+`","holder":"h","token":1}`, 400, "invalid_argument", "name", "")
			checkRefused(t, "POST", "/v1/revoke", `{"name":"`+escaped+`","token":1,"reason":"r"}`, 400, "invalid_argument", "name", "")

			everyByte := ""
			for _, c := range []byte(name) {
				everyByte += fmt.Sprintf("%%%02X", c)
			}
			inPath := []string{everyByte}
			if !strings.ContainsAny(name, " ?#%\x00") { // the others cannot stand in a path
				inPath = append(inPath, name)
			}
			for _, path := range inPath {
				checkRefused(t, "GET", "/v1/leases/"+path, "", 400, "invalid_argument", "name", "")
				checkRefused(t, "GET", "/v1/registers/"+path, "", 400, "invalid_argument", "name", "")
				checkRefused(t, "PUT", "/v1/registers/"+path, `{"value":"v"}`, 400, "invalid_argument", "name", "")
			}
		})
	}
	for target, name := range map[string]string{
		"/v1/leases/a":               "a",
		"/v1/leases/a/b":             "a/b",
		"/v1/leases/a%2Fb":           "a/b",
		"/v1/leases/a%2fb":           "a/b",
		"/v1/leases/%61":             "a",
		"/v1/leases/acquire":         "acquire",
		"/v1/leases/leases":          "leases",
		"/v1/leases/v1/leases/a":     "v1/leases/a",
		"/v1/leases/...":             "...",
		"/v1/leases/a.b_c:d@e=f+g-h": "a.b_c:d@e=f+g-h",
		"/v1/leases/" + long:         long,
	} {
		b := newFake()
		if w := do(t, newServer(t, b), "GET", target, ""); w.Code != 200 {
			t.Errorf("%s: got %d", target, w.Code)
		}
		if got := b.calls[0].([]any)[1]; got != name {
			t.Errorf("%s: the backend was asked for %q, want %q", target, got, name)
		}
	}
}

// Every path answers a method that it does not have with 405 and the ones that
// it has.
func TestServer_Methods(t *testing.T) {
	s := newServer(t, newFake())
	methods := make(map[string][]string) // by pattern
	for _, rt := range routes {
		methods[rt.pattern] = append(methods[rt.pattern], rt.method)
		if rt.method == "GET" {
			methods[rt.pattern] = append(methods[rt.pattern], "HEAD")
		}
	}
	for _, rt := range routes {
		target := strings.NewReplacer("{name...}", "a", "{request_id...}", "r", "{$}", "").Replace(rt.pattern)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "BREW"} {
			if slices.Contains(methods[rt.pattern], method) {
				continue
			}
			w := do(t, s, method, target, "")
			want := strings.Join(slices.Sorted(slices.Values(methods[rt.pattern])), ", ")
			if w.Code != 405 || w.Header().Get("Allow") != want {
				t.Errorf("%s %s: got %d, Allow %q, want 405, %q", method, target, w.Code, w.Header().Get("Allow"), want)
			}
			if p := problemIn(t, w); p.Code != "method_not_allowed" {
				t.Errorf("%s %s: code is %s", method, target, p.Code)
			}
		}
	}
}

// No path at all makes ServeMux answer by itself.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/v1/leases/a", "/v1/leases", "/v1/requests", "//", "/v1/leases/%2e%2e", "/v1/status/", "*", "/\xff", "/v1/leases/..;/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r, err := http.NewRequest("GET", "http://h1:1/", nil)
		if err != nil {
			t.Fatal(err)
		}
		u, err := r.URL.Parse("http://h1:1" + path)
		if err != nil || u.Host != "h1:1" {
			t.Skip()
		}
		r.URL = u
		r.URL.RawQuery = ""
		w := recorded(newServer(t, newFake()), r)
		if w.Code != 200 && w.Code != 400 && w.Code != 404 && w.Code != 405 {
			t.Fatalf("%q: got %d, Location %q", path, w.Code, w.Header().Get("Location"))
		}
		checkPlace(t, w.Header())
	})
}
