package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold/httpapi/wire"
)

// labNodes are three nodes with --lab on real TCP, each with its own folder.
type labNodes struct {
	t     *testing.T
	nodes map[string]*server // by id
	all   string             // their addresses
}

func startLab(t *testing.T, flags ...string) *labNodes {
	t.Helper()
	x := &labNodes{t: t, nodes: make(map[string]*server)}
	var founders, addresses []string
	for i := range 3 {
		addresses = append(addresses, dead(t))
		founders = append(founders, fmt.Sprintf("n%d=%s", i+1, addresses[i]))
	}
	dir := t.TempDir()
	for i, address := range addresses {
		id := fmt.Sprintf("n%d", i+1)
		x.nodes[id] = begin(t, filepath.Join(dir, id), address, append([]string{
			"--id", id, "--cluster", strings.Join(founders, ","),
			"--heartbeat-timeout", "300ms", "--election-timeout", "300ms", "--lab",
		}, flags...)...)
	}
	x.all = strings.Join(addresses, ",")
	x.leader()
	return x
}

// status of a node, or nothing if it does not answer within a second.
func (x *labNodes) status(id string) (st wire.Status) {
	c := http.Client{Timeout: time.Second}
	defer c.CloseIdleConnections()
	r, err := c.Get("http://" + x.nodes[id].address + "/v1/status")
	if err != nil {
		return st
	}
	defer r.Body.Close()
	_ = json.NewDecoder(r.Body).Decode(&st)
	return st
}

// leader waits until one of the nodes, but those named, leads, and gives its id.
func (x *labNodes) leader(but ...string) (leader string) {
	x.t.Helper()
	other := x.nodes["n1"] // which is to go on meanwhile
	if len(but) > 0 && but[0] == "n1" {
		other = x.nodes["n2"]
	}
	other.until(x.t, "somebody leads", func() bool {
		for id := range x.nodes {
			if len(but) > 0 && id == but[0] {
				continue
			}
			if st := x.status(id); st.Role == "leader" && st.AppliedIndex > 0 {
				leader = id
				return true
			}
		}
		return false
	})
	return leader
}

func (x *labNodes) follower() string {
	leader := x.leader()
	for _, id := range []string{"n1", "n2"} {
		if id != leader {
			return id
		}
	}
	return "n2"
}

// fault runs leasehold fault for a node and wants it to succeed.
func (x *labNodes) fault(id string, args ...string) result {
	x.t.Helper()
	r := run(x.t, x.nodes[id].address, append([]string{"fault"}, args...)...)
	r.expect(x.t, exitDone, "", "")
	return r
}

// said waits until a node has logged something.
func (x *labNodes) said(id, what string) {
	x.t.Helper()
	n := x.nodes[id]
	n.until(x.t, "it says "+what, func() bool { return strings.Contains(n.stderr.String(), what) })
}

// A leader that is cut off is replaced, its fault is shown to whoever asks, and when it
// is healed by hand the old leader follows with all grants.
func TestFault_CutLeader(t *testing.T) {
	x := startLab(t)
	old := x.leader()
	x.said(old, "THIS NODE IS A LAB")
	x.fault(old, "cut", "--for", "5m").expect(t, exitDone, "f1: cut to and from all nodes for 5m0s\n", "")
	next := x.leader(old)
	r := run(t, x.all, "acquire", "--holder", "h", "--ttl", "1h", "--json", "jobs/a")
	var g wire.Grant
	if err := json.Unmarshal([]byte(r.stdout), &g); r.code != exitDone || err != nil {
		t.Fatalf("no grant with the old leader cut off: %+v", r)
	}
	if st := x.status(old); st.Leases != 0 || !st.Lab || len(st.Faults) != 1 {
		t.Errorf("the old leader is at %+v; it should have its fault, and not the grant", st)
	}
	run(t, x.all, "fault", "list").expect(t, exitDone, "f1  cut to and from all nodes for 5m0s", "")
	run(t, x.all, "fault", "list", "--json").expect(t, exitDone, `{"node":"`+next+`","faults":[]}`, "")
	run(t, x.all, "status").expect(t, exitDone, old+" is a lab (--lab) with the fault f1: cut", "")
	run(t, x.all, "fault", "heal").expect(t, exitDone, old+": healed f1, cut to and from all nodes", "")
	x.nodes[old].until(t, "it has caught up", func() bool { return x.status(old).Leases == 1 })
	x.said(old, `FAULT healed: id=f1 what="cut to and from all nodes for 5m0s" why="by request"`)
}

// The command line repeats a request whose answer was dropped, with the same request
// id, and so learns of the grant that it has.
func TestFault_DropReply(t *testing.T) {
	x := startLab(t)
	leader := x.leader()
	x.fault(leader, "drop-reply", "--count", "1", "--path", "/v1/acquire", "--for", "1m").expect(t, exitDone, "f1: drop_reply 1 of /v1/acquire for 1m0s", "")
	run(t, x.nodes[leader].address, "acquire", "--holder", "h", "--ttl", "1h", "jobs/a").expect(t, exitDone, "replayed", "")
	x.said(leader, "it has done its count")
}

