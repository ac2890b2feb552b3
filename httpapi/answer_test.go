package httpapi

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"leasehold/cluster"
	"leasehold/lease"
)

// checkAnswer compares a whole body, byte for byte: clients of other languages
// see bytes, not our types.
func checkAnswer(t *testing.T, s *Server, method, target, body, want string, index string) {
	t.Helper()
	w := do(t, s, method, target, body)
	if got := w.Body.String(); w.Code != 200 || got != want+"\n" {
		t.Errorf("%s %s: got %d\n%s, want\n%s", method, target, w.Code, got, want)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %q", got)
	}
	checkPlace(t, w.Header())
	if got := w.Header().Get("X-Leasehold-Index"); got != index {
		t.Errorf("%s %s: X-Leasehold-Index is %s, want %s", method, target, got, index)
	}
}

const fakeLeaseJSON = `{"name":"jobs/a","state":"held","holder":"h","token":12,"ttl_ms":10000,"remaining_ms":1,"value":"v",` +
	`"request_id":"r1","granted_at":"2023-11-14T22:13:20.123Z","renewed_at":"2023-11-14T22:13:21.000Z","renewals":1,"waiters":0,` +
	`"last":{"token":9,"holder":"g","how":"expired","index":11,"why":"g did not renew it within its TTL; it expired at index 11"`

// The commands reach the backend as they were sent, and the answers carry what
// it said and the index of the entry.
func TestServer_Writes(t *testing.T) {
	b := newFake()
	s := newServer(t, b)
	const granted = `{"name":"jobs/a","holder":"h","token":12,"ttl_ms":10000,"remaining_ms":4500,"value":"v",` +
		`"request_id":"r1","replayed":false,"cluster_id":"c1","term":3,"index":20}`

	checkAnswer(t, s, "POST", "/v1/acquire", `{"name":"jobs/a","holder":"h","ttl_ms":10000,"request_id":"r1","value":"v","reclaim":true}`, granted, "20")
	checkAnswer(t, s, "POST", "/v1/acquire?via=n2&request_id=r1", `{"name":"jobs/a","holder":"h","ttl_ms":10000,"request_id":"r1"}`, granted, "20")
	checkAnswer(t, s, "POST", "/v1/renew", `{"name":"jobs/a","holder":"h","token":12}`, granted, "20")
	b.outcome.Result.Lease, b.outcome.Result.Ended = nil, &lease.Ended{Index: 20}
	checkAnswer(t, s, "POST", "/v1/release", `{"name":"jobs/a","holder":"h","token":12}`, `{"name":"jobs/a","token":12,"index":20,"already":false}`, "20")
	// A repeated release names the entry of the first one.
	b.outcome.Result.Ended, b.outcome.Result.Already = &lease.Ended{Index: 18}, true
	checkAnswer(t, s, "POST", "/v1/release", `{"name":"jobs/a","holder":"h","token":12}`, `{"name":"jobs/a","token":12,"index":18,"already":true}`, "20")

	want := []any{
		lease.Acquire{Name: "jobs/a", Holder: "h", TTL: 10 * time.Second, RequestID: "r1", Value: "v", Reclaim: true},
		lease.Acquire{Name: "jobs/a", Holder: "h", TTL: 10 * time.Second, RequestID: "r1"},
		lease.Renew{Name: "jobs/a", Holder: "h", Token: 12},
		lease.Release{Name: "jobs/a", Holder: "h", Token: 12},
		lease.Release{Name: "jobs/a", Holder: "h", Token: 12},
	}
	if !reflect.DeepEqual(b.calls, want) {
		t.Errorf("the backend was asked\n%+v, want\n%+v", b.calls, want)
	}
}

// A renew keeps what is absent apart from what is empty, and text is taken as it
// is written, escapes and all.
func TestServer_RenewOptions(t *testing.T) {
	b := newFake()
	do(t, newServer(t, b), "POST", "/v1/renew",
		` { "token" : 18446744073709551615 , "value" : "" , "holder" : "\u00e9\ud83d\ude00" , "name":"jobs\/a","ttl_ms":100 } `)
	want := lease.Renew{Name: "jobs/a", Holder: "é😀", Token: 1<<64 - 1, TTL: 100 * time.Millisecond, Value: new("")}
	if len(b.calls) != 1 || !reflect.DeepEqual(b.calls[0], want) {
		t.Errorf("the backend was asked %+v, want %+v", b.calls, want)
	}
}

