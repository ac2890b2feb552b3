package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/faults"
	"leasehold/faults/lab"
	"leasehold/lease"
)

// scene is a cluster of real nodes, each with a server, and every answer that it
// has given.
type scene struct {
	t       *testing.T
	cluster *clustertest.Cluster
	servers map[string]*Server // by node

	mu      sync.Mutex // guards answers
	answers []answered
}

func newScene(t *testing.T, size int, configure func(*cluster.Config)) *scene {
	x := &scene{t: t, cluster: clustertest.New(t, size, clustertest.Options{Configure: configure}), servers: make(map[string]*Server)}
	for _, id := range x.cluster.Running() {
		x.servers[id] = newServer(t, x.cluster.Node(id))
	}
	return x
}

// ask sends a request to a server and keeps the answer.
func (x *scene) ask(s *Server, r *http.Request) answered {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	a := answered{method: r.Method, path: r.URL.EscapedPath(), status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answers = append(x.answers, a)
	return a
}

// say asks a node for a call and wants an answer with that status.
func (x *scene) say(node, call, body string, status int) {
	x.t.Helper()
	if a := x.ask(x.servers[node], request(call, body)); a.status != status {
		x.t.Errorf("%s asked %s %s: got %d %s, want %d", node, call, body, a.status, a.body, status)
	}
}

// request is a call such as "GET /v1/status" with a body.
func request(call, body string) *http.Request {
	head := call + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + body)))
	if err != nil {
		panic(err) // of the tables below
	}
	return r
}

// The calls, each as a request that is as it should be. Those that are for the
// leader come first, and of them the writes.
var (
	writeCalls = map[string]string{
		"POST /v1/acquire":         `{"name":"x","holder":"h","ttl_ms":1000}`,
		"POST /v1/renew":           `{"name":"x","holder":"h","token":1}`,
		"POST /v1/renew-many":      `{"holder":"h","renewals":[{"name":"x","token":1}]}`,
		"POST /v1/release":         `{"name":"x","holder":"h","token":1}`,
		"POST /v1/revoke":          `{"name":"x","token":1,"reason":"r"}`,
		"PUT /v1/registers/jobs/a": `{"value":"v"}`,
	}
	readCalls = []string{"GET /v1/leases/jobs/a", "GET /v1/leases", "GET /v1/requests/r1", "GET /v1/registers/jobs/a"}
	nodeCalls = []string{"GET /v1/status", "GET /v1/cluster", "GET /v1/log", "GET /livez", "GET /readyz", "GET /version", "GET /openapi.yaml", "GET /"}
)

// everyCall and its body.
func everyCall() map[string]string {
	all := maps.Clone(writeCalls)
	for _, call := range slices.Concat(readCalls, nodeCalls, []string{"GET /v1/events"}) {
		all[call] = ""
	}
	return all
}

// Real nodes give every answer that is described, to the calls for which it is
// described, and no other. Of a bug (500) and of events that are gone only the
// server is real, not what is behind it.
func TestOpenAPI_EveryAnswer(t *testing.T) {
	var answers []answered
	for _, play := range []func(*testing.T) []answered{playInPeace, playBadRequests, playLimits, playFaults, playTrouble, playStepDown, playBugs} {
		synctest.Test(t, func(t *testing.T) { answers = append(answers, play(t)...) })
	}
	for _, fault := range described(t).answerFaults(answers) {
		t.Error(fault)
	}
	if !t.Failed() {
		mutate(t, answers)
	}
}

// answerFaults holds answers against the description, and the description against
// the answers.
func (d *document) answerFaults(answers []answered) (faults []string) {
	seen := make(map[string]bool)
	for _, a := range answers {
		key, bad := d.judge(a)
		seen[key] = true
		for _, fault := range bad {
			faults = append(faults, key+": "+fault)
		}
	}
	for key, o := range d.operations {
		for status, r := range o.replies {
			for _, code := range append(r.codes, "")[:max(1, len(r.codes))] {
				if want := strings.TrimSpace(fmt.Sprint(key, " ", status, " ", code)); !seen[want] {
					faults = append(faults, "never answered: "+want)
				}
			}
		}
	}
	return faults
}

