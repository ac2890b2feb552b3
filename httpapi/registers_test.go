package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"leasehold/cluster"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// fakeRegister was last written to by token 12, at the entry 20.
var fakeRegister = &lease.Register{
	Name: "config/a", Value: "v", HighestToken: 12, Accepted: 2, Refused: 1,
	Writes: []lease.RegisterWrite{
		{Index: 10, At: 1_700_000_000_123, Verdict: lease.Accepted},
		{Index: 20, At: 1_700_000_001_000, Token: 12, Lease: "jobs/a", Verdict: lease.Accepted},
		{Index: 21, At: 1_700_000_002_000, Token: 9, Verdict: lease.StaleToken},
	},
}

func newRegisterFake() *fakeBackend {
	b := newFake()
	b.reg = fakeRegister
	b.outcome.Result = lease.Result{Entry: lease.Entry{Index: 20, Term: 3}, Register: fakeRegister}
	return b
}

// A write reaches the backend as it was sent, and its answer says whether
// anything was checked.
func TestServer_PutRegister(t *testing.T) {
	b := newRegisterFake()
	s := newServer(t, b)
	const state = `"verdict":"accepted","highest_token":12,"accepted":2,"refused":1,"cluster_id":"c1","term":3}`
	checkAnswer(t, s, "PUT", "/v1/registers/config/a", `{"value":"v","token":12,"lease":"jobs/a"}`,
		`{"name":"config/a","value":"v","index":20,"token":12,"lease":"jobs/a","fenced":true,`+state, "20")
	checkAnswer(t, s, "PUT", "/v1/registers/config%2Fa?via=n2", ` { "token" : 18446744073709551615 , "value":"\u00e9" } `,
		`{"name":"config/a","value":"v","index":20,"token":18446744073709551615,"lease":"","fenced":true,`+state, "20")
	checkAnswer(t, s, "PUT", "/v1/registers/config/a", `{"value":""}`,
		`{"name":"config/a","value":"v","index":20,"token":0,"lease":"","fenced":false,`+state, "20")
	full := strings.Repeat("v", lease.MaxValueLen)
	do(t, s, "PUT", "/v1/registers/a", `{"value":"`+full+`"}`)
	want := []any{
		lease.Write{Register: "config/a", Value: "v", Token: 12, Lease: "jobs/a"},
		lease.Write{Register: "config/a", Value: "é", Token: 1<<64 - 1},
		lease.Write{Register: "config/a"},
		lease.Write{Register: "a", Value: full},
	}
	if !reflect.DeepEqual(b.calls, want) {
		t.Errorf("the backend was asked\n%+v, want\n%+v", b.calls, want)
	}
}

// A read shows the register and its latest writes; one that was never written to
// is all zeros.
func TestServer_GetRegister(t *testing.T) {
	b := newRegisterFake()
	s := newServer(t, b)
	const place = `"cluster_id":"c1","term":3,"index":30`
	checkAnswer(t, s, "GET", "/v1/registers/config/a", "",
		`{"name":"config/a","value":"v","highest_token":12,"accepted":2,"refused":1,"writes":[`+
			`{"index":10,"token":0,"lease":"","verdict":"accepted","at":"2023-11-14T22:13:20.123Z"},`+
			`{"index":20,"token":12,"lease":"jobs/a","verdict":"accepted","at":"2023-11-14T22:13:21.000Z"},`+
			`{"index":21,"token":9,"lease":"","verdict":"stale_token","at":"2023-11-14T22:13:22.000Z"}],`+place+`}`, "30")
	b.reg = nil
	b.read.Leader, b.read.LastContact = cluster.Peer{}, -1
	const never = `{"name":"b","value":"","highest_token":0,"accepted":0,"refused":0,"writes":[],`
	checkAnswer(t, s, "GET", "/v1/registers/b", "", never+place+`}`, "30")
	checkAnswer(t, s, "GET", "/v1/registers/b?consistency=stale", "",
		never+place+`,"stale":true,"applied_index":30,"leader":null,"last_contact_ms":null}`, "30")
	want := []any{
		[]any{"register", "config/a", cluster.Linearizable},
		[]any{"register", "b", cluster.Linearizable},
		[]any{"register", "b", cluster.Stale},
	}
	if !reflect.DeepEqual(b.calls, want) {
		t.Errorf("the backend was asked %v, want %v", b.calls, want)
	}
}

// writeRefusal is what a node makes of a write that an entry refused.
func writeRefusal(cause error, ended *lease.Ended, token, other uint64) *cluster.Refusal {
	out := newRegisterFake().outcome
	out.Result.Err, out.Result.Ended = cause, ended
	out.Result.Events = []lease.Event{{Kind: lease.KindRefused, Cause: cause, Token: token, Other: other}}
	return &cluster.Refusal{Outcome: out}
}