// A slow disk of the leader makes every write slow, for as long as it lasts.
func TestFault_SlowFsync(t *testing.T) {
	x := startLab(t)
	leader := x.leader()
	x.fault(leader, "slow_fsync", "--delay", "300ms", "--for", "5m", "--json").expect(t, exitDone, `"fault":"slow_fsync","delay_ms":300,"duration_ms":300000}`, "")
	start := time.Now()
	x.nodes[leader].acquire(t, "slow")
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("an acquire took %v", took)
	}
	x.fault(leader, "heal", "f1").expect(t, exitDone, "healed f1, slow_fsync by 300ms", "")
	run(t, x.nodes[leader].address, "fault", "heal", "f1").expect(t, exitError, "", "not_found: not found: no fault f1 is on in node "+leader)
	run(t, x.nodes[leader].address, "fault", "heal").expect(t, exitDone, leader+": nothing to heal", "")
}

// A node whose disk is full ends as with a real one, and starts again with its state.
func TestFault_DiskFull(t *testing.T) {
	x := startLab(t)
	id := x.leader()
	n := x.nodes[id]
	g := n.acquire(t, "before")
	x.fault(id, "disk_full", "--for", "5m")
	if r := run(t, n.address, "acquire", "--holder", "w1", "--ttl", "1h", "--timeout", "1s", "during"); r.code == exitDone {
		t.Error("a grant was made on a full disk")
	}
	n.refused(t, exitError, "the log cannot be written: no space left on device (a fault of this lab)")
	run(t, x.nodes[x.leader(id)].address, "get", "--json", "before").expect(t, exitDone, fmt.Sprintf(`"token":%d`, g.Token), "")
}

// A node that is told to stop while it is cut off heals itself first, and ends in
// good order.
func TestFault_StopDuringCut(t *testing.T) {
	x := startLab(t)
	id := x.leader()
	x.fault(id, "slow_fsync", "--delay", "1m", "--for", "10m")
	x.fault(id, "delay", "--delay", "200ms", "--for", "10m")
	x.fault(id, "cut", "--peers", "clients", "--for", "10m")
	x.said(id, "FAULT begins: id=f3") // after its answer
	start := time.Now()
	x.nodes[id].stop(t)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	x.said(id, `FAULT healed: id=f3 what="cut to and from clients for 10m0s" why="this node stops"`)
	x.leader(id)
}

// A schedule is played in its order and time on the nodes that it means, roles found
// when they are due.
func TestFault_Schedule(t *testing.T) {
	x := startLab(t)
	follower := x.follower()
	file := filepath.Join(t.TempDir(), "schedule.jsonl")
	schedule := fmt.Sprintf(`# two steps
{"at_ms":0,"node":%q,"fault":"delay","delay_ms":1,"peers":["n9"],"duration_ms":600000}
{"at_ms":200,"node":"all","fault":"clock_stall","duration_ms":600000}
{"at_ms":300,"node":"leader","fault":"wall_shift","shift_ms":-3600000,"duration_ms":600000}
`, follower)
	if err := os.WriteFile(file, []byte(schedule), 0o600); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	r := run(t, x.all, "fault", "--schedule", file)
	r.expect(t, exitDone, follower+": f1 delay by 1ms to and from n9 for 10m0s", "")
	r.expect(t, exitDone, "300ms  "+x.leader()+": f", "")
	if took := time.Since(start); took < 300*time.Millisecond || strings.Count(r.stdout, "\n") != 5 {
		t.Errorf("after %v it had said:\n%s", took, r.stdout)
	}
	for id := range x.nodes {
		want := 1
		if id == follower {
			want++
		}
		if id == x.leader() {
			want++
		}
		if got := x.status(id).Faults; len(got) != want {
			t.Errorf("in %s %+v are on, want %d", id, got, want)
		}
	}
	run(t, x.all, "fault", "heal")
	bad := strings.Replace(schedule, `"all"`, `"n9"`, 1)
	if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, x.all, "fault", "--schedule", file, "--json").expect(t, exitError, `{"at_ms":300,"node":"`, "at 200ms, clock_stall on n9: there is no node n9")
}

