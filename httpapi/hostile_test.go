package httpapi

import "strings"

// hostile are requests that must be refused, each with the field at fault.
var hostile = []struct {
	name   string
	method string
	target string
	body   string
	status int
	code   string
	field  string
	says   string // a part of the detail
}{
	// The document.
	{"empty body", "POST", "/v1/acquire", ``, 400, "invalid_argument", "body", "empty"},
	{"blank body", "POST", "/v1/acquire", " \n", 400, "invalid_argument", "body", "empty"},
	{"a form", "POST", "/v1/acquire", `name=a&holder=h`, 400, "invalid_argument", "body", "object"},
	{"byte order mark", "POST", "/v1/acquire", "\ufeff" + acquireBody, 400, "invalid_argument", "body", "object"},
	{"an array", "POST", "/v1/acquire", `[` + acquireBody + `]`, 400, "invalid_argument", "body", "object"},
	{"a string", "POST", "/v1/acquire", `"a"`, 400, "invalid_argument", "body", "object"},
	{"null", "POST", "/v1/acquire", `null`, 400, "invalid_argument", "body", "object"},
	{"cut off", "POST", "/v1/acquire", `{"name":"a"`, 400, "invalid_argument", "body", "JSON"},
	{"cut off in a string", "POST", "/v1/acquire", `{"name":"a`, 400, "invalid_argument", "name", "JSON"},
	{"cut off in an escape", "POST", "/v1/acquire", `{"name":"a\`, 400, "invalid_argument", "name", "JSON"},
	{"cut off before a value", "POST", "/v1/acquire", `{"name":`, 400, "invalid_argument", "name", "JSON"},
	{"trailing comma", "POST", "/v1/acquire", `{"name":"a","holder":"h","ttl_ms":1000,}`, 400, "invalid_argument", "body", "JSON"},
	{"no comma", "POST", "/v1/acquire", `{"name":"a" "holder":"h"}`, 400, "invalid_argument", "body", "JSON"},
	{"no colon", "POST", "/v1/acquire", `{"name" "a"}`, 400, "invalid_argument", "body", "JSON"},
	{"no quotes", "POST", "/v1/acquire", `{name:"a"}`, 400, "invalid_argument", "body", "JSON"},
	{"a comment", "POST", "/v1/acquire", `{/**/"name":"a"}`, 400, "invalid_argument", "body", "JSON"},
	{"two documents", "POST", "/v1/acquire", acquireBody + acquireBody, 400, "invalid_argument", "body", "after the end"},
	{"trailing data", "POST", "/v1/acquire", acquireBody + `x`, 400, "invalid_argument", "body", "after the end"},
	{"trailing NUL", "POST", "/v1/acquire", acquireBody + "\x00", 400, "invalid_argument", "body", "after the end"},
	{"too large", "POST", "/v1/acquire", `{"name":"` + strings.Repeat("a", maxBody) + `"}`, 413, "body_too_large", "", "65536"},
	{"too large by spaces", "POST", "/v1/acquire", acquireBody + strings.Repeat(" ", maxBody), 413, "body_too_large", "", "65536"},

	// Text.
	{"invalid UTF-8", "POST", "/v1/acquire", acquireWith(`"holder":"h"`, "\"holder\":\"h\xff\""), 400, "invalid_argument", "holder", "UTF-8"},
	{"surrogate as UTF-8", "POST", "/v1/acquire", acquireWith(`"holder":"h"`, "\"holder\":\"\xed\xa0\x80\""), 400, "invalid_argument", "holder", "UTF-8"},
	{"overlong UTF-8", "POST", "/v1/acquire", acquireWith(`"holder":"h"`, "\"holder\":\"\xc0\xaf\""), 400, "invalid_argument", "holder", "UTF-8"},
	{"invalid UTF-8 in a name of a field", "POST", "/v1/acquire", "{\"na\xffme\":\"a\"}", 400, "invalid_argument", "body", "UTF-8"},
	{"lone high surrogate", "POST", "/v1/acquire", acquireWith(`"holder":"h"`, `"holder":"\ud800"`), 400, "invalid_argument", "holder", "surrogate"},
	{"high surrogate before text", "POST", "/v1/acquire", acquireWith(`"holder":"h"`, `"holder":"\ud800dc00ab"`), 400, "invalid_argument", "holder", "surrogate"},
	{"two high surrogates", "POST", "/v1/acquire", acquireWith(`"holder":"h"`, `"holder":"\ud800\ud800"`), 400, "invalid_argument", "holder", "surrogate"},
	{"lone low surrogate", "POST", "/v1/acquire", acquireWith(`"holder":"h"`, `"holder":"\udc00"`), 400, "invalid_argument", "holder", "surrogate"},
	{"pair in the wrong order", "POST", "/v1/acquire", acquireWith(`"holder":"h"`, `"holder":"\udc00\ud800"`), 400, "invalid_argument", "holder", "surrogate"},
	{"lone surrogate in a name of a field", "POST", "/v1/acquire", `{"\ud800":"a"}`, 400, "invalid_argument", "body", "surrogate"},
	{"lone surrogate in a value", "POST", "/v1/renew", `{"name":"a","holder":"h","token":1,"value":"\udfff"}`, 400, "invalid_argument", "value", "surrogate"},
	{"control character", "POST", "/v1/acquire", "{\"name\":\"a\n\"}", 400, "invalid_argument", "name", "control"},
	{"unknown escape", "POST", "/v1/acquire", `{"name":"\x41"}`, 400, "invalid_argument", "name", "escape"},
	{"short escape", "POST", "/v1/acquire", `{"name":"\u41"}`, 400, "invalid_argument", "name", "hexadecimal"},
	{"signed escape", "POST", "/v1/acquire", `{"name":"\u+041"}`, 400, "invalid_argument", "name", "hexadecimal"},

	// Fields.
	{"unknown field", "POST", "/v1/acquire", acquireWith(`{`, `{"foo":1,`), 400, "invalid_argument", "foo", "not a field"},
	{"unknown nested field", "POST", "/v1/acquire", `{"foo":` + strings.Repeat("[", 30000), 400, "invalid_argument", "foo", "not a field"},
	{"empty field", "POST", "/v1/acquire", acquireWith(`{`, `{"":1,`), 400, "invalid_argument", "body", "without a name"},
	{"field of a later version", "POST", "/v1/acquire", acquireWith(`{`, `{"priority":0,`), 400, "invalid_argument", "priority", "not a field"},
	{"another later field", "POST", "/v1/acquire", acquireWith(`{`, `{"lease_ms":0,`), 400, "invalid_argument", "lease_ms", "not a field"},
	{"field of another call", "POST", "/v1/release", `{"name":"a","holder":"h","token":1,"ttl_ms":1000}`, 400, "invalid_argument", "ttl_ms", "not a field"},
	{"another case", "POST", "/v1/acquire", acquireWith(`"name"`, `"Name"`), 400, "invalid_argument", "Name", `did you mean \"name\"`},
	{"Kelvin sign", "POST", "/v1/release", `{"name":"a","holder":"h","to` + "\u212a" + `en":1}`, 400, "invalid_argument", "to\u212aen", "not a field"},
	{"duplicate field", "POST", "/v1/acquire", acquireWith(`{`, `{"name":"b",`), 400, "invalid_argument", "name", "twice"},
	{"duplicate by an escape", "POST", "/v1/acquire", acquireWith(`{`, `{"n\u0061me":"a",`), 400, "invalid_argument", "name", "twice"},
	{"no name", "POST", "/v1/acquire", `{"holder":"h","ttl_ms":1000}`, 400, "invalid_argument", "name", "missing"},
	{"no holder", "POST", "/v1/acquire", `{"name":"a","ttl_ms":1000}`, 400, "invalid_argument", "holder", "missing"},
	{"no ttl_ms", "POST", "/v1/acquire", `{"name":"a","holder":"h"}`, 400, "invalid_argument", "ttl_ms", "missing"},
	{"no token", "POST", "/v1/renew", `{"name":"a","holder":"h"}`, 400, "invalid_argument", "token", "missing"},
	{"no token to release", "POST", "/v1/release", `{"name":"a","holder":"h"}`, 400, "invalid_argument", "token", "missing"},
	{"nothing", "POST", "/v1/acquire", `{}`, 400, "invalid_argument", "name", "missing"},

	// Types.
	{"null name", "POST", "/v1/acquire", acquireWith(`"a"`, `null`), 400, "invalid_argument", "name", "null"},
	{"null ttl_ms", "POST", "/v1/acquire", acquireWith(`1000`, `null`), 400, "invalid_argument", "ttl_ms", "null"},
	{"null optional", "POST", "/v1/acquire", acquireWith(`{`, `{"value":null,`), 400, "invalid_argument", "value", "null"},
	{"null reclaim", "POST", "/v1/acquire", acquireWith(`{`, `{"reclaim":null,`), 400, "invalid_argument", "reclaim", "null"},
	{"number for a string", "POST", "/v1/acquire", acquireWith(`"a"`, `1`), 400, "invalid_argument", "name", "a string, not a number"},
	{"object for a string", "POST", "/v1/acquire", acquireWith(`"a"`, strings.Repeat(`{"a":`, 10000)), 400, "invalid_argument", "name", "an object"},
	{"array for a string", "POST", "/v1/acquire", acquireWith(`"a"`, strings.Repeat(`[`, 60000)), 400, "invalid_argument", "name", "an array"},
	{"string for a boolean", "POST", "/v1/acquire", acquireWith(`{`, `{"reclaim":"true",`), 400, "invalid_argument", "reclaim", "true or false"},
	{"number for a boolean", "POST", "/v1/acquire", acquireWith(`{`, `{"reclaim":1,`), 400, "invalid_argument", "reclaim", "true or false"},
	{"boolean for a number", "POST", "/v1/acquire", acquireWith(`1000`, `true`), 400, "invalid_argument", "ttl_ms", "a boolean"},
	{"boolean cut off", "POST", "/v1/acquire", acquireWith(`{`, `{"reclaim":tru,`), 400, "invalid_argument", "reclaim", "JSON"},
	{"boolean run on", "POST", "/v1/acquire", acquireWith(`{`, `{"reclaim":truefalse,`), 400, "invalid_argument", "body", "JSON"},

	// Optional fields that are present must be good ones.
	{"renew ttl_ms 0", "POST", "/v1/renew", `{"name":"a","holder":"h","token":1,"ttl_ms":0}`, 400, "invalid_argument", "ttl_ms", "from 100 to 86400000"},
	{"empty request id", "POST", "/v1/acquire", acquireWith(`{`, `{"request_id":"",`), 400, "invalid_argument", "request_id", "empty"},
	{"request id with a slash", "POST", "/v1/acquire", acquireWith(`{`, `{"request_id":"a/b",`), 400, "invalid_argument", "request_id", "128"},
	{"request id too long", "POST", "/v1/acquire", acquireWith(`{`, `{"request_id":"`+strings.Repeat("a", 129)+`",`), 400, "invalid_argument", "request_id", "128"},
	{"value too long", "POST", "/v1/acquire", acquireWith(`{`, `{"value":"`+strings.Repeat("a", 4097)+`",`), 400, "invalid_argument", "value", "4096"},
	{"renew value too long", "POST", "/v1/renew", `{"name":"a","holder":"h","token":1,"value":"` + strings.Repeat("é", 2049) + `"}`, 400, "invalid_argument", "value", "4096"},
	{"empty holder", "POST", "/v1/acquire", acquireWith(`"h"`, `""`), 400, "invalid_argument", "holder", "255"},
	{"holder with a NUL", "POST", "/v1/acquire", acquireWith(`"h"`, `"h\u0000"`), 400, "invalid_argument", "holder", "printable"},
	{"holder too long", "POST", "/v1/acquire", acquireWith(`"h"`, `"`+strings.Repeat("h", 256)+`"`), 400, "invalid_argument", "holder", "255"},

	// Queries.
	{"unknown parameter", "GET", "/v1/leases/a?foo=1", ``, 400, "invalid_argument", "foo", "takes consistency"},
	{"parameter of another case", "GET", "/v1/leases/a?Consistency=stale", ``, 400, "invalid_argument", "Consistency", "takes consistency"},
	{"parameter where none is known", "GET", "/v1/status?x=1", ``, 400, "invalid_argument", "x", "none"},
	{"parameter of a write", "POST", "/v1/renew?request_id=a", ``, 400, "invalid_argument", "request_id", "none"},
	{"duplicate parameter", "GET", "/v1/leases/a?consistency=stale&consistency=stale", ``, 400, "invalid_argument", "consistency", "twice"},
	{"duplicate via", "GET", "/v1/leases/a?via=n1&via=n2", ``, 400, "invalid_argument", "via", "twice"},
	{"duplicate by an escape", "GET", "/v1/leases/a?consistency=stale&%63onsistency=stale", ``, 400, "invalid_argument", "consistency", "twice"},
	{"bad escape", "GET", "/v1/leases/a?consistency=%zz", ``, 400, "invalid_argument", "consistency", "escaped"},
	{"half an escape", "GET", "/v1/leases?prefix=%4", ``, 400, "invalid_argument", "prefix", "escaped"},
	{"bad escape in a name", "GET", "/v1/leases/a?%zz=1", ``, 400, "invalid_argument", "query", "escaped"},
	{"semicolon", "GET", "/v1/leases?prefix=a;limit=1", ``, 400, "invalid_argument", "prefix", "%3B"},
	{"semicolon in a name", "GET", "/v1/leases?a;b", ``, 400, "invalid_argument", "query", "%3B"},
	{"bare plus", "GET", "/v1/leases?prefix=a+b", ``, 400, "invalid_argument", "prefix", "%2B"},
	{"empty parameter", "GET", "/v1/leases?limit=1&", ``, 400, "invalid_argument", "query", "without a name"},
	{"invalid UTF-8 parameter", "GET", "/v1/leases?prefix=%ff", ``, 400, "invalid_argument", "prefix", "UTF-8"},
	{"unknown consistency", "GET", "/v1/leases/a?consistency=strong", ``, 400, "invalid_argument", "consistency", "linearizable or stale"},
	{"empty consistency", "GET", "/v1/leases/a?consistency", ``, 400, "invalid_argument", "consistency", "linearizable or stale"},
	{"limit 0", "GET", "/v1/leases?limit=0", ``, 400, "invalid_argument", "limit", "from 1 to 1000"},
	{"limit 1001", "GET", "/v1/leases?limit=1001", ``, 400, "invalid_argument", "limit", "from 1 to 1000"},
	{"negative limit", "GET", "/v1/leases?limit=-1", ``, 400, "invalid_argument", "limit", "from 1 to 1000"},
	{"empty limit", "GET", "/v1/leases?limit=", ``, 400, "invalid_argument", "limit", "from 1 to 1000"},
	{"octal limit", "GET", "/v1/leases?limit=010", ``, 400, "invalid_argument", "limit", "from 1 to 1000"},
	{"limit with a NUL", "GET", "/v1/leases?limit=1%00", ``, 400, "invalid_argument", "limit", "from 1 to 1000"},
	{"log limit", "GET", "/v1/log?limit=1001", ``, 400, "invalid_argument", "limit", "from 1 to 1000"},
	{"log from", "GET", "/v1/log?from=-1", ``, 400, "invalid_argument", "from", "from 0 to"},
	{"log from overflow", "GET", "/v1/log?from=18446744073709551616", ``, 400, "invalid_argument", "from", "from 0 to"},
	{"log from float", "GET", "/v1/log?from=1.0", ``, 400, "invalid_argument", "from", "from 0 to"},
	{"prefix of no name", "GET", "/v1/leases?prefix=%20", ``, 400, "invalid_argument", "prefix", "A-Z"},
	{"rooted prefix", "GET", "/v1/leases?prefix=/a", ``, 400, "invalid_argument", "prefix", "segment"},
	{"prefix with an empty segment", "GET", "/v1/leases?prefix=a//", ``, 400, "invalid_argument", "prefix", "segment"},
	{"after no name", "GET", "/v1/leases?after=a%2F..%2Fb", ``, 400, "invalid_argument", "after", "segment"},
	{"request id twice", "POST", "/v1/acquire?request_id=r2", acquireWith(`{`, `{"request_id":"r1",`), 400, "invalid_argument", "request_id", "once"},
	{"empty request id in the query", "POST", "/v1/acquire?request_id=", acquireBody, 400, "invalid_argument", "request_id", "empty"},
	{"bad request id in the query", "POST", "/v1/acquire?request_id=a%2Fb", acquireBody, 400, "invalid_argument", "request_id", "128"},

	// Paths.
	{"unknown path", "GET", "/v1/nope", ``, 404, "not_found", "", "/v1/nope"},
	{"unknown path to post to", "POST", "/nope", `{}`, 404, "not_found", "", "/nope"},
	{"trailing slash", "GET", "/v1/status/", ``, 404, "not_found", "", "/v1/status/"},
	{"requests without an id", "GET", "/v1/requests", ``, 404, "not_found", "", ""},
	{"escaped slash in a fixed path", "GET", "/v1%2Fstatus", ``, 404, "not_found", "", ""},
	{"double slash", "GET", "/v1//status", ``, 400, "invalid_argument", "path", "segment"},
	{"leading double slash", "GET", "//v1/status", ``, 400, "invalid_argument", "path", "segment"},
	{"only slashes", "GET", "//", ``, 400, "invalid_argument", "path", "segment"},
	{"dots", "GET", "/v1/./status", ``, 400, "invalid_argument", "path", "segment"},
	{"dots to post to", "POST", "/v1/x/../acquire", acquireBody, 400, "invalid_argument", "path", "segment"},
	{"empty request id in the path", "GET", "/v1/requests/", ``, 400, "invalid_argument", "request_id", "empty"},
	{"request id of two segments", "GET", "/v1/requests/a/b", ``, 400, "invalid_argument", "request_id", "128"},
	{"request id with an escaped slash", "GET", "/v1/requests/a%2Fb", ``, 400, "invalid_argument", "request_id", "128"},
	{"request id of bare dots", "GET", "/v1/requests/..", ``, 400, "invalid_argument", "request_id", "segment"},
}

const acquireBody = `{"name":"a","holder":"h","ttl_ms":1000}`

// acquireWith is a good acquire with one thing changed.
func acquireWith(old, changed string) string { return strings.Replace(acquireBody, old, changed, 1) }