// An acquire without a request id gets one before the backend sees it, another
// one each time; one in the query will do.
func TestServer_RequestID(t *testing.T) {
	b := newFake()
	s := newServer(t, b)
	for _, target := range []string{"/v1/acquire", "/v1/acquire", "/v1/acquire?request_id=mine"} {
		do(t, s, "POST", target, acquireBody)
	}
	var ids []string
	for _, c := range b.calls {
		id := c.(lease.Acquire).RequestID
		if err := lease.CheckRequestID(id); err != nil {
			t.Error(err)
		}
		ids = append(ids, id)
	}
	if len(ids) != 3 || ids[0] == ids[1] || !strings.HasPrefix(ids[0], "r-") || ids[2] != "mine" {
		t.Errorf("request ids are %q", ids)
	}
}

// Remaining time is rounded down and stays within 0 and the TTL.
func TestRemaining(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		-time.Second: 0, 0: 0, time.Microsecond: 0, 1999 * time.Microsecond: 1, time.Second: 1000, time.Second + 1: 1000, time.Hour: 1000,
	} {
		if got := remaining(d, time.Second); got != want {
			t.Errorf("remaining(%v) is %d, want %d", d, got, want)
		}
	}
}

// Reads pass their query on, and say what state they were made from.
func TestServer_Reads(t *testing.T) {
	b := newFake()
	s := newServer(t, b)
	const place = `,"cluster_id":"c1","term":3,"index":30`
	checkAnswer(t, s, "GET", "/v1/leases/jobs/a", "", fakeLeaseJSON+`}`+place+`}`, "30")
	checkAnswer(t, s, "GET", "/v1/leases/jobs/a?consistency=linearizable&via=n2", "", fakeLeaseJSON+`}`+place+`}`, "30")

	b.view.Remaining, b.read.LastContact = -1, 12*time.Millisecond
	noRemaining := strings.Replace(fakeLeaseJSON, `"remaining_ms":1,`, "", 1)
	checkAnswer(t, s, "GET", "/v1/leases/jobs/a?consistency=stale", "", noRemaining+`}`+place+
		`,"stale":true,"applied_index":30,"leader":{"id":"n1","address":"h1:1"},"last_contact_ms":12}`, "30")

	b.view.Lease, b.view.Last, b.read.Leader, b.read.LastContact = nil, nil, cluster.Peer{}, -1
	checkAnswer(t, s, "GET", "/v1/leases/jobs/a", "", `{"name":"jobs/a","state":"free","renewals":0,"waiters":0`+place+`}`, "30")

	checkAnswer(t, s, "GET", "/v1/leases", "", `{"leases":[],"next":"","index":30}`, "30")
	b.page = cluster.LeasePage{Leases: []cluster.LeaseView{{Name: "jobs/a", Lease: fakeLease, Remaining: -1}}, Next: "jobs/a"}
	checkAnswer(t, s, "GET", "/v1/leases?prefix=jobs/&after=jobs%2FA&limit=1000&consistency=stale", "",
		`{"leases":[`+noRemaining[:strings.Index(noRemaining, `,"last"`)]+`}],"next":"jobs/a","index":30,`+
			`"stale":true,"applied_index":30,"leader":null,"last_contact_ms":null}`, "30")

	checkAnswer(t, s, "GET", "/v1/requests/r1", "", `[]`, "30")
	b.views = []cluster.RequestView{{Name: "jobs/a", Holder: "h", Grant: fakeGrant}, {Name: "jobs/a", Holder: "g", Ended: fakeEnded}}
	checkAnswer(t, s, "GET", "/v1/requests/%2e%2e?consistency=stale", "",
		`[{"name":"jobs/a","holder":"h","state":"granted","token":12,"index":12},`+
			`{"name":"jobs/a","holder":"g","state":"ended","token":9,"how":"expired","index":11}]`, "30")

	want := []any{
		[]any{"lease", "jobs/a", cluster.Linearizable},
		[]any{"lease", "jobs/a", cluster.Linearizable},
		[]any{"lease", "jobs/a", cluster.Stale},
		[]any{"lease", "jobs/a", cluster.Linearizable},
		[]any{"leases", cluster.LeaseQuery{Limit: 100}, cluster.Linearizable},
		[]any{"leases", cluster.LeaseQuery{Prefix: "jobs/", After: "jobs/A", Limit: 1000}, cluster.Stale},
		[]any{"requests", "r1", cluster.Linearizable},
		[]any{"requests", "..", cluster.Stale},
	}
	if !reflect.DeepEqual(b.calls, want) {
		t.Errorf("the backend was asked\n%v, want\n%v", b.calls, want)
	}
}