// What a schedule cannot be is told before any of it is played.
func TestFault_Schedule_Refused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "schedule.jsonl")
	server := dead(t)
	run(t, server, "fault", "--schedule", file).expect(t, exitUsage, "", "no such file")
	for text, want := range map[string]string{
		"":                                      "there is no step in it",
		`{"at_ms":0,"node":"n1","fault":"cut"}`: "line 1: duration_ms must be a whole number from 1 to 600000",
		"\n{}":                                  "line 2: at_ms is missing",
		`{"at_ms":0,"node":"n1","fault":"cut","duration_ms":1}` + "\n" + `{"at_ms":0,"node":"leader","fault":"kill"}`:     "step 2 is kill on leader, which takes one who can start and stop the process",
		`{"at_ms":0,"node":"n1","fault":"cut","duration_ms":1}` + "\n" + `{"at_ms":0,"node":"n1","fault":"no","peers":1}`: "line 2: peers must be a list of strings",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, server, "fault", "--schedule", file).expect(t, exitUsage, "", want)
	}
	if err := os.WriteFile(file, []byte(`{"at_ms":0,"node":"n1","fault":"cut","duration_ms":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, server, "fault", "--schedule", file).expect(t, exitUnavailable, "", "no node answers")
}

// A command line that cannot be understood says what is missing, and asks nobody.
func TestFault_Usage(t *testing.T) {
	server := dead(t)
	for _, tc := range []struct{ args, want string }{
		{"", "a command is missing"},
		{"burn", `there is no command "burn"`},
		{"cut", "--for is missing"},
		{"cut --for 11m", "duration_ms must be a whole number from 1 to 600000, not 660000"},
		{"cut --for 5", "a duration is written like"},
		{"cut --for 1s --direction up", "direction must be out, in or both"},
		{"cut --for 1s --peers n2,n2", "peers has n2 in it twice"},
		{"cut --for 1s n2", "no arguments are expected"},
		{"cut --for 1s --delay 5ms", "flag provided but not defined: --delay"},
		{"delay --for 1s", "--delay is missing"},
		{"loss --for 1s", "--percent is missing"},
		{"loss --for 1s --percent 0", "percent is missing"},
		{"clock_rate --for 1s --percent 300", "percent must be a whole number from 50 to 200"},
		{"drop_reply --for 1s --count 1 --path x", "path must be"},
		{"wall_shift --for 1s --shift 25h", "shift_ms must be"},
		{"wall_shift --for 1s --shift -1us", "whole milliseconds"},
		{"heal f1 f2", "one ID is expected"},
		{"heal f1 --server a:1,b:2", "a fault is that of one node"},
		{"cut --for 1s --server a:1,b:2", "a fault is that of one node"},
		{"list x", "no arguments are expected"},
	} {
		run(t, server, append([]string{"fault"}, strings.Fields(tc.args)...)...).expect(t, exitUsage, "", tc.want)
	}
	run(t, server, "fault", "cut", "--for", "1s").expect(t, exitUnavailable, "", "unreachable")
	run(t, server, "fault", "heal").expect(t, exitUnavailable, "", "unreachable")
	run(t, server, "fault", "list").expect(t, exitUnavailable, "unreachable", "no node answers")
}

// A node that was not started with --lab takes no faults.
func TestFault_NoLab(t *testing.T) {
	address := dead(t)
	s := start(t, filepath.Join(t.TempDir(), "data"), address)
	run(t, address, "fault", "cut", "--for", "1s").expect(t, exitError, "", "forbidden: forbidden: node n1 was not started with --lab")
	run(t, address, "fault", "heal").expect(t, exitError, "", "was not started with --lab")
	run(t, address, "fault", "list").expect(t, exitDone, "none, it was not started with --lab", "")
	if strings.Contains(s.stderr.String(), "LAB") {
		t.Error("it says that it is a lab")
	}
}

// A lab notices like any node that a waiting client has hung up, also when bytes that
// nobody reads came before, before any fault and after one of this very connection.
func TestFault_ClientHangsUp(t *testing.T) {
	x := startLab(t)
	leader := x.leader()
	n := x.nodes[leader]
	n.acquire(t, "held")
	for i, delayed := range []bool{false, true} {
		c, err := net.Dial("tcp", n.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		say := func(request string) {
			if _, err := fmt.Fprint(c, request); err != nil {
				t.Fatal(err)
			}
		}
		if delayed {
			x.fault(leader, "delay", "--delay", "50ms", "--peers", "clients", "--for", "5m")
			say("GET /livez HTTP/1.1\r\nHost: n1\r\n\r\n")
			start := time.Now()
			if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200") || time.Since(start) < 100*time.Millisecond {
				t.Fatalf("%q, %v after %v, want 200 after 100 ms", line, err, time.Since(start))
			}
			x.fault(leader, "heal", "f1")
		}
		body := fmt.Sprintf(`{"name":"held","holder":"w%d","ttl_ms":60000,"wait_ms":600000}`, i)
		say(fmt.Sprintf("POST /v1/acquire HTTP/1.1\r\nHost: n1\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		n.until(t, "the request waits", func() bool { return x.status(leader).Waiters == 1 })
		say("GET /livez HTTP/1.1\r\nHost: n1\r\n\r\n") // which nobody reads while the other waits
		c.Close()
		n.until(t, "the waiter is gone", func() bool { return x.status(leader).Waiters == 0 })
	}
}
