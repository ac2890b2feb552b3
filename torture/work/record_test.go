package work

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"leasehold/torture/history"
)

// server answers every request in the same way.
type server struct {
	status int
	body   string
	err    error // instead of an answer
	unsent bool  // there was no connection
}

func (s server) RoundTrip(req *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && !s.unsent {
		trace.GotConn(httptrace.GotConnInfo{Conn: &gatedConn{name: "n1#1"}})
	}
	if s.err != nil {
		return nil, s.err
	}
	header := http.Header{"X-Leasehold-Node": {"n1"}, "X-Leasehold-Term": {"3"}, "X-Leasehold-Index": {"9"}}
	return &http.Response{StatusCode: s.status, Header: header, Body: io.NopCloser(strings.NewReader(s.body))}, nil
}

// Each exchange becomes an operation that says no more than its client can know.
func TestRecorder_Outcomes(t *testing.T) {
	const (
		acquire = `{"name":"l","holder":"h","ttl_ms":1000,"request_id":"r"}`
		waiting = `{"name":"l","holder":"h","ttl_ms":1000,"request_id":"r","wait_ms":50}`
		renew   = `{"name":"l","holder":"h","token":7}`
		many    = `{"holder":"h","renewals":[{"name":"l","token":7},{"name":"m","token":8}]}`
	)
	broken := errors.New("connection reset")
	for _, test := range []struct {
		name, method, target, body string
		server
		want []history.Operation // as far as it is given
	}{
		{
			"a grant", "POST", "/v1/acquire", acquire,
			server{status: 200, body: `{"token":9,"index":9,"term":3,"holder":"h","ttl_ms":1000}`},
			[]history.Operation{{Kind: history.Acquire, Name: "l", Outcome: history.OK, Answer: history.Answer{Token: 9, Index: 9}}},
		},
		{
			"of a request that was sent on", "POST", "/v1/acquire?via=n2", acquire,
			server{status: 200, body: `{"token":9,"index":9}`},
			[]history.Operation{{Kind: history.Acquire, Name: "l", Outcome: history.OK, Redirects: 1, Answer: history.Answer{Token: 9, Index: 9}}},
		},
		{
			"a refusal", "POST", "/v1/acquire", acquire,
			server{status: 409, body: `{"code":"held","lease":{"token":5}}`},
			[]history.Operation{{Kind: history.Acquire, Name: "l", Outcome: history.Refused, Code: "held", Answer: history.Answer{Token: 5, Index: 9}}},
		},
		{"a redirect is no operation", "POST", "/v1/acquire", acquire, server{status: 307}, nil},
		{
			"but one too many is", "POST", "/v1/acquire?via=n2", acquire,
			server{status: 307},
			[]history.Operation{{Kind: history.Acquire, Name: "l", Outcome: history.Nothing, Redirects: 2, Answer: history.Answer{Index: 9}}},
		},
		{
			"and one out of the queue", "POST", "/v1/acquire", waiting,
			server{status: 307},
			[]history.Operation{{Kind: history.Acquire, Name: "l", Outcome: history.Unknown, Redirects: 1, Answer: history.Answer{Index: 9}}},
		},
		{
			"no leader", "POST", "/v1/acquire", acquire,
			server{status: 503, body: `{"code":"no_leader","request_id":"r"}`},
			[]history.Operation{{Kind: history.Acquire, Name: "l", Outcome: history.Nothing, Code: "no_leader", Answer: history.Answer{Index: 9}}},
		},
		{
			"no leader, in the queue", "POST", "/v1/acquire", waiting,
			server{status: 503, body: `{"code":"no_leader","request_id":"r"}`},
			[]history.Operation{{Kind: history.Acquire, Name: "l", Outcome: history.Unknown, Code: "no_leader", Answer: history.Answer{Index: 9}}},
		},
		{
			"nobody knows", "POST", "/v1/renew", renew,
			server{status: 504, body: `{"code":"outcome_unknown"}`},
			[]history.Operation{{Kind: history.Renew, Name: "l", Outcome: history.Unknown, Code: "outcome_unknown", Answer: history.Answer{Index: 9}}},
		},
		{
			"a connection that broke", "POST", "/v1/renew", renew,
			server{err: broken},
			[]history.Operation{{Kind: history.Renew, Name: "l", Outcome: history.Unknown}},
		},
		{"one that never was", "POST", "/v1/renew", renew, server{err: broken, unsent: true}, nil},
		{
			"a batch", "POST", "/v1/renew-many", many,
			server{status: 200, body: `{"index":9,"results":[{"name":"l","token":7,"renewed":true},{"name":"m","token":8,"code":"lease_lost","index":6}]}`},
			[]history.Operation{
				{Kind: history.RenewMany, Name: "l", Outcome: history.OK, Answer: history.Answer{Token: 7, Index: 9}},
				{Kind: history.RenewMany, Name: "m", Outcome: history.Refused, Code: "lease_lost", Answer: history.Answer{Index: 9}},
			},
		},
		{
			"a stale read", "GET", "/v1/leases/a/b?consistency=stale", "",
			server{status: 200, body: `{"state":"held","token":4,"stale":true,"applied_index":6}`},
			[]history.Operation{{Kind: history.StaleGet, Name: "a/b", Outcome: history.OK, Answer: history.Answer{Token: 4, Index: 6}}},
		},
		{"nothing that is judged", "GET", "/v1/status", "", server{status: 200, body: `{}`}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := NewLog(history.NewRecorder(nil))
			client := &http.Client{
				Transport:     (&recorder{"c", test.server, log}).transport(),
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}
			req, err := http.NewRequestWithContext(context.Background(), test.method, "http://n1:8000"+test.target, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if (err != nil) != (test.server.err != nil) {
				t.Fatalf("got %v", err)
			}
			if err == nil {
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(body) != test.server.body {
					t.Errorf("the client reads %q, %v", body, err)
				}
			}
			got := log.History().Operations
			if len(got) != len(test.want) {
				t.Fatalf("got %d operations: %+v", len(got), got)
			}
			for i, want := range test.want {
				op := got[i]
				if op.Kind != want.Kind || op.Name != want.Name || op.Outcome != want.Outcome || op.Code != want.Code || op.Redirects != want.Redirects {
					t.Errorf("got %+v, want %+v", op, want)
				}
				if op.Answer.Token != want.Answer.Token || op.Answer.Index != want.Answer.Index || op.Session != "n1#1" || op.Client != "c" {
					t.Errorf("got %+v, want %+v", op, want)
				}
				if (op.Batch != "") != (op.Kind == history.RenewMany) || op.Batch != got[0].Batch {
					t.Errorf("the batch is %q", op.Batch)
				}
			}
		})
	}
}

// What leads to an exchange can say more about it.
func TestRecorder_Notes(t *testing.T) {
	log := NewLog(history.NewRecorder(nil))
	client := &http.Client{Transport: (&recorder{"c", server{status: 200, body: `{}`}, log}).transport()}
	ctx := noting(context.Background(), func(op *history.Operation) { op.Counter = true })
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://n1:8000/v1/registers/r", strings.NewReader(`{"value":"1"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if ops := log.History().Operations; len(ops) != 1 || !ops[0].Counter || *ops[0].Value != "1" || ops[0].Register != "r" {
		t.Errorf("got %+v", ops)
	}
}
