package history_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/cluster"
	"leasehold/httpapi"
	"leasehold/httpapi/wire"
	"leasehold/lease"
	"leasehold/torture/history"
)

// commands are one of each kind that a log can hold, with every field set.
var commands = []lease.Command{
	lease.Lead{Node: "n1", Address: "127.0.0.1:8001", ClusterID: "c"},
	lease.Acquire{Name: "a", Holder: "x", RequestID: "r", TTL: time.Second, Wait: 2 * time.Second, LockDelay: 3 * time.Second, Value: "v", Reclaim: true},
	lease.Acquire{Name: "a", Holder: "x", RequestID: "r", TTL: time.Second},
	lease.Renew{Name: "a", Holder: "x", Token: 2, TTL: time.Second, Value: new("v")},
	lease.Renew{Name: "a", Holder: "x", Token: 2, Value: new("")},
	lease.Renew{Name: "a", Holder: "x", Token: 2},
	lease.RenewMany{Holder: "x", Renewals: []lease.Renewal{{Name: "a", Token: 2}, {Name: "b", Token: 3}}},
	lease.Release{Name: "a", Holder: "x", Token: 2},
	lease.Expire{Name: "a", Token: 2, Renewal: 3, Term: 4},
	lease.Reopen{Name: "a", Token: 2},
	lease.Abandon{Name: "a", Holder: "x", RequestID: "r", Place: 5, Reason: lease.ClientGone},
	lease.Revoke{Name: "a", Token: 2, Reason: "why"},
	lease.Write{Register: "r", Value: "v", Token: 2, Lease: "a"},
	lease.Write{Register: "r"},
}

func entries() []history.Entry {
	all := []history.Entry{{Node: "n1", Index: 1, Term: 1, Kind: "configuration"}, {Node: "n1", Index: 2, Term: 1, At: 7, Kind: "noop"}}
	for i, c := range commands {
		all = append(all, history.Entry{Node: "n1", Index: uint64(i + 3), Term: 1, At: 1_700_000_000_123 + int64(i), Kind: "x", Command: c})
	}
	return all
}

// What GET /v1/log shows of an entry is enough to have the entry back, so that a
// log read over HTTP can be replayed to the same state.
func TestFromWire_IsInverseOfTheAPI(t *testing.T) {
	var page cluster.LogPage
	for _, e := range entries() {
		page.Entries = append(page.Entries, cluster.LogEntry{Index: e.Index, Term: e.Term, At: e.At, Kind: e.Kind, Command: e.Command})
	}
	for i, w := range httpapi.LogOf(page).Entries {
		got, err := history.FromWire(w)
		want := entries()[i]
		want.Node, want.Kind = "", got.Kind
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
		}
	}
}

// all is a history with every kind of record.
func all() []history.Record {
	records := []history.Record{
		history.Run{Title: "t", Seed: 7, Version: "v", Command: "c"},
		history.Operation{ID: 1, Client: "c", Kind: history.Acquire, Name: "a", Holder: "x", RequestID: "r", TTL: time.Second, Call: 5, Return: 9, Outcome: history.OK, Answer: history.Answer{Token: 3, Index: 3, RemainingMillis: new(int64(0))}},
		history.Operation{ID: 2, Client: "c", Kind: history.Get, Name: "a", Call: 5, Return: 9, Outcome: history.Unknown},
		history.Belief{Client: "c", Name: "a", Token: 3, From: 1, To: 2},
		history.Start{Node: "n1", Index: 9, Snapshot: []byte{1, 2}},
		history.Sample{At: 3, Node: "n1", Term: 2, Role: "leader", Applied: 4, Marks: []history.Mark{{Index: 4, Hash: 1<<63 + 1}}, Snapshot: 2, Installed: 1, Dropped: 5},
		history.Leadership{At: 4, Node: "n1", Term: 2},
		history.Arrival{At: 5, Node: "n1", Term: 2, Name: "a", Token: 3, Left: -1, Index: 8},
		history.Fault{From: 1, To: 2, Kind: "cut", Nodes: []string{"n1"}, Peers: []string{"n2"}, NoQuorum: true},
		history.End{At: 9, LogComplete: true},
	}
	for _, e := range entries() {
		records = append(records, e)
	}
	return records
}