// The node's own calls say what the node says; their place in the log is what
// it has applied.
func TestServer_NodeCalls(t *testing.T) {
	b := newFake()
	s := newServer(t, b)
	checkAnswer(t, s, "GET", "/livez", "", `{"live":true}`, "40")
	checkAnswer(t, s, "GET", "/readyz", "", `{"ready":true}`, "40")
	checkAnswer(t, s, "GET", "/v1/status", "", `{"id":"n1","address":"h1:1","role":"follower","term":4,"leader":null,"cluster_id":"",`+
		`"last_index":0,"commit_index":0,"applied_index":40,"snapshot_index":0,"state_hash":"0000000000000abc","last_contact_ms":null,`+
		`"peers":[{"id":"n2","address":"h2:2","reachable":false,"last_heard_ms":null}],"leases":0,"waiters":0,"registers":0,"version":"v0","uptime_ms":0,"lab":false}`, "40")
	checkAnswer(t, s, "GET", "/v1/cluster", "", `{"cluster_id":"","leader":null,"members":[]}`, "40")
	b.members = cluster.Members{ClusterID: "c1", Members: []cluster.Member{{Peer: cluster.Peer{ID: "n1", Address: "h1:1"}, Suffrage: "voter"}}}
	checkAnswer(t, s, "GET", "/v1/cluster", "", `{"cluster_id":"c1","leader":null,"members":[{"id":"n1","address":"h1:1","suffrage":"voter"}]}`, "40")
	if w := do(t, s, "GET", "/version", ""); !strings.Contains(w.Body.String(), `"version":"v0","go":"go1`) {
		t.Errorf("/version says %s", w.Body)
	}
}