// A refused write says which rule it broke, what was seen instead and, if a lease
// was to guard it, how its grant ended.
func TestServer_PutRegister_Errors(t *testing.T) {
	revoked := &lease.Ended{Name: "jobs/a", Token: 9, Holder: "g", How: lease.Revoked, Reason: "stuck since noon", Index: 11}
	for _, tc := range []struct {
		err    error
		status int
		want   wire.Problem // Code and what else it must have
		says   []string
		index  string
	}{
		{
			err: writeRefusal(lease.ErrStaleToken, nil, 9, 12), status: 412,
			want: wire.Problem{Code: "stale_token", HighestToken: 12},
			says: []string{"token 9 came after token 12", "nothing was written"}, index: "20",
		},
		{
			err: writeRefusal(lease.ErrNotLive, revoked, 9, 11), status: 412,
			want: wire.Problem{Code: "stale_token", HighestToken: 12, How: "revoked", Index: 11, Token: 9},
			says: []string{"token 9 ended at index 11", "an operator revoked it at index 11: stuck since noon"}, index: "20",
		},
		{
			err: writeRefusal(lease.ErrNotLive, nil, 99, 0), status: 412,
			want: wire.Problem{Code: "stale_token", HighestToken: 12},
			says: []string{"no such grant", "token 99"}, index: "20",
		},
		{ // to repeat it is to write again
			err: &cluster.Unknown{Cause: errors.New("leadership lost")}, status: 504,
			want: wire.Problem{Code: "outcome_unknown"}, says: []string{"leadership lost", "read the register", "is to write again"}, index: "40",
		},
		{ // waiting does not help, so there is no Retry-After
			err: &cluster.LimitError{Code: cluster.TooManyRegisters, Detail: "there are 10000 registers"}, status: 429,
			want: wire.Problem{Code: "too_many_registers"}, says: []string{"10000 registers", "nothing happened"}, index: "40",
		},
		{
			err: &cluster.NotLeader{Leader: cluster.Peer{ID: "n2", Address: "h2:2"}}, status: 307,
			want: wire.Problem{Code: "not_leader", Leader: &wire.Node{ID: "n2", Address: "h2:2"}}, index: "40",
		},
	} {
		t.Run(fmt.Sprint(tc.err), func(t *testing.T) {
			b := newRegisterFake()
			b.err = tc.err
			w := do(t, newServer(t, b), "PUT", "/v1/registers/config/a", `{"value":"v","token":9,"lease":"jobs/a"}`)
			p := problemIn(t, w)
			for _, part := range tc.says {
				if !strings.Contains(p.Detail, part) {
					t.Errorf("the detail %q does not say %q", p.Detail, part)
				}
			}
			if strings.Contains(p.Detail, "request_id") || w.Header().Get("Retry-After") != "" {
				t.Errorf("the detail %q or Retry-After %q is of another call", p.Detail, w.Header().Get("Retry-After"))
			}
			if got := w.Header().Get("X-Leasehold-Index"); got != tc.index {
				t.Errorf("X-Leasehold-Index is %s, want %s", got, tc.index)
			}
			tc.want.Type, tc.want.Title, tc.want.Status, tc.want.Detail = "about:blank", http.StatusText(tc.status), tc.status, p.Detail
			if !reflect.DeepEqual(p, tc.want) {
				t.Errorf("got %+v, want %+v", p, tc.want)
			}
		})
	}
}

