package cli

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/httpapi/wire"
)

// A list goes through all pages, with the prefix on each.
func TestRun_List_ReadsAllPages(t *testing.T) {
	const leases = 2500
	server := handle(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("prefix") != "j" || q.Get("limit") != "1000" {
			t.Errorf("query %q", r.URL.RawQuery)
		}
		var from int
		if after := q.Get("after"); after != "" {
			fmt.Sscanf(after, "j%d", &from)
			from++
		}
		page := wire.Leases{Leases: []wire.Lease{}}
		for i := from; i < min(from+1000, leases); i++ {
			page.Leases = append(page.Leases, wire.Lease{Name: fmt.Sprintf("j%04d", i), State: "held", Token: 5, Value: "a\tb"})
		}
		if from+1000 < leases {
			page.Next = fmt.Sprintf("j%04d", from+999)
		}
		answer(w, 200, page)
	})
	r := run(t, server, "list", "--prefix", "j", "--json")
	r.expect(t, exitDone, "", "")
	if lines := strings.Split(strings.TrimSpace(r.stdout), "\n"); len(lines) != leases || !strings.Contains(lines[2499], `"j2499"`) {
		t.Errorf("%d lines, want %d", len(lines), leases)
	}
	r = run(t, server, "list", "--prefix", "j")
	if n := strings.Count(r.stdout, "\n"); n != leases+1 {
		t.Errorf("%d lines of text, want %d and a heading", n, leases)
	}
	r.expect(t, exitDone, `"a\tb"`, "") // quoted, or it would upset the columns
}

// A server whose pages do not lead on cannot keep the list going for ever.
func TestRun_List_PageThatDoesNotLeadOn_IsAnError(t *testing.T) {
	server := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, wire.Leases{Leases: []wire.Lease{{Name: "a"}}, Next: "a"})
	})
	run(t, server, "list").expect(t, exitError, "a", "does not lead on")
}

// An empty list says so to people, and is empty for programs.
func TestRun_List_Empty_SaysSo(t *testing.T) {
	server := handle(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, wire.Leases{}) })
	run(t, server, "list").expect(t, exitDone, "no leases are held\n", "")
	if r := run(t, server, "list", "--json"); r.stdout != "" {
		t.Errorf("JSON of an empty list is %q, want nothing", r.stdout)
	}
}

// A stale answer is labelled as one.
func TestRun_Get_Stale_SaysHowOld(t *testing.T) {
	server := handle(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "consistency=stale" {
			t.Errorf("query %q", r.URL.RawQuery)
		}
		answer(w, 200, wire.Lease{Name: "a", State: "free", StaleRead: &wire.StaleRead{
			Stale: true, AppliedIndex: 40, Leader: &wire.Node{ID: "n2"}, LastContactMillis: new(int64(65_000)),
		}})
	})
	run(t, server, "get", "a", "--stale").expect(t, exitDone, "applied up to index 40; the leader is n2, heard from 1m5s ago", "")
	run(t, server, "get", "a", "--stale", "--json").expect(t, exitDone, `"stale":true`, "")
}

// Status asks the members that the given node knows of, each once, and has a
// row for those that do not answer.
func TestRun_Status_AsksTheMembersItLearnsOf(t *testing.T) {
	gone := dead(t)
	var n1, n2 string
	peers := func() []wire.PeerStatus {
		return []wire.PeerStatus{
			{Node: wire.Node{ID: "n1", Address: n1}}, {Node: wire.Node{ID: "n2", Address: n2}}, {Node: wire.Node{ID: "n3", Address: gone}},
		}
	}
	asked := make(chan string, 10)
	node := func(id string, address *string) string {
		url := handle(t, func(w http.ResponseWriter, _ *http.Request) {
			asked <- id
			answer(w, 200, wire.Status{
				ID: id, Address: *address, Role: "follower", Term: 3, Leader: &wire.Node{ID: "n2", Address: n2}, Peers: peers(),
				StateHash: "00ff00ff00ff00ff", LastContactMillis: new(int64(40)), Waiting: "for " + id,
			})
		})
		return strings.TrimPrefix(url, "http://")
	}
	n1, n2 = node("n1", &n1), node("n2", &n2)

	r := run(t, n1, "status")
	r.expect(t, exitDone, "n2 is waiting: for n2", "")
	rows := strings.Split(r.stdout, "\n")
	for i, want := range []string{"ID", "n1  " + n1, "n2  " + n2, "n3  " + gone} {
		if !strings.HasPrefix(rows[i], want) {
			t.Errorf("row %d is %q, want %q", i, rows[i], want)
		}
	}
	if !strings.Contains(rows[3], "unreachable") {
		t.Errorf("row %q; want unreachable", rows[3])
	}
	close(asked)
	if ids := slices.Sorted(chanValues(asked)); !slices.Equal(ids, []string{"n1", "n2"}) {
		t.Errorf("asked %q; want each node once", ids)
	}
}