// What was recorded is read back as it was.
func TestRecorder_Read_RoundTrip(t *testing.T) {
	var file bytes.Buffer
	rec := history.NewRecorder(&file)
	for _, r := range all() {
		rec.Add(r)
	}
	got, err := history.Read(&file)
	if err != nil || rec.Err() != nil || !reflect.DeepEqual(got, rec.History()) {
		t.Errorf("%v, %v\ngot  %+v\nwant %+v", err, rec.Err(), got, rec.History())
	}
	if len(got.Operations) != 2 || got.Operations[1].ID != 2 || got.End == nil || len(got.Entries) != len(entries()) {
		t.Errorf("it is not all there: %+v", got)
	}
}

// A run that was killed leaves a history that can be read, wherever its last line
// was cut off; nothing else that is wrong passes, and the error names the line.
func TestRead_DamagedFile(t *testing.T) {
	var file bytes.Buffer
	rec := history.NewRecorder(&file)
	for _, r := range all()[:3] {
		rec.Add(r)
	}
	whole := file.String()
	last := strings.LastIndex(strings.TrimSuffix(whole, "\n"), "\n") + 1
	for end := last; end < len(whole); end++ {
		h, err := history.Read(strings.NewReader(whole[:end]))
		if err != nil || len(h.Operations) != 1 || h.Torn != (end > last) {
			t.Fatalf("cut at %d: %v, %+v", end, err, h)
		}
	}
	for _, bad := range []string{"{}\n", "\n", "x\n", `{"operation":{"colour":"red"}}` + "\n", `{"entry":{"index":3,"command":"AAAA"}}` + "\n"} {
		if _, err := history.Read(strings.NewReader(whole + bad)); err == nil || !strings.HasPrefix(err.Error(), "line 4: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// lineWriter fails the test if a write is not one whole line.
type lineWriter struct {
	t     *testing.T
	lines int
}

func (w *lineWriter) Write(p []byte) (int, error) {
	var l map[string]json.RawMessage
	if err := json.Unmarshal(p, &l); err != nil || p[len(p)-1] != '\n' || len(l) != 1 {
		w.t.Errorf("not a line: %q", p)
	}
	w.lines++
	return len(p), nil
}

// Clients may record at the same time: each record is one write of one line, and
// each operation has its own id.
func TestRecorder_Concurrent(t *testing.T) {
	w := &lineWriter{t: t}
	rec := history.NewRecorder(w)
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for range 100 {
				rec.Add(history.Operation{Client: fmt.Sprint(i)})
				rec.History()
			}
		})
	}
	clients.Wait()
	ids := make(map[int]bool)
	for _, o := range rec.History().Operations {
		ids[o.ID] = true
	}
	if w.lines != 800 || len(ids) != 800 {
		t.Errorf("%d lines, %d ids", w.lines, len(ids))
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// An error of the file is kept, and what is in memory goes on.
func TestRecorder_FileFails(t *testing.T) {
	rec := history.NewRecorder(brokenWriter{})
	rec.Add(history.End{})
	rec.Add(history.Operation{})
	if rec.Err() == nil || rec.Err().Error() != "disk full" || len(rec.History().Operations) != 1 {
		t.Errorf("%v, %+v", rec.Err(), rec.History())
	}
}

// Entries of several nodes are one log, if they agree and nothing is missing.
func TestHistory_Merge(t *testing.T) {
	e := entries()
	h := &history.History{Entries: append(append([]history.Entry{}, e[2:6]...), e[:4]...)}
	log := h.Merge()
	if len(log.Entries) != 6 || log.Entries[0].Index != 1 || len(log.Gaps) != 0 || len(log.Conflicts) != 0 {
		t.Errorf("%+v", log)
	}
	other := e[3]
	other.Node, other.At = "n2", 1
	h.Entries = append(h.Entries, other, e[8])
	log = h.Merge()
	if len(log.Conflicts) != 1 || log.Conflicts[0][1].Node != "n2" || len(log.Gaps) != 1 || log.Gaps[0] != e[8].Index {
		t.Errorf("%+v", log)
	}
}

// node is the log of a node, as far as the test lets it be seen.
type node struct {
	first, applied uint64
	entries        []history.Entry
}

func (n *node) fetch(_ context.Context, from uint64, limit int) (history.Page, error) {
	p := history.Page{First: n.first, Applied: n.applied}
	for _, e := range n.entries {
		if e.Index >= max(from, n.first) && len(p.Entries) < min(limit, 3) {
			p.Entries = append(p.Entries, e)
		}
	}
	return p, nil
}

// A collector takes each committed entry once and none that is not committed,
// and counts those that were cut off before it came.
func TestCollector_Collect(t *testing.T) {
	n := &node{first: 1, applied: 4, entries: entries()}
	rec := history.NewRecorder(nil)
	c := &history.Collector{Node: "n1", Fetch: n.fetch, To: rec}
	collect := func(want int, lost uint64) {
		t.Helper()
		if err := c.Collect(t.Context()); err != nil || len(rec.History().Entries) != want || c.Lost != lost {
			t.Errorf("%v, %d entries, %d lost, want %d and %d", err, len(rec.History().Entries), c.Lost, want, lost)
		}
	}
	collect(4, 0)
	collect(4, 0)
	n.applied = 5
	collect(5, 0)
	n.first, n.applied = 9, 12
	collect(9, 3)
	n.first, n.applied = 15, 14 // a snapshot holds it all
	collect(9, 5)
	n.applied = 16
	collect(11, 5)
	if h := rec.History(); h.Entries[10].Index != 16 || h.Merge().Gaps[0] != 9 {
		t.Errorf("%+v", h.Entries)
	}
}

// Over HTTP the state is asked for before the log, so that no entry is taken for
// committed which was replaced in between.
func TestOverHTTP_AsksForTheStateFirst(t *testing.T) {
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.String())
		if r.URL.Path == "/v1/status" {
			json.NewEncoder(w).Encode(wire.Status{AppliedIndex: 2})
			return
		}
		json.NewEncoder(w).Encode(wire.Log{First: 1, Last: 3, Entries: []wire.LogEntry{
			{Index: 1, Term: 1, Kind: "configuration"}, {Index: 2, Term: 1, Kind: "noop"}, {Index: 3, Term: 1, Kind: "noop"},
		}})
	}))
	defer server.Close()
	rec := history.NewRecorder(nil)
	c := &history.Collector{Node: "n1", Fetch: history.OverHTTP(server.Client(), server.URL), To: rec}
	if err := c.Collect(t.Context()); err != nil || len(rec.History().Entries) != 2 {
		t.Errorf("%v, %+v", err, rec.History().Entries)
	}
	if want := []string{"/v1/status", "/v1/log?from=1&limit=1000"}; !reflect.DeepEqual(paths, want) {
		t.Errorf("asked for %q, want %q", paths, want)
	}
	server.Close()
	if err := c.Collect(t.Context()); err == nil {
		t.Error("no error from a server that is gone")
	}
}

// A fault disturbs from its beginning to its end, those of clients not at all.
func TestHistory_Faults(t *testing.T) {
	h := &history.History{Faults: []history.Fault{{From: 10, To: 20}, {From: 15, To: 18}, {From: 50, To: 90, Client: "c"}}}
	for _, c := range []struct {
		from, to  time.Duration
		disturbed bool
		last      time.Duration
	}{{0, 9, false, 0}, {0, 10, true, 20}, {20, 30, true, 20}, {21, 99, false, 20}} {
		if got := h.Disturbed(c.from, c.to); got != c.disturbed {
			t.Errorf("[%d, %d]: %t", c.from, c.to, got)
		}
		if got := h.LastFault(c.to); got != c.last {
			t.Errorf("the last fault by %d ends at %d, want %d", c.to, got, c.last)
		}
	}
}
