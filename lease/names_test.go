package lease_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"leasehold/lease"
)

// check is one text that a Check function is asked about.
type check struct {
	what, text string
	ok         bool
}

// runChecks ensures that each text is accepted or refused as the table says, and
// that a refusal names the field and its bounds.
func runChecks(t *testing.T, field, bounds string, f func(string) error, checks []check) {
	t.Helper()
	for _, c := range checks {
		err := f(c.text)
		if c.ok {
			if err != nil {
				t.Errorf("%s: %q is refused: %v", c.what, c.text, err)
			}
			continue
		}
		var fe *lease.FieldError
		if !errors.As(err, &fe) {
			t.Errorf("%s: %q: got %v, want a FieldError", c.what, c.text, err)
			continue
		}
		if fe.Field != field || !strings.Contains(fe.Detail, bounds) || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %q: error %q does not name %s and %q", c.what, c.text, err, field, bounds)
		}
	}
}

// TestCheckName ensures that a name is accepted exactly if it has one spelling
// in a URL path.
func TestCheckName(t *testing.T) {
	long := strings.Repeat("n", lease.MaxNameLen)
	checks := []check{
		{"one byte", "a", true},
		{"whole alphabet", "AZaz09._:@=+-", true},
		{"segments", "jobs/eu-1/nightly", true},
		{"255 bytes", long, true},
		{"255 bytes in segments", strings.Repeat("a/", 127) + "b", true},
		{"three dots", "...", true},
		{"hidden", ".a", true},
		{"dots inside", "a..b/c.", true},
		{"two dots and more", "..a/a../.a.", true},
		{"dash first", "-a", true},

		{"empty", "", false},
		{"256 bytes", long + "n", false},
		{"256 bytes in segments", strings.Repeat("a/", 127) + "bc", false},
		{"1 MiB", strings.Repeat("n", 1<<20), false},
		{"slash", "/", false},
		{"leading slash", "/a", false},
		{"trailing slash", "a/", false},
		{"double slash", "a//b", false},
		{"dot", ".", false},
		{"dot dot", "..", false},
		{"dot segment", "a/./b", false},
		{"dot first", "./a", false},
		{"dot last", "a/.", false},
		{"dot dot segment", "a/../b", false},
		{"dot dot first", "../a", false},
		{"dot dot last", "a/..", false},
		{"space", "a b", false},
		{"trailing space", "a ", false},
		{"NUL", "a\x00b", false},
		{"newline", "a\n", false},
		{"carriage return", "a\r", false},
		{"tab", "a\tb", false},
		{"DEL", "a\x7f", false},
		{"backslash", `a\b`, false},
		{"percent", "a%2Fb", false},
		{"question mark", "a?b", false},
		{"hash", "a#b", false},
		{"quote", `a"b`, false},
		{"composed letter", "caf\u00e9", false},
		{"letter and combining accent", "cafe\u0301", false},
		{"look-alike", "\u0430", false}, // the Cyrillic letter that looks like a
		{"full-width slash", "a\uff0fb", false},
		{"emoji", "\U0001f512", false},
		{"not UTF-8", "a\xff", false},
		{"replacement rune", "a\ufffd", false},
	}
	for b := range 128 {
		if !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:@=+-/", rune(b)) {
			checks = append(checks, check{"outside the alphabet", "a" + string(rune(b)) + "b", false})
		} else if b != '/' {
			checks = append(checks, check{"inside the alphabet", "a" + string(rune(b)) + "b", true})
		}
	}
	runChecks(t, "name", "1 to 255 bytes", lease.CheckName, checks)
}