// playInPeace has everything that a cluster answers that works.
func playInPeace(t *testing.T) []answered {
	x := newScene(t, 3, nil)
	leader, follower := x.cluster.Leader().ID(), x.cluster.Follower().ID()
	acquire := func(more string, status int) {
		x.say(leader, "POST /v1/acquire", `{"name":"jobs/a","holder":"h","ttl_ms":60000`+more+`}`, status)
	}
	token := func() uint64 {
		view, _, err := x.cluster.Leader().Lease(t.Context(), "jobs/a", cluster.Linearizable)
		if err != nil || view.Lease.State() != lease.Held {
			t.Fatalf("%+v, %v", view, err)
		}
		return view.Lease.Grant.Token
	}
	by := func(holder string, token uint64) string {
		return fmt.Sprintf(`{"name":"jobs/a","holder":%q,"token":%d}`, holder, token)
	}
	write := func(more string, status int) {
		x.say(leader, "PUT /v1/registers/jobs/a", `{"value":"v"`+more+`}`, status)
	}

	acquire(`,"request_id":"r1","value":"v"`, 200)
	acquire(`,"request_id":"r1"`, 200)
	acquire(``, 409)
	acquire(`,"wait_ms":1000`, 409)
	first := token()
	x.say(leader, "POST /v1/renew", by("h", first), 200)
	x.say(leader, "POST /v1/renew", by("g", first), 409)
	for _, holder := range []string{"h", "g"} {
		x.say(leader, "POST /v1/renew-many", fmt.Sprintf(`{"holder":%q,"renewals":[{"name":"jobs/a","token":%d},{"name":"jobs/b","token":1}]}`, holder, first), 200)
	}
	x.say(leader, "POST /v1/release", by("g", first), 409)
	x.say(leader, "GET /v1/leases/jobs/a", "", 200)
	x.say(follower, "GET /v1/leases/jobs/a?consistency=stale", "", 200)
	var waiting sync.WaitGroup
	waiting.Go(func() { acquire(`,"request_id":"r2","wait_ms":60000`, 200) })
	synctest.Wait()
	time.Sleep(10 * time.Millisecond)
	x.say(leader, "GET /v1/requests/r2", "", 200)
	x.say(follower, "GET /v1/leases?consistency=stale", "", 200)
	write(fmt.Sprintf(`,"token":%d,"lease":"jobs/a"`, first), 200)
	x.say(leader, "POST /v1/release", by("h", first), 200)
	x.say(leader, "POST /v1/release", by("h", first), 200)
	waiting.Wait()
	second := token()
	x.say(leader, "POST /v1/renew", by("h", first), 410)
	x.say(leader, "POST /v1/release", by("h", second+100), 410)
	acquire(`,"request_id":"r1"`, 410)
	acquire(`,"request_id":"r3","reclaim":true,"lock_delay_ms":60000`, 200)
	write(fmt.Sprintf(`,"token":%d,"lease":"jobs/a"`, second), 412)
	write(fmt.Sprintf(`,"token":%d`, token()), 200)
	write(fmt.Sprintf(`,"token":%d`, first), 412)
	write(``, 200)
	revoke := fmt.Sprintf(`{"name":"jobs/a","token":%d,"reason":"r"}`, token())
	x.say(leader, "POST /v1/revoke", revoke, 200)
	x.say(leader, "POST /v1/revoke", revoke, 200)
	x.say(leader, "POST /v1/revoke", fmt.Sprintf(`{"name":"jobs/a","token":%d,"reason":"r"}`, first), 410)
	acquire(``, 409) // it is cooling
	for _, node := range []string{leader, follower} {
		for _, call := range nodeCalls {
			x.say(node, call, "", 200)
		}
		for _, call := range readCalls {
			x.say(node, call+"?consistency=stale", "", 200)
		}
		ctx, hangUp := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		x.ask(x.servers[node], request("GET /v1/events?since=0", "").WithContext(ctx))
		hangUp()
	}
	for _, call := range readCalls {
		x.say(leader, call, "", 200)
		x.say(follower, call, "", 307)
		x.say(follower, call+"?via=n9", "", 503)
	}
	for call, body := range writeCalls {
		x.say(follower, call, body, 307)
		x.say(follower, call+"?via=n9", body, 503)
	}
	return x.answers
}

