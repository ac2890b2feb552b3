package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster/clustertest"
	"leasehold/faults"
	"leasehold/faults/lab"
	"leasehold/httpapi/wire"
)

// labNodes is a lab of three nodes with servers, in a bubble, and a client.
type labNodes struct {
	*clustertest.Cluster
	t    *testing.T
	http *http.Client
}

func inLab(t *testing.T, f func(t *testing.T, x *labNodes)) {
	synctest.Test(t, func(t *testing.T) {
		x := &labNodes{t: t, Cluster: clustertest.New(t, 3, clustertest.Options{Lab: true, Seed: 1})}
		for _, id := range x.Running() {
			s := newServer(t, x.Node(id))
			s.lab = x.Lab(id)
			go s.Serve(x.Node(id).HTTP())
			t.Cleanup(func() { s.Close() })
		}
		network := x.Net.Host("client")
		transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return network.Dial(ctx, address) }}
		t.Cleanup(transport.CloseIdleConnections)
		x.http = &http.Client{Transport: transport}
		f(t, x)
	})
}

// send asks a node for a call.
func (x *labNodes) send(id, method, path, body string) (status int, answer string, err error) {
	r, err := http.NewRequest(method, "http://"+clustertest.AddressOf(id)+path, strings.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	if method == "POST" {
		r.GetBody = nil // or net/http would follow a redirect, or send it again, by itself
	}
	resp, err := x.http.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// must asks a node for a call and wants 200.
func (x *labNodes) must(id, method, path, body string) string {
	x.t.Helper()
	status, answer, err := x.send(id, method, path, body)
	if err != nil || status != 200 {
		x.t.Fatalf("%s asked %s %s %s: %d %s, %v", id, method, path, body, status, answer, err)
	}
	return answer
}

const labAcquire = `{"name":"jobs/a","holder":"h","ttl_ms":60000,"request_id":"r1"}`

// A request whose answer is dropped was carried out: the grant is made, stays, and the
// same request id gets it again. A node that only sends the request on drops nothing.
func TestFaults_DropReply(t *testing.T) {
	inLab(t, func(t *testing.T, x *labNodes) {
		leader, follower := x.Leader().ID(), x.Follower().ID()
		for _, id := range []string{leader, follower} {
			x.must(id, "POST", "/v1/faults", `{"fault":"drop_reply","count":1,"duration_ms":60000}`)
		}
		if status, _, err := x.send(follower, "POST", "/v1/acquire", labAcquire); status != 307 {
			t.Errorf("from the follower: %d, %v", status, err)
		}
		if status, _, err := x.send(leader, "POST", "/v1/acquire", labAcquire); !errors.Is(err, io.EOF) {
			t.Errorf("got %d, %v, want a connection that was closed", status, err)
		}
		if left := x.Lab(follower).List(); len(left) != 1 || left[0].Left() != 1 {
			t.Error("a redirect was dropped")
		}
		if !x.Lab(leader).Quiet() {
			t.Error("the fault has done its count and goes on")
		}
		time.Sleep(5 * time.Second) // time to take it back, if the node thought that nobody has it
		var l wire.Lease
		var g wire.Grant
		unmarshal(t, x.must(leader, "GET", "/v1/leases/jobs/a", ""), &l)
		unmarshal(t, x.must(leader, "POST", "/v1/acquire", labAcquire), &g)
		if l.Holder != "h" || !g.Replayed || g.Token != l.Token {
			t.Errorf("the lease is %+v, the repeated acquire got %+v", l, g)
		}
	})
}

// With a path only answers to requests of that path are dropped, refusals by the log
// too; what was not carried out is answered.
func TestFaults_DropReply_Path(t *testing.T) {
	inLab(t, func(t *testing.T, x *labNodes) {
		leader := x.Leader().ID()
		x.must(leader, "POST", "/v1/acquire", labAcquire)
		x.must(leader, "POST", "/v1/faults", `{"fault":"drop_reply","count":2,"path":"/v1/acquire","duration_ms":60000}`)
		if status, _, err := x.send(leader, "POST", "/v1/acquire", `{}`); err != nil || status != 400 {
			t.Errorf("a bad request: %d, %v", status, err)
		}
		x.must(leader, "PUT", "/v1/registers/a", `{"value":"v"}`)
		for range 2 {
			if status, _, err := x.send(leader, "POST", "/v1/acquire", `{"name":"jobs/a","holder":"g","ttl_ms":60000}`); !errors.Is(err, io.EOF) {
				t.Errorf("a refusal: %d, %v", status, err)
			}
		}
		if status, _, err := x.send(leader, "POST", "/v1/acquire", `{"name":"jobs/a","holder":"g","ttl_ms":60000}`); status != 409 {
			t.Errorf("after the count: %d, %v", status, err)
		}
	})
}

func unmarshal(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// A cut to clients stalls requests on the connections that there are and on new ones,
// those about faults too, until it heals by itself. The answer to the request that
// began it gets away. The cluster goes on meanwhile.
func TestFaults_Cut_Clients(t *testing.T) {
	inLab(t, func(t *testing.T, x *labNodes) {
		leader := x.Leader()
		start := time.Now()
		x.must(leader.ID(), "POST", "/v1/faults", `{"fault":"cut","peers":["clients"],"duration_ms":3000}`)
		if took := time.Since(start); took > 0 {
			t.Errorf("the answer of the one who cut came after %v", took)
		}
		term := leader.Status().Term
		done := make(chan time.Duration, 3)
		for _, path := range []string{"/v1/status", "/v1/faults", "/v1/leases"} {
			go func() {
				x.must(leader.ID(), "GET", path, "")
				done <- time.Since(start)
			}()
		}
		for range 3 {
			if took := <-done; took != 3*time.Second {
				t.Errorf("a request was answered after %v, want 3s", took)
			}
		}
		if leader.Status().Term != term {
			t.Error("Raft has noticed")
		}
	})
}

// What clients send over a link that is cut one way is carried out, and its answer
// stalls; the other way it is not carried out before the cut heals.
func TestFaults_Cut_Clients_OneWay(t *testing.T) {
	for direction, carriedOut := range map[string]bool{"out": true, "in": false} {
		inLab(t, func(t *testing.T, x *labNodes) {
			leader := x.Leader()
			x.must(leader.ID(), "GET", "/livez", "") // a connection is there
			x.must(leader.ID(), "POST", "/v1/faults", `{"fault":"jam","peers":["clients"],"direction":"`+direction+`","duration_ms":3000}`)
			done := make(chan string, 1)
			go func() { done <- x.must(leader.ID(), "POST", "/v1/acquire", labAcquire) }()
			time.Sleep(time.Second)
			if made := leader.Status().Leases == 1; made != carriedOut {
				t.Errorf("%s: the request was carried out: %v, want %v", direction, made, carriedOut)
			}
			start := time.Now()
			var g wire.Grant
			if unmarshal(t, <-done, &g); time.Since(start) != 2*time.Second || g.Token == 0 {
				t.Errorf("%s: answered after another %v with %+v", direction, time.Since(start), g)
			}
		})
	}
}

// A node answers about its own faults whoever leads, shows them in its status, and
// heals them when it is told to.
func TestFaults_ListAndHeal(t *testing.T) {
	inLab(t, func(t *testing.T, x *labNodes) {
		follower := x.Follower().ID()
		var begun wire.Fault
		unmarshal(t, x.must(follower, "POST", "/v1/faults", ` {"fault":"delay","peers":["n9"],"delay_ms":5,"duration_ms":60000}`), &begun)
		x.must(follower, "POST", "/v1/faults", `{"fault":"clock_stall","duration_ms":1000}`)
		time.Sleep(1500 * time.Millisecond)
		var list, healed wire.Faults
		var st wire.Status
		unmarshal(t, x.must(follower, "GET", "/v1/faults", ""), &list)
		unmarshal(t, x.must(follower, "GET", "/v1/status", ""), &st)
		if len(list.Faults) != 1 || list.Node != follower || list.Faults[0].ID != begun.ID || list.Faults[0].RemainingMillis != 58_500 || list.Faults[0].Kind != faults.Delay {
			t.Errorf("on are %+v", list)
		}
		if !st.Lab || len(st.Faults) != 1 || st.Faults[0].ID != begun.ID {
			t.Errorf("the status says lab %v with %+v", st.Lab, st.Faults)
		}
		unmarshal(t, x.must(follower, "DELETE", "/v1/faults/"+begun.ID, ""), &healed)
		if len(healed.Faults) != 1 || !x.Lab(follower).Quiet() {
			t.Errorf("healed are %+v", healed)
		}
		for i, id := range x.Running() {
			if on := !x.Lab(id).Quiet(); on {
				t.Errorf("%d faults are on in %s", i, id)
			}
		}
	})
}

// A node whose wall clock is wrong says so in the date of its answers.
func TestFaults_WallShift_Date(t *testing.T) {
	s := newServer(t, newFake())
	s.lab = lab.New(nil, 1)
	defer s.lab.Close()
	if _, err := s.lab.Begin(faults.Fault{Kind: faults.WallShift, ShiftMillis: 3_600_000, DurationMillis: 60_000}); err != nil {
		t.Fatal(err)
	}
	date, err := http.ParseTime(do(t, s, "GET", "/livez", "").Header().Get("Date"))
	if ahead := time.Until(date); err != nil || ahead < 59*time.Minute || ahead > 61*time.Minute {
		t.Errorf("the date is %v from now, %v", ahead, err)
	}
}

// A node that is no lab refuses, in plain words, whatever the request is.
func TestFaults_NoLab(t *testing.T) {
	s := newServer(t, newFake())
	for _, call := range []string{"GET /v1/faults", "POST /v1/faults", "DELETE /v1/faults", "DELETE /v1/faults/f1"} {
		method, path, _ := strings.Cut(call, " ")
		for _, body := range []string{"", `{"fault":"cut","duration_ms":1000}`, "rubbish"} {
			p := problemIn(t, do(t, s, method, path, body))
			if p.Status != 403 || p.Code != "forbidden" || !strings.Contains(p.Detail, "n1 was not started with --lab") {
				t.Errorf("%s %s: got %+v", call, body, p)
			}
		}
	}
	if w := do(t, s, "GET", "/v1/status", ""); strings.Contains(w.Body.String(), `"faults"`) || !strings.Contains(w.Body.String(), `"lab":false`) {
		t.Errorf("its status is %s", w.Body)
	}
}

// The page of another origin must not make a node fail.
func TestFaults_OtherOrigin(t *testing.T) {
	s := newServer(t, newFake())
	s.lab = lab.New(nil, 1)
	r := request("POST /v1/faults", `{"fault":"clock_stall","duration_ms":60000}`)
	r.Header.Set("Origin", "http://evil.example")
	if p := problemIn(t, recorded(s, r)); p.Status != 403 || !s.lab.Quiet() {
		t.Errorf("got %+v", p)
	}
}