// Every kind of log entry shows the fields that it has.
func TestServer_Log(t *testing.T) {
	b := newFake()
	s := newServer(t, b)
	checkAnswer(t, s, "GET", "/v1/log", "", `{"first":0,"last":0,"entries":[]}`, "40")
	b.log = cluster.LogPage{First: 1, Last: 9, Entries: []cluster.LogEntry{
		{Index: 1, Term: 1, Kind: "configuration", Members: []cluster.Member{{Peer: cluster.Peer{ID: "n1", Address: "h1:1"}, Suffrage: "voter"}}},
		{Index: 2, Term: 1, Kind: "noop", At: 1000},
		{Index: 3, Term: 1, Command: lease.Lead{Node: "n1", Address: "h1:1", ClusterID: "c1"}},
		{Index: 4, Term: 1, Command: lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second, Value: "v", Reclaim: true}},
		{Index: 5, Term: 1, Command: lease.Renew{Name: "a", Holder: "h", Token: 4, Value: new("")}},
		{Index: 6, Term: 1, Command: lease.Release{Name: "a", Holder: "h", Token: 4}},
		{Index: 7, Term: 2, Command: lease.Expire{Name: "a", Token: 4, Renewal: 5, Term: 1}},
		{Index: 8, Term: 2, Command: lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second, Wait: 2 * time.Second, LockDelay: 3 * time.Second}},
		{Index: 9, Term: 2, Command: lease.Abandon{Name: "a", Holder: "h", RequestID: "r", Place: 8, Reason: lease.WaitOver}},
		{Index: 10, Term: 2, Command: lease.Revoke{Name: "a", Token: 8, Reason: "stuck"}},
		{Index: 11, Term: 2, Command: lease.Reopen{Name: "a", Token: 8}},
		{Index: 12, Term: 2, Command: lease.Write{Register: "c", Value: "0", Token: 8, Lease: "a"}},
		{Index: 13, Term: 2, Command: lease.Write{Register: "c"}},
	}}
	checkAnswer(t, s, "GET", "/v1/log?from=18446744073709551615&limit=1", "", `{"first":1,"last":9,"entries":[`+strings.Join([]string{
		`{"index":1,"term":1,"at":"","kind":"configuration","members":[{"id":"n1","address":"h1:1","suffrage":"voter"}]}`,
		`{"index":2,"term":1,"at":"1970-01-01T00:00:01.000Z","kind":"noop"}`,
		`{"index":3,"term":1,"at":"","kind":"lead","node":{"id":"n1","address":"h1:1"},"cluster_id":"c1"}`,
		`{"index":4,"term":1,"at":"","kind":"acquire","name":"a","holder":"h","request_id":"r","ttl_ms":1000,"value":"v","reclaim":true}`,
		`{"index":5,"term":1,"at":"","kind":"renew","name":"a","holder":"h","token":4,"value":""}`,
		`{"index":6,"term":1,"at":"","kind":"release","name":"a","holder":"h","token":4}`,
		`{"index":7,"term":2,"at":"","kind":"expire","name":"a","token":4,"renewal":5,"of_term":1}`,
		`{"index":8,"term":2,"at":"","kind":"acquire","name":"a","holder":"h","request_id":"r","ttl_ms":1000,"wait_ms":2000,"lock_delay_ms":3000}`,
		`{"index":9,"term":2,"at":"","kind":"abandon","name":"a","holder":"h","request_id":"r","place":8,"reason":"its wait was over"}`,
		`{"index":10,"term":2,"at":"","kind":"revoke","name":"a","token":8,"reason":"stuck"}`,
		`{"index":11,"term":2,"at":"","kind":"reopen","name":"a","token":8}`,
		`{"index":12,"term":2,"at":"","kind":"write","token":8,"value":"0","register":"c","lease":"a"}`,
		`{"index":13,"term":2,"at":"","kind":"write","value":"","register":"c"}`,
	}, ",")+`]}`, "40")
	want := []any{[]any{"log", uint64(0), 100}, []any{"log", uint64(1<<64 - 1), 1}}
	if !reflect.DeepEqual(b.calls, want) {
		t.Errorf("the backend was asked %v, want %v", b.calls, want)
	}
}

// The address of a node, opened without a path, names every call.
func TestServer_Welcome(t *testing.T) {
	w := do(t, newServer(t, newFake()), "GET", "/", "")
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Fatalf("got %d %v", w.Code, w.Header())
	}
	checkPlace(t, w.Header())
	for _, rt := range routes {
		if path, _, _ := strings.Cut(rt.pattern, "..."); !strings.Contains(w.Body.String(), strings.TrimSuffix(path, "{$}")) {
			t.Errorf("%s is not mentioned", rt.pattern)
		}
	}
}

// The content type of a request is not looked at; curl says that it is a form.
func TestServer_ContentTypeIsIgnored(t *testing.T) {
	for _, contentType := range []string{"", "application/x-www-form-urlencoded", "text/plain", "nonsense/;;"} {
		r, _ := http.NewRequest("POST", "http://h1:1/v1/acquire", strings.NewReader(acquireBody))
		r.Header.Set("Content-Type", contentType)
		if w := recorded(newServer(t, newFake()), r); w.Code != 200 {
			t.Errorf("%q: got %d", contentType, w.Code)
		}
	}
}

// A configuration that cannot work is refused with what is wrong.
func TestConfig_Validate(t *testing.T) {
	good := DefaultConfig()
	good.Backend = newFake()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, spoil := range []func(*Config){
		func(c *Config) { c.Backend = nil },
		func(c *Config) { c.Logger = nil },
		func(c *Config) { c.MinTTL = 0 },
		func(c *Config) { c.MaxTTL = c.MinTTL - 1 },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	// Bounds that are no whole milliseconds are rounded inwards.
	want := bounds{"a whole number of milliseconds", 2, 3}
	if got := ttlBounds(1500*time.Microsecond, 3999*time.Microsecond); got != want {
		t.Errorf("bounds are %v, want %v", got, want)
	}
}
