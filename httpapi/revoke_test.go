package httpapi

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"leasehold/cluster"
	"leasehold/lease"
)

// A revoke names the entry that ended the grant, which for a repeated one is not
// its own.
func TestServer_Revoke(t *testing.T) {
	b := newFake()
	s := newServer(t, b)
	const body = `{"name":"jobs/a","token":12,"reason":"stuck since noon"}`
	b.outcome.Result.Lease, b.outcome.Result.Ended = nil, &lease.Ended{Index: 20}
	checkAnswer(t, s, "POST", "/v1/revoke", body, `{"name":"jobs/a","token":12,"index":20,"already":false}`, "20")
	b.outcome.Result.Ended, b.outcome.Result.Already = &lease.Ended{Index: 18}, true
	checkAnswer(t, s, "POST", "/v1/revoke?via=n2", body, `{"name":"jobs/a","token":12,"index":18,"already":true}`, "20")
	cmd := lease.Revoke{Name: "jobs/a", Token: 12, Reason: "stuck since noon"}
	if want := []any{cmd, cmd}; !reflect.DeepEqual(b.calls, want) {
		t.Errorf("the backend was asked %+v, want %+v", b.calls, want)
	}
}

// An operator whose revoke came too late is told who holds the lease now; the
// former holder is told of the operator's reason.
func TestServer_Revoke_Explains(t *testing.T) {
	b := newFake()
	s := newServer(t, b)
	b.err = refusal(nil, fakeLease, lease.Event{Cause: lease.ErrLost, Token: 9})
	p := problemIn(t, do(t, s, "POST", "/v1/revoke", `{"name":"jobs/a","token":9,"reason":"r"}`))
	if p.Status != 410 || p.Code != "lease_lost" || p.Lease == nil || p.Lease.Token != 12 ||
		!strings.Contains(p.Detail, "no such grant") || !strings.Contains(p.Detail, "nothing was revoked") || strings.Contains(p.Detail, "acquire") {
		t.Errorf("got %+v", p)
	}
	revoked := &lease.Ended{Name: "jobs/a", Token: 12, Holder: "h", How: lease.Revoked, Reason: "stuck since noon", Index: 18}
	e := refusal(revoked, nil, lease.Event{Cause: lease.ErrLost, Token: 12, Other: 18})
	e.Last, b.err = revoked, e
	for call, body := range map[string]string{
		"/v1/renew":   `{"name":"jobs/a","holder":"h","token":12}`,
		"/v1/release": `{"name":"jobs/a","holder":"h","token":12}`,
	} {
		p := problemIn(t, do(t, s, "POST", call, body))
		if p.Status != 410 || p.Code != "lease_lost" || p.How != "revoked" || p.Index != 18 || p.Token != 12 ||
			!strings.Contains(p.Detail, "an operator revoked it at index 18: stuck since noon") {
			t.Errorf("%s: got %+v", call, p)
		}
		if last := p.Lease.Last; last == nil || last.How != "revoked" || last.Reason != "stuck since noon" {
			t.Errorf("%s: the last grant is %+v", call, last)
		}
	}
}

// A lease that is cooling has no grant to show, but since when and for how long
// it is closed, and who waits. A grant shows the lock delay that will follow it.
func TestServer_CoolingLease(t *testing.T) {
	b := newFake()
	s := newServer(t, b)
	const place = `,"cluster_id":"c1","term":3,"index":30`
	revoked := &lease.Ended{Name: "jobs/a", Token: 12, Holder: "h", How: lease.Revoked, Reason: "stuck", Index: 18, At: 1_700_000_000_123}
	b.view = cluster.LeaseView{
		Name: "jobs/a", Last: revoked, Remaining: 2500*time.Millisecond + 1,
		Lease: &lease.Lease{Name: "jobs/a", Waiters: 2, Cooldown: &lease.Cooldown{Token: 12, Since: 18, Delay: 5 * time.Second, At: 1_700_000_000_123}},
	}
	const head, tail = `{"name":"jobs/a","state":"cooling","lock_delay_ms":5000,"cooling_since":18,`, `"renewals":0,"waiters":2,`
	const last = `"last":{"token":12,"holder":"h","how":"revoked","reason":"stuck","index":18,"at":"2023-11-14T22:13:20.123Z","why":"an operator revoked it at index 18: stuck"}`
	checkAnswer(t, s, "GET", "/v1/leases/jobs/a", "", head+`"remaining_ms":2501,`+tail+last+place+`}`, "30") // rounded up: it is waited for
	b.view.Remaining = -1
	checkAnswer(t, s, "GET", "/v1/leases/jobs/a", "", head+tail+last+place+`}`, "30")
	b.view.Last = nil // more grants have ended since than are remembered
	checkAnswer(t, s, "GET", "/v1/leases/jobs/a", "", head+tail+
		`"last":{"token":12,"holder":"","how":"","index":18,"at":"2023-11-14T22:13:20.123Z","why":"it expired or was revoked at index 18; more is no longer known"}`+place+`}`, "30")

	g := *fakeGrant
	g.LockDelay = 3 * time.Second
	b.view = cluster.LeaseView{Name: "jobs/a", Lease: &lease.Lease{Name: "jobs/a", Grant: &g, Waiters: 7}, Remaining: -1}
	if got := do(t, s, "GET", "/v1/leases/jobs/a", "").Body.String(); !strings.Contains(got, `"ttl_ms":10000,"lock_delay_ms":3000,`) || !strings.Contains(got, `"waiters":7`) {
		t.Errorf("got %s", got)
	}
}

// A request that waits shows its place, and one that ended by a revoke the reason.
func TestServer_Requests_QueuedAndRevoked(t *testing.T) {
	b := newFake()
	b.views = []cluster.RequestView{
		{Name: "jobs/a", Holder: "h", Waiter: &lease.Waiter{Name: "jobs/a", Holder: "h", RequestID: "r1", Place: 17}},
		{Name: "jobs/b", Holder: "g", Ended: &lease.Ended{Name: "jobs/b", Token: 9, Holder: "g", How: lease.Revoked, Reason: "stuck", Index: 11}},
	}
	checkAnswer(t, newServer(t, b), "GET", "/v1/requests/r1", "",
		`[{"name":"jobs/a","holder":"h","state":"queued","token":0,"index":17},`+
			`{"name":"jobs/b","holder":"g","state":"ended","token":9,"how":"revoked","reason":"stuck","index":11}]`, "30")
}
