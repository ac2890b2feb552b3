package httpapi

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"leasehold/cluster"
	"leasehold/lease"
)

// A list of renewals is read as it is written, and each part is answered for
// itself, in its place.
func TestServer_RenewMany(t *testing.T) {
	b := newFake()
	refused := refusal(fakeEnded, nil, lease.Event{Cause: lease.ErrLost, Token: 9, Other: 11})
	b.renewed = []cluster.Renewed{{Outcome: b.outcome}, {Err: refused}}
	checkAnswer(t, newServer(t, b), "POST", "/v1/renew-many",
		` { "renewals" : [ {"name":"jobs/a","token":12} , {"token":9,"name":"jobs/b"} ] , "holder":"h" } `,
		`{"results":[{"name":"jobs/a","token":12,"renewed":true,"ttl_ms":10000,"remaining_ms":4500},`+
			`{"name":"jobs/b","token":9,"renewed":false,"code":"lease_lost","detail":"lease is lost: the grant of token 9 ended at index 11 (g did not renew it within its TTL; it expired at index 11); stop what it protected, and acquire again for a newer token","how":"expired","index":11}],`+
			`"term":3,"index":20}`, "20")
	want := lease.RenewMany{Holder: "h", Renewals: []lease.Renewal{{Name: "jobs/a", Token: 12}, {Name: "jobs/b", Token: 9}}}
	if len(b.calls) != 1 || !reflect.DeepEqual(b.calls[0], want) {
		t.Errorf("the backend was asked %+v, want %+v", b.calls, want)
	}
}

// What is wrong with one renewal of many is said of that one.
func TestServer_RenewMany_Hostile(t *testing.T) {
	one := `{"name":"a","token":1}`
	list := func(items ...string) string {
		return `{"holder":"h","renewals":[` + strings.Join(items, ",") + `]}`
	}
	many := make([]string, lease.MaxRenewals+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"name":"l%d","token":1}`, i)
	}
	for _, tc := range []struct{ what, body, field, says string }{
		{"no list", `{"holder":"h"}`, "renewals", "is missing"},
		{"no holder", `{"renewals":[` + one + `]}`, "holder", "is missing"},
		{"null", `{"holder":"h","renewals":null}`, "renewals", "null"},
		{"an object", `{"holder":"h","renewals":` + one + `}`, "renewals", "a list of 1 to 512 objects, not an object"},
		{"empty", list(), "renewals", "is empty"},
		{"too many", list(many...), "renewals", "more than 512"},
		{"a number in it", list(one, "7"), "renewals[1]", "an object with the fields name, token"},
		{"a list in it", list("[]"), "renewals[0]", "not an array"},
		{"token missing", list(one, `{"name":"b"}`), "renewals[1].token", "is missing"},
		{"empty object", list(`{}`), "renewals[0].name", "is missing"},
		{"token 0", list(one, `{"name":"b","token":0}`), "renewals[1].token", "from 1 to"},
		{"token a string", list(`{"name":"b","token":"1"}`), "renewals[0].token", "not a string"},
		{"bad name", list(`{"name":"a//b","token":1}`), "renewals[0].name", "segments"},
		{"unknown field", list(`{"name":"a","token":1,"ttl_ms":5}`), "renewals[0].ttl_ms", "is not a field"},
		{"nested too deep", list(`{"name":{"x":1},"token":1}`), "renewals[0].name", "not an object"},
		{"field twice", list(`{"name":"a","name":"b","token":1}`), "renewals[0].name", "is given twice"},
		{"name twice", list(one, `{"name":"a","token":2}`), "renewals[1].name", "a is given twice"},
		{"trailing comma", list(one, ""), "renewals[1]", "no value starts here"},
		{"no comma", `{"holder":"h","renewals":[` + one + one + `]}`, "renewals", "a comma or a closing bracket is missing"},
		{"not closed", `{"holder":"h","renewals":[` + one, "renewals", "a comma or a closing bracket is missing"},
		{"cut off in an object", `{"holder":"h","renewals":[{"name":"a"`, "body", "a comma or a closing brace is missing"},
		{"goes on", list(one) + "]", "body", "goes on"},
		{"list twice", `{"holder":"h","renewals":[` + one + `],"renewals":[` + one + `]}`, "renewals", "is given twice"},
	} {
		_, err := decodeRenewMany([]byte(tc.body))
		bad, ok := errors.AsType[*lease.FieldError](err)
		if !ok || bad.Field != tc.field || !strings.Contains(bad.Detail, tc.says) {
			t.Errorf("%s: got %v, want %s … %s", tc.what, err, tc.field, tc.says)
		}
	}
	if most, err := decodeRenewMany([]byte(list(many[1:]...))); err != nil || len(most.Renewals) != lease.MaxRenewals {
		t.Errorf("as many as there may be: %v", err)
	}
}
