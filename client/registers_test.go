package client

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"leasehold/httpapi/wire"
	"leasehold/lease"
)

func answerWritten(w http.ResponseWriter) {
	answerJSON(w, http.StatusOK, wire.Write{Name: "config", Index: 20, HighestToken: 7})
}

// A write is one PUT with what the caller gave and nothing else; a redirect keeps
// it as it is.
func TestAPI_PutRegister_FollowsARedirect(t *testing.T) {
	leader := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerWritten(w) })
	follower := serve(t, sendTo(leader))
	got, err := dial(t, follower.URL).PutRegister(t.Context(), "config/a", wire.WriteRequest{Value: "<v>", Token: 7, Lease: "jobs/a"})
	if err != nil || got.Index != 20 {
		t.Fatalf("%+v, %v", got, err)
	}
	want := sent{"PUT", "/v1/registers/config/a?via=n2", `{"value":"\u003cv\u003e","token":7,"lease":"jobs/a"}`}
	if all := leader.got(); len(all) != 1 || all[0] != want {
		t.Errorf("the leader got %q, want %q", all, want)
	}
	if _, err := dial(t, leader.URL).PutRegister(t.Context(), "config/a", wire.WriteRequest{}); err != nil {
		t.Fatal(err)
	}
	if body := leader.got()[1].body; body != `{"value":""}` {
		t.Errorf("an empty value without a token is %q", body)
	}
}

// A write whose outcome is unknown is not sent again, not even to another server:
// the second one could undo what came between.
func TestAPI_PutRegister_UnknownOutcome_IsNotRepeated(t *testing.T) {
	for name, fail := range map[string]func(http.ResponseWriter){
		"connection broken": breakOff,
		"504":               func(w http.ResponseWriter) { answerProblem(w, http.StatusGatewayTimeout, "outcome_unknown") },
	} {
		f := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				fail(w)
				return
			}
			answerWritten(w)
		})
		other := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerWritten(w) })
		_, err := dial(t, f.URL, other.URL).PutRegister(t.Context(), "config", wire.WriteRequest{Value: "v", Token: 7})
		var e *Error
		if !errors.Is(err, ErrUnknown) || !errors.As(err, &e) || e.Code != "outcome_unknown" {
			t.Errorf("%s: %v, want ErrUnknown", name, err)
		}
		if n := len(f.got()) + len(other.got()); n != 1 {
			t.Errorf("%s: it was sent %d times, want once", name, n)
		}
	}
}

// Tries of a write that surely had no effect are repeated like those of any other
// call.
func TestAPI_PutRegister_NothingHappened_IsRepeated(t *testing.T) {
	f := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n <= 2 {
			answerProblem(w, http.StatusServiceUnavailable, "no_leader")
			return
		}
		answerWritten(w)
	})
	if _, err := dial(t, dead(t), f.URL).PutRegister(t.Context(), "config", wire.WriteRequest{Value: "v"}); err != nil {
		t.Error(err)
	}
	if n := len(f.got()); n != 3 {
		t.Errorf("it was sent %d times, want 3", n)
	}
}

// A refused write is an error of its own kind, which says what the register has
// seen.
func TestAPI_PutRegister_StaleToken(t *testing.T) {
	f := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, http.StatusPreconditionFailed, wire.Problem{Status: 412, Code: "stale_token", HighestToken: 12, How: "revoked", Index: 9})
	})
	_, err := dial(t, f.URL).PutRegister(t.Context(), "config", wire.WriteRequest{Value: "v", Token: 7})
	var e *Error
	if !errors.Is(err, lease.ErrStaleToken) || !errors.As(err, &e) || e.HighestToken != 12 || e.How != "revoked" || e.Index != 9 {
		t.Errorf("%+v", err)
	}
	if n := len(f.got()); n != 1 {
		t.Errorf("it was sent %d times, want once", n)
	}
}

// Text that JSON cannot carry is refused before anything is sent.
func TestAPI_PutRegister_InvalidUTF8(t *testing.T) {
	f := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answerWritten(w) })
	for _, w := range []wire.WriteRequest{{Value: "\xff"}, {Value: "v", Token: 1, Lease: "\xff"}} {
		if _, err := dial(t, f.URL).PutRegister(t.Context(), "config", w); err == nil || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%+v: %v", w, err)
		}
	}
	if len(f.got()) != 0 {
		t.Error("the server was asked")
	}
}

// A register is read from the leader, or from any server if it may be stale.
func TestAPI_Register(t *testing.T) {
	f := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, http.StatusOK, wire.Register{Name: "a/b", Value: "v", Writes: []wire.RegisterWrite{{Index: 3, Verdict: "accepted"}}})
	})
	c := dial(t, f.URL)
	for consistency, uri := range map[Consistency]string{
		"": "/v1/registers/a/b", Linearizable: "/v1/registers/a/b?consistency=linearizable", Stale: "/v1/registers/a/b?consistency=stale",
	} {
		reg, err := c.Register(t.Context(), "a/b", consistency)
		if err != nil || reg.Value != "v" || len(reg.Writes) != 1 {
			t.Errorf("%+v, %v", reg, err)
		}
		all := f.got()
		if last := all[len(all)-1]; last.method != "GET" || last.uri != uri {
			t.Errorf("asked %q, want %q", last, uri)
		}
	}
}

// A revoke whose answer was lost is repeated, for that is no second revoke; one
// that came too late is the refusal that a lost lease is.
func TestAPI_Revoke(t *testing.T) {
	f := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			breakOff(w)
		case 2:
			answerJSON(w, http.StatusOK, wire.Revoke{Name: "jobs/a", Token: 7, Index: 9, Already: true})
		default:
			answerProblem(w, http.StatusGone, "lease_lost")
		}
	})
	c := dial(t, f.URL)
	revoke := wire.RevokeRequest{Name: "jobs/a", Token: 7, Reason: "stuck"}
	got, err := c.Revoke(within(t, 5*time.Second), revoke)
	if err != nil || !got.Already || got.Index != 9 {
		t.Errorf("%+v, %v", got, err)
	}
	want := sent{"POST", "/v1/revoke", `{"name":"jobs/a","token":7,"reason":"stuck"}`}
	if all := f.got(); len(all) != 2 || all[0] != want || all[1] != want {
		t.Errorf("sent %q, want twice %q", all, want)
	}
	if _, err := c.Revoke(t.Context(), revoke); !errors.Is(err, lease.ErrLost) {
		t.Errorf("a revoke that came too late: %v", err)
	}
}