// TestCheckHolder ensures that a holder is 1 to 255 bytes that a person can read.
func TestCheckHolder(t *testing.T) {
	runChecks(t, "holder", "1 to 255 bytes", lease.CheckHolder, []check{
		{"one byte", "a", true},
		{"255 bytes", strings.Repeat("h", 255), true},
		{"255 bytes, 85 runes", strings.Repeat("\u20ac", 85), true},
		{"space", "Alice in Accounting", true},
		{"a space alone", " ", true},
		{"path and query", "/a?b=%20#c", true},
		{"composed letter", "Ren\u00e9", true},
		{"letter and combining accent", "Rene\u0301", true}, // another holder than the one above: bytes are compared
		{"CJK", "\u5c71\u7530", true},
		{"emoji", "\U0001f512", true},
		{"replacement rune", "\ufffd", true},

		{"empty", "", false},
		{"256 bytes", strings.Repeat("h", 256), false},
		{"256 bytes, 86 runes", strings.Repeat("\u20ac", 85) + "h", false},
		{"NUL", "a\x00", false},
		{"newline", "a\nb", false},
		{"tab", "a\tb", false},
		{"escape", "\x1b[31m", false},
		{"DEL", "a\x7f", false},
		{"C1 control", "a\u0085", false},
		{"no-break space", "a\u00a0b", false},
		{"line separator", "a\u2028b", false},
		{"right-to-left override", "a\u202eb", false},
		{"zero width space", "a\u200bb", false},
		{"emoji with a joiner", "\U0001f469\u200d\U0001f4bb", false},
		{"byte order mark", "\ufeffa", false},
		{"private use", "\ue000", false},
		{"not UTF-8", "a\xff", false},
		{"cut short", "\xe2\x82", false},
		{"surrogate", "\xed\xa0\x80", false},
		{"overlong", "\xc0\xaf", false},
	})
}

// TestCheckRequestID ensures that a request id is 1 to 128 printable ASCII
// characters without a slash.
func TestCheckRequestID(t *testing.T) {
	checks := []check{
		{"one byte", "r", true},
		{"128 bytes", strings.Repeat("r", 128), true},
		{"UUID", "018f6b1e-7c1b-7000-8000-0123456789ab", true},

		{"empty", "", false},
		{"129 bytes", strings.Repeat("r", 129), false},
		{"letter beyond ASCII", "\u00e9", false},
		{"emoji", "\U0001f512", false},
		{"not UTF-8", "\xff", false},
	}
	for b := range 128 {
		checks = append(checks, check{"byte", "r" + string(rune(b)), b >= 0x20 && b < 0x7f && b != '/'})
	}
	runChecks(t, "request_id", "1 to 128 printable ASCII", lease.CheckRequestID, checks)
}

// TestCheckValue ensures that a value is any UTF-8 of at most 4 KiB, also none.
func TestCheckValue(t *testing.T) {
	runChecks(t, "value", "at most 4096 bytes", lease.CheckValue, []check{
		{"empty", "", true},
		{"4096 bytes", strings.Repeat("v", 4096), true},
		{"4096 bytes, 1024 runes", strings.Repeat("\U0001f512", 1024), true},
		{"JSON on two lines", "{\"a\":1,\n\t\"b\":2}", true},
		{"NUL", "\x00", true},

		{"4097 bytes", strings.Repeat("v", 4097), false},
		{"4097 bytes, 1025 runes", strings.Repeat("\U0001f512", 1024) + "v", false},
		{"not UTF-8", "v\xff", false},
		{"surrogate", "\xed\xa0\x80", false},
	})
}

// FuzzCheckName ensures of any accepted name that it is in the alphabet and that
// it comes back unchanged, not escaped and not redirected, when it is put
// into a URL path as it is.
func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"a", "jobs/nightly", "..", "a/./b", "a//b", "/a", "a/", "a%2fb", "caf\u00e9", "a\x00", "...", "+@:=-_."} {
		f.Add(s)
	}
	var routed string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/leases/{name...}", func(_ http.ResponseWriter, r *http.Request) { routed = r.PathValue("name") })
	f.Fuzz(func(t *testing.T, name string) {
		if lease.CheckName(name) != nil {
			return
		}
		if len(name) == 0 || len(name) > 255 {
			t.Fatalf("accepted with %d bytes", len(name))
		}
		if i := strings.IndexFunc(name, func(r rune) bool {
			return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:@=+-/", r)
		}); i >= 0 {
			t.Fatalf("accepted %q with %q", name, name[i:])
		}
		if got := path.Clean("/" + name); got != "/"+name {
			t.Fatalf("accepted %q is cleaned to %q", name, got)
		}
		routed = ""
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/v1/leases/"+name, nil))
		if w.Code != http.StatusOK || routed != name {
			t.Fatalf("accepted %q arrives as %q, status %d", name, routed, w.Code)
		}
	})
}