// A redirected write stays a PUT with its body, as curl -L and Go's client see it.
func TestServer_PutRegister_RedirectIsFollowed(t *testing.T) {
	leader, follower := newRegisterFake(), newRegisterFake()
	to := httptest.NewServer(newServer(t, leader).http.Handler)
	defer to.Close()
	follower.err = &cluster.NotLeader{Leader: cluster.Peer{ID: "n2", Address: to.Listener.Addr().String()}}
	from := httptest.NewServer(newServer(t, follower).http.Handler)
	defer from.Close()
	req, err := http.NewRequest("PUT", from.URL+"/v1/registers/config/a", strings.NewReader(`{"value":"v","token":9}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	if resp.StatusCode != 200 || len(leader.calls) != 1 || !reflect.DeepEqual(leader.calls, follower.calls) {
		t.Errorf("got %d; the leader was asked %v, the follower %v", resp.StatusCode, leader.calls, follower.calls)
	}
}

// A page of another origin can neither write to a register nor revoke.
func TestServer_CrossOrigin_RegistersAndRevoke(t *testing.T) {
	for _, tc := range []struct{ method, path, body string }{
		{"PUT", "/v1/registers/a", `{"value":"v"}`},
		{"POST", "/v1/revoke", `{"name":"a","token":1,"reason":"r"}`},
	} {
		b := newRegisterFake()
		r := httptest.NewRequest(tc.method, "http://h1:1"+tc.path, strings.NewReader(tc.body))
		r.Header.Set("Origin", "http://evil.example")
		w := recorded(newServer(t, b), r)
		if p := problemIn(t, w); w.Code != 403 || p.Code != "forbidden" || len(b.calls) != 0 {
			t.Errorf("%s: got %d %+v, calls %v", tc.path, w.Code, p, b.calls)
		}
	}
}

// Nothing that is not exactly as documented reaches the backend: each field of
// the new calls absent, null, of each wrong type, and out of bounds.
func TestServer_HostileRegistersAndRevoke(t *testing.T) {
	const put, revoke = "PUT /v1/registers/a", "POST /v1/revoke"
	good := map[string]string{
		put:    `{"value":"v","token":1,"lease":"jobs/a"}`,
		revoke: `{"name":"a","token":1,"reason":"r"}`,
	}
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	token := []string{
		`null`, `true`, `"1"`, `{}`, `[1]`, `0`, `-1`, `-0`, `1.0`, `1e3`, `18446744073709551616`, strings.Repeat("9", 400),
	}
	text := []string{`null`, `1`, `true`, `{}`, `[]`, `"\ud800"`, "\"\xff\""}
	for _, tc := range []struct {
		call, field, stands string
		bad                 []string
	}{
		{put, "value", `"v"`, append([]string{long(lease.MaxValueLen + 1), `"` + strings.Repeat("é", lease.MaxValueLen/2) + `x"`}, text...)},
		{put, "token", `1`, token},
		{put, "lease", `"jobs/a"`, append([]string{`""`, `"a//b"`, `".."`, `"a b"`, long(lease.MaxNameLen + 1)}, text...)},
		{revoke, "name", `"a"`, append([]string{`""`, `"a//b"`, `".."`, `"a b"`, long(lease.MaxNameLen + 1)}, text...)},
		{revoke, "token", `1`, token},
		{revoke, "reason", `"r"`, append([]string{`""`, `"a\nb"`, `"\u0000"`, long(lease.MaxReasonLen + 1)}, text...)},
	} {
		for _, bad := range tc.bad {
			t.Run(tc.call+" "+tc.field+" "+clip(bad), func(t *testing.T) {
				method, target, _ := strings.Cut(tc.call, " ")
				body := strings.Replace(good[tc.call], `"`+tc.field+`":`+tc.stands, `"`+tc.field+`":`+bad, 1)
				if body == good[tc.call] {
					t.Fatal("nothing was changed")
				}
				checkRefused(t, method, target, body, 400, "invalid_argument", tc.field, "")
			})
		}
	}
	for _, tc := range []struct{ call, body, field, says string }{
		{put, ``, "body", "empty"},
		{put, `{}`, "value", "missing"},
		{put, `{"token":1}`, "value", "missing"},
		{put, `{"value":"v","lease":"a"}`, "token", "missing"}, // absent is not 0
		{put, `{"value":"v","value":"w"}`, "value", "twice"},
		{put, `{"Value":"v"}`, "Value", "did you mean"},
		{put, `{"name":"a","value":"v"}`, "name", "not a field"},
		{put, `{"value":"v","holder":"h"}`, "holder", "not a field"},
		{put, `{"value":"v"}{}`, "body", "after the end"},
		{put + "?consistency=stale", `{"value":"v"}`, "consistency", "none"},
		{revoke, `{"token":1,"reason":"r"}`, "name", "missing"},
		{revoke, `{"name":"a","reason":"r"}`, "token", "missing"},
		{revoke, `{"name":"a","token":1}`, "reason", "missing"},
		{revoke, `{"name":"a","token":1,"reason":"r","holder":"h"}`, "holder", "not a field"},
		{revoke + "?request_id=r", good[revoke], "request_id", "none"},
		{"GET /v1/registers/a?consistency=strong", "", "consistency", "linearizable or stale"},
		{"GET /v1/registers/", "", "name", "empty"},
		{"PUT /v1/registers/", `{"value":"v"}`, "name", "empty"},
	} {
		method, target, _ := strings.Cut(tc.call, " ")
		checkRefused(t, method, target, tc.body, 400, "invalid_argument", tc.field, tc.says)
	}
	checkRefused(t, "GET", "/v1/registers", "", 404, "not_found", "", "")
	checkRefused(t, "PUT", "/v1/registers", `{"value":"v"}`, 404, "not_found", "", "")
	checkRefused(t, "PUT", "/v1/registers/a", `{"value":"`+strings.Repeat("v", maxBody)+`"}`, 413, "body_too_large", "", "65536")
}