// playBadRequests has what does not reach the node.
func playBadRequests(t *testing.T) []answered {
	x := newScene(t, 1, nil)
	node := x.cluster.Leader().ID()
	for call, body := range everyCall() {
		x.say(node, call+"?unknown=1", body, 400)
		method, path, _ := strings.Cut(call, " ")
		x.say(node, "DELETE "+path, "", 405)
		x.say(node, method+" /v2"+path, body, 404)
		x.say(node, method+" //"+path, body, 400)
		if body == "" {
			continue
		}
		r := request(call, body)
		r.Header.Set("Origin", "http://evil.example")
		x.ask(x.servers[node], r)
		x.say(node, call, strings.Repeat(" ", maxBody+1), 413)
		r = request(call, body)
		r.Body = io.NopCloser(failingReader{os.ErrDeadlineExceeded}) // see TestServer_SlowBody
		x.ask(x.servers[node], r)
	}
	return x.answers
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// playLimits has a node that is full.
func playLimits(t *testing.T) []answered {
	x := newScene(t, 1, func(c *cluster.Config) { c.MaxLeases, c.MaxWaiters, c.MaxRegisters = 1, 0, 1 })
	node := x.cluster.Leader().ID()
	x.say(node, "POST /v1/acquire", `{"name":"a","holder":"h","ttl_ms":60000}`, 200)
	x.say(node, "POST /v1/acquire", `{"name":"b","holder":"h","ttl_ms":60000}`, 429)
	x.say(node, "POST /v1/acquire", `{"name":"a","holder":"h","ttl_ms":60000,"wait_ms":1000}`, 429)
	x.say(node, "PUT /v1/registers/a", `{"value":"v"}`, 200)
	x.say(node, "PUT /v1/registers/b", `{"value":"v"}`, 429)
	return x.answers
}

// playFaults has two nodes of which one is a lab.
func playFaults(t *testing.T) []answered {
	x := newScene(t, 1, nil)
	node := x.cluster.Leader()
	x.servers["lab"] = newServer(t, node)
	x.servers["lab"].lab = lab.New(nil, 1)
	x.say("lab", "GET /v1/faults", "", 200)
	for _, kind := range faults.NodeKinds() {
		body := `{"fault":"` + string(kind) + `","duration_ms":600000`
		fields, required := kind.Fields()
		for _, name := range fields[:required] {
			body += `,"` + name + `":50`
		}
		x.say("lab", "POST /v1/faults", body+"}", 200)
	}
	x.say("lab", "GET /v1/faults", "", 200)
	x.say("lab", "GET /v1/status", "", 200)
	x.say("lab", "DELETE /v1/faults/f1", "", 200)
	x.say("lab", "DELETE /v1/faults/f1", "", 404)
	x.say("lab", "DELETE /v1/faults/", "", 400)
	x.say("lab", "DELETE /v1/faults/f2", "{}", 400)
	x.say("lab", "DELETE /v1/faults", "", 200)
	for _, call := range []string{"GET /v1/faults", "POST /v1/faults", "DELETE /v1/faults", "DELETE /v1/faults/f1"} {
		x.say(node.ID(), call, "", 403)
		x.say("lab", call+"?unknown=1", "", 400)
		if strings.HasPrefix(call, "GET") {
			continue
		}
		r := request(call, "")
		r.Header.Set("Origin", "http://evil.example")
		x.ask(x.servers["lab"], r)
		x.say("lab", call, strings.Repeat(" ", maxBody+1), 413)
		r = request(call, " ")
		r.Body = io.NopCloser(failingReader{os.ErrDeadlineExceeded}) // see TestServer_SlowBody
		x.ask(x.servers["lab"], r)
	}
	return x.answers
}

// playTrouble has leaders that are cut off: each with a write on its way, the last
// one for good.
func playTrouble(t *testing.T) []answered {
	x := newScene(t, 3, nil)
	for call, body := range writeCalls {
		node := x.cluster.Leader().ID()
		x.cluster.Isolate(node)
		x.say(node, call, body, 504)
		x.cluster.Heal()
	}
	node := x.cluster.Leader().ID()
	x.cluster.Isolate(node)
	time.Sleep(5 * time.Second)
	for call, body := range everyCall() {
		switch {
		case call == "GET /readyz", body != "", slices.Contains(readCalls, call):
			x.say(node, call, body, 503)
		case call != "GET /v1/events":
			x.say(node, call, body, 200)
		}
	}
	return x.answers
}

// playStepDown has a leader that cannot hand its leadership over at once.
func playStepDown(t *testing.T) []answered {
	x := newScene(t, 3, nil)
	leader := x.cluster.Leader()
	x.cluster.Isolate(leader.ID())
	done := make(chan error, 1)
	go func() { done <- leader.StepDown(context.Background()) }()
	synctest.Wait()
	for call, body := range writeCalls {
		x.say(leader.ID(), call, body, 503)
	}
	if err := <-done; err == nil {
		t.Error("leadership was handed over, though nobody could be reached")
	}
	x.cluster.Close(leader.ID())
	return x.answers
}

// brokenNode has a bug in everything that it does.
type brokenNode struct{ Backend }

func (brokenNode) ID() string           { return "n1" }
func (brokenNode) Applied() lease.Entry { return lease.Entry{Index: 1, Term: 1} }

// playBugs has a server with a bug behind it, and one that has forgotten events.
func playBugs(t *testing.T) []answered {
	x := &scene{t: t}
	broken := newServer(t, brokenNode{})
	broken.log = hclog.NewNullLogger() // the stacks are of no interest
	for call, body := range everyCall() {
		if slices.Contains([]string{"GET /livez", "GET /openapi.yaml"}, call) {
			continue // they do not ask the node
		}
		if a := x.ask(broken, request(call, body)); a.status != 500 {
			t.Errorf("%s of a broken node: got %d", call, a.status)
		}
	}
	b := newEventBackend(t)
	b.restore(t, 100)
	x.ask(newServer(t, b), request("GET /v1/events?since=0", ""))
	return x.answers
}

// mutations of the description, each of which must be noticed.
var mutations = []struct{ what, old, changed string }{
	{"a call is missing", "  /version:\n    get:", "  /versions:\n    get:"},
	{"a method is another", "  /v1/renew:\n    post:", "  /v1/renew:\n    put:"},
	{"a parameter is missing", "        - $ref: '#/components/parameters/RequestIDInQuery'\n", ""},
	{"a parameter is misspelled", "        - name: since\n", "        - name: after_index\n"},
	{"a parameter is required", "      name: consistency\n      in: query\n", "      name: consistency\n      in: query\n      required: true\n"},
	{"the header is missing", "        - name: Last-Event-ID\n          in: header\n", "        - name: Last-Event-ID\n          in: query\n"},
	{"a default is another", "maximum: 1000, default: 100}", "maximum: 1000, default: 50}"},
	{"a bound is wider", "      maximum: 600000\n", "      maximum: 600001\n"},
	{"a bound is narrower", "      minimum: 100\n", "      minimum: 1000\n"},
	{"a length is wider", "      maxLength: 4096\n", "      maxLength: 4097\n"},
	{"a list is longer", "minItems: 1, maxItems: 512,", "minItems: 1, maxItems: 513,"},
	{"a token may be 0", "made the grant. Compare it together with `cluster_id`.\n      minimum: 1\n", "made the grant. Compare it together with `cluster_id`.\n      minimum: 0\n"},
	{"a field of a request is missing", "        reason: {$ref: '#/components/schemas/Reason'}\n", ""},
	{"a field of a request is not required", "required: [name, token, reason]", "required: [name, token]"},
	{"a request may have more fields", "    RevokeRequest:\n      type: object\n      additionalProperties: false\n", "    RevokeRequest:\n      type: object\n"},
	{"a field of an answer is missing", "        replayed: {type: boolean,", "        replay: {type: boolean,"},
	{"a field of an answer is not always there", "required: [name, state, renewals, waiters]", "required: [name, state, renewals, waiters, holder]"},
	{"a field of an answer is always there", "required: [name, state, renewals, waiters]", "required: [name, state, renewals]"},
	{"a number is a text", "        lab: {type: boolean,", "        lab: {type: string,"},
	{"a field is never null", "        last_contact_ms: {type: [integer, 'null'], minimum: 0,", "        last_contact_ms: {type: integer, minimum: 0,"},
	{"a list is of something else", "items: {$ref: '#/components/schemas/PeerStatus'}", "items: {$ref: '#/components/schemas/Member'}"},
	{"a word is missing", "enum: [accepted, stale_token, not_live]", "enum: [accepted, stale_token]"},
	{"a word is too much", "enum: [granted, queued, ended]", "enum: [granted, queued, ended, lost]"},
	{"a code is renamed", "code: {enum: [not_holder]}", "code: {enum: [wrong_holder]}"},
	{"a code is missing for a call", "code: {enum: [held, cooling, wait_timeout]}", "code: {enum: [held, cooling]}"},
	{"a code is too much for a call", "code: {enum: [no_leader, no_quorum]}", "code: {enum: [no_leader, no_quorum, transferring]}"},
	{"a code is not in the list", "        - {const: not_ready, description: Send clients to another node.}\n", ""},
	{"a status is missing for a call", "        '412': {$ref: '#/components/responses/StaleToken'}\n", ""},
	{"a status is missing for one call of many", "        '410': {$ref: '#/components/responses/LeaseLost'}\n", ""},
	{"a status is too much for a call", "        '412': {$ref", "        '410': {$ref: '#/components/responses/LeaseLost'}\n        '412': {$ref"},
	{"a reply is that of another call", "        '409': {$ref: '#/components/responses/NotHolder'}\n        '410'", "        '409': {$ref: '#/components/responses/NotGranted'}\n        '410'"},
	{"an answer is of another type", "              schema: {$ref: '#/components/schemas/Write'}", "              schema: {$ref: '#/components/schemas/Register'}"},
	{"a problem lacks its lease", "            required: [lease, request_id, how, index, token]", "            required: [lease, request_id, how, index, token, highest_token]"},
	{"a header is missing", "        Retry-After: {$ref: '#/components/headers/RetryAfter'}\n", ""},
	{"a content type is another", "            application/yaml:", "            application/x-yaml:"},
	{"a kind of events is missing", "enum: [leader, granted, renewed,", "enum: [leader, renewed,"},
	{"a heartbeat is no event", "                heartbeat: {$ref: '#/components/schemas/Heartbeat'}\n", ""},
	{"an example is not what is printed", `"replayed":true`, `"replayed":false`},
	{"a pattern is wider", `pattern: '^[ -.0-~]+$'`, `pattern: '^[ -~]+$'`},
}

// mutate holds changed copies of the description against the code and against
// real answers.
func mutate(t *testing.T, answers []answered) {
	for _, m := range mutations {
		t.Run(m.what, func(t *testing.T) {
			changed := strings.Replace(description, m.old, m.changed, 1)
			if changed == description {
				t.Fatalf("openapi.yaml has no %q", m.old)
			}
			d, err := newDocument(changed)
			if err != nil {
				t.Fatalf("it can no longer be read: %v", err)
			}
			if len(d.faults(t)) == 0 && len(d.answerFaults(answers)) == 0 && len(d.requestsJudgedOtherwise(t)) == 0 {
				t.Error("nobody notices")
			}
		})
	}
}
