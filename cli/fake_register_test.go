package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"leasehold/httpapi"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// revoke and putRegister are what a node makes of these calls.
func (n *fakeNode) revoke(w http.ResponseWriter, r *http.Request) {
	var a wire.RevokeRequest
	json.NewDecoder(r.Body).Decode(&a)
	res := n.apply(lease.Revoke(a))
	if res.Err != nil {
		answer(w, 410, wire.Problem{Code: "lease_lost", Detail: "no such grant"})
		return
	}
	answer(w, 200, wire.Revoke{Name: a.Name, Token: a.Token, Index: res.Ended.Index, Already: res.Already})
}

func (n *fakeNode) putRegister(w http.ResponseWriter, r *http.Request) {
	var a wire.WriteRequest
	json.NewDecoder(r.Body).Decode(&a)
	name := strings.TrimPrefix(r.URL.Path, "/v1/registers/")
	res := n.apply(lease.Write{Register: name, Value: a.Value, Token: a.Token, Lease: a.Lease})
	reg := res.Register
	if res.Err != nil {
		answer(w, 412, wire.Problem{Code: "stale_token", Detail: "token is stale", HighestToken: reg.HighestToken})
		return
	}
	answer(w, 200, wire.Write{
		Name: name, Value: a.Value, Index: n.index, Token: a.Token, Lease: a.Lease, Fenced: a.Token != 0, Verdict: "accepted",
		HighestToken: reg.HighestToken, Accepted: reg.Accepted, Refused: reg.Refused, ClusterID: "c1", Term: 1,
	})
}

func (n *fakeNode) getRegister(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/v1/registers/")
	reg := httpapi.RegisterOf(name, n.table.Register(name))
	reg.Index = n.index
	answer(w, 200, reg)
}

func (n *fakeNode) apply(c lease.Command) lease.Result {
	n.index++
	return n.table.Apply(lease.Entry{Index: n.index, Term: 1, At: time.Now().Add(-150 * time.Minute).UnixMilli()}, c)
}