func chanValues[T any](c <-chan T) func(func(T) bool) {
	return func(yield func(T) bool) {
		for v := range c {
			if !yield(v) {
				return
			}
		}
	}
}

// Of two nodes that claim to lead, the one with the lower term is called replaced.
func TestRun_Status_TwoLeaders_HaveARemark(t *testing.T) {
	node := func(id string, term uint64) string {
		var address string
		url := handle(t, func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 200, wire.Status{ID: id, Address: address, Role: "leader", Term: term, Leader: &wire.Node{ID: id, Address: address}})
		})
		address = strings.TrimPrefix(url, "http://")
		return address
	}
	n1, n2 := node("n1", 3), node("n2", 4)
	run(t, n1+","+n2, "status").expect(t, exitDone, "n1 was replaced by n2, which leads in term 4, and has not heard of it yet", "")
	if r := run(t, n2, "status"); strings.Contains(r.stdout, "replaced") {
		t.Errorf("with one leader:\n%s", r.stdout)
	}
}

// A node that is silent, as a frozen one, does not keep the others from being
// shown; the wait is announced, and its length told.
func TestRun_Status_SilentNode(t *testing.T) {
	release := make(chan struct{})
	silent := strings.TrimPrefix(handle(t, func(http.ResponseWriter, *http.Request) { <-release }), "http://")
	t.Cleanup(func() { close(release) }) // before the server is closed, which waits for it
	var address string
	address = strings.TrimPrefix(handle(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, wire.Status{ID: "n1", Address: address, Role: "follower"})
	}), "http://")
	r := run(t, silent+","+address, "status", "--timeout", "700ms")
	r.expect(t, exitDone, "n1  "+address+"  follower", "not every node has answered yet; waiting up to 700ms")
	r.expect(t, exitDone, silent+": no answer in 700ms\n", "")
	run(t, silent, "status", "--timeout", "50ms").expect(t, exitUnavailable, silent+": no answer in 50ms\n", "unreachable: no node answers")
}

// A node that calls itself by another address than the one it was asked at, as
// behind a port forward, is one row, and does not keep the survey going.
func TestRun_Status_NodeUnderTwoAddresses_IsOneRow(t *testing.T) {
	var alias string
	url := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, wire.Status{ID: "n1", Address: "n1.inside:8001", Leader: &wire.Node{ID: "n1", Address: alias}})
	})
	alias = strings.TrimPrefix(url, "http://")
	r := run(t, "localhost"+alias[strings.LastIndex(alias, ":"):], "status", "--json")
	r.expect(t, exitDone, `"address":"n1.inside:8001"`, "")
	if n := strings.Count(r.stdout, "\n"); n != 1 {
		t.Errorf("%d rows, want 1:\n%s", n, r.stdout)
	}
}

// Programs see nodes that do not answer as people do.
func TestRun_Status_JSON_HasUnreachableNodesToo(t *testing.T) {
	gone := dead(t)
	run(t, gone, "status", "--json").expect(t, exitUnavailable,
		`{"address":"`+gone+`","role":"unreachable","detail":"`+gone+`: connection refused"}`, "")
}

// The program's own version needs no server; those of servers are asked for by name.
func TestRun_Version(t *testing.T) {
	run(t, dead(t), "version").expect(t, exitDone, "leasehold dev go1", "")
	run(t, dead(t), "version", "--json").expect(t, exitDone, `{"version":"dev","go":"go1`, "")
	server := handle(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, wire.Version{Version: "v9", Go: "go9"}) })
	run(t, dead(t), "version", "--server", server).expect(t, exitDone, server+" v9 go9\n", "")
}

// Ages are short, and a clock that is ahead does not make negative ones.
func TestAge(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ stamp, want string }{
		{"2026-03-01T11:59:59.958Z", "42ms ago"},
		{"2026-03-01T11:59:47.66Z", "12.3s ago"},
		{"2026-03-01T11:56:55Z", "3m5s ago"},
		{"2026-03-01T07:54:00Z", "4h6m ago"},
		{"2026-02-27T07:54:00Z", "2d4h ago"},
		{"2026-03-01T12:00:05Z", "0s ago"},
		{"2026-03-01T13:00:00+01:00", "0s ago"},
		{"not a time", "not a time"},
	} {
		if got := age(now, tt.stamp); got != tt.want {
			t.Errorf("age of %s is %q, want %q", tt.stamp, got, tt.want)
		}
	}
}
