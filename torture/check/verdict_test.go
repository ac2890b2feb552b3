package check_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/torture/check"
	"leasehold/torture/history"
)

// needLog are the properties that say nothing without a log.
var needLog = []string{"P5", "P7", "P12", "P13", "P14", "P17"}

// Without a log, as of a peer that has none, the properties that need it are not
// checked, and that is not called ok.
func TestCheck_WithoutLog_IsNotChecked(t *testing.T) {
	for seed := range uint64(20) {
		h := simulate(seed)
		h.Entries = nil
		report := check.Check(h, check.DefaultParams())
		if report.Verdict != check.Holds {
			t.Fatalf("seed %d:\n%s", seed, text(report))
		}
		for _, res := range report.Results {
			if got, want := res.Status == check.NotChecked, slices.Contains(needLog, res.ID); got != want {
				t.Errorf("%s is %s", res.ID, res.Status)
			}
			if res.Status == check.NotChecked && res.Note != "the history has no log" {
				t.Errorf("%s is not checked: %q", res.ID, res.Note)
			}
		}
	}
}

// A property that was required and could not be checked makes a run inconclusive.
func TestCheck_RequiredProperty_NotChecked_IsInconclusive(t *testing.T) {
	h := simulate(1)
	h.Entries = nil
	p := check.DefaultParams()
	p.Require = []string{"P14"}
	report := check.Check(h, p)
	if report.Verdict != check.IsInconclusive || !slices.Equal(report.Missing, []string{"P14 was not checked: the history has no log"}) {
		t.Errorf("%v, missing %q", report.Verdict, report.Missing)
	}
}

// Grants without tokens, or clients that the history does not know, are no
// violation; what cannot be said then is not checked.
func TestCheck_LessKnown_IsNotChecked(t *testing.T) {
	s := new(story)
	s.op(0, 10*ms, acquire("a", "x", 0, 0))
	s.op(20*ms, 30*ms, acquire("b", "y", 0, 0))
	report := check.Check(&s.h, check.DefaultParams())
	if res := report.Of("P5b"); report.Verdict != check.Holds || res.Status != check.NotChecked || res.Note != "there are grants without a token" {
		t.Errorf("%s", text(report))
	}
	h := simulate(1)
	h.Operations = slices.DeleteFunc(h.Operations, func(o history.Operation) bool { return o.Client == "c1" })
	p := check.DefaultParams()
	p.Others = true
	report = check.Check(h, p)
	if res := report.Of("P5b"); report.Verdict != check.Holds || res.Status != check.NotChecked {
		t.Errorf("%s", text(report))
	}
}

// A log of which entries are missing is not taken for a whole one.
func TestCheck_LogWithGap_IsNotChecked(t *testing.T) {
	h := simulate(1)
	h.Entries = slices.Delete(h.Entries, 20, 22)
	res := check.Check(h, check.DefaultParams())
	if got := res.Of("P14"); got.Status != check.NotChecked || got.Note != "entries before index 23 of the log were not read in time" {
		t.Errorf("%s, %q", got.Status, got.Note)
	}
	h = simulate(1)
	h.Entries = h.Entries[20:]
	res = check.Check(h, check.DefaultParams())
	if got := res.Of("P5"); got.Status != check.NotChecked || got.Note != "the log after index 0 was not read in time" {
		t.Errorf("%s, %q", got.Status, got.Note)
	}
}

// A log whose beginning was cut off is replayed from a snapshot.
func TestCheck_LogFromSnapshot_Holds(t *testing.T) {
	for seed := range uint64(60) {
		w := &simulation{
			rng: rand.New(rand.NewPCG(seed, 7)), rec: history.NewRecorder(nil), term: 1, length: simLength,
			waiting: make(map[history.Attempt][]*flight), snapshotAt: 60,
		}
		h := w.run(6, 150)
		if w.start == nil {
			continue // that entry was Raft's own
		}
		h.Start, h.Entries = w.start, h.Entries[40:]
		p := check.DefaultParams()
		p.Require = needLog
		if report := check.Check(h, p); report.Verdict != check.Holds {
			t.Fatalf("seed %d:\n%s", seed, text(report))
		}
		for i := range h.Samples {
			if m := h.Samples[i].Marks; m[0].Index > 60 {
				m[0].Hash++
			}
		}
		if report := check.Check(h, p); report.Of("P13").Status != check.Violated {
			t.Fatalf("seed %d: other states are not found\n%s", seed, text(report))
		}
	}
}

// A search for an order that takes too long decides nothing, and says so.
func TestCheck_SearchTimeout_IsInconclusive(t *testing.T) {
	p := check.DefaultParams()
	p.LinearizeTimeout = time.Nanosecond
	report := check.Check(simulate(1), p)
	if report.Verdict != check.IsInconclusive || report.Of("P5").Status != check.Inconclusive || report.Of("P5b").Status != check.Inconclusive {
		t.Errorf("%s", text(report))
	}
	if note := report.Of("P5").Note; note != "not decided within 1ns" {
		t.Errorf("it says %q", note)
	}
}

// Answers beyond the part of the log that was read are no violation in a run that
// was cut short, and not ok either.
func TestCheck_RunCutShort_IsInconclusive(t *testing.T) {
	h := simulate(1)
	h.Entries, h.End = h.Entries[:len(h.Entries)-30], nil
	report := check.Check(h, check.DefaultParams())
	if report.Verdict != check.IsInconclusive || report.Of("P14").Status != check.Inconclusive {
		t.Errorf("%s", text(report))
	}
}

// A run that was too gentle is inconclusive and says what was missing; one
// violation is enough for a verdict all the same.
func TestCheck_Need(t *testing.T) {
	h := simulate(1)
	p := check.DefaultParams()
	p.Need = check.Need{Expiries: 5, Terms: 1, Dropped: 1, Redirects: 1, ExpiriesPerMin: 60}
	report := check.Check(h, p)
	want := []string{"messages held back by link faults: 0, at least 1 are needed", "redirects: 0, at least 1 are needed"}
	if report.Verdict != check.IsInconclusive || !slices.Equal(report.Missing, want) {
		t.Errorf("%v, missing %q", report.Verdict, report.Missing)
	}
	h.Operations[3].Redirects = 2
	if report := check.Check(h, p); report.Verdict != check.IsViolated || int(report.Verdict) != 1 {
		t.Errorf("%v", report.Verdict)
	}
}

// Overlapping beliefs are added up over all leases; one client after another is
// no overlap.
func TestEvidence_BeliefOverlap(t *testing.T) {
	s := time.Second
	h := &history.History{Beliefs: []history.Belief{
		{Client: "x", Name: "a", Token: 1, From: 0, To: 5 * s},
		{Client: "y", Name: "a", Token: 2, From: 4 * s, To: 8 * s},
		{Client: "z", Name: "a", Token: 3, From: 8 * s, To: 9 * s},
		{Client: "x", Name: "b", Token: 4, From: 0, To: 9 * s},
		{Client: "y", Name: "b", Token: 5, From: 1 * s, To: 2 * s},
	}}
	if got := check.Check(h, check.DefaultParams()).Evidence.BeliefOverlap; got != 2*s {
		t.Errorf("%v, want 2s", got)
	}
}

// Updates that writers without a token have lost are counted, and are no
// violation: nothing else was promised.
func TestEvidence_LostUpdates(t *testing.T) {
	s := new(story)
	for i, client := range []string{"x", "y"} {
		o := write("r", 0, "4")
		o.Client, o.Counter = client, true
		s.op(time.Duration(i)*10*ms, time.Duration(i)*10*ms+5*ms, o)
	}
	report := check.Check(&s.h, check.DefaultParams())
	if report.Verdict != check.Holds || report.Evidence.LostUpdates != 1 {
		t.Errorf("%v, %d lost", report.Verdict, report.Evidence.LostUpdates)
	}
}

// A report can be read by people and by programs, and its picture is a page.
func TestReport_Forms(t *testing.T) {
	h := simulate(1)
	h.Operations[3].Redirects = 2
	report := check.Check(h, check.DefaultParams())
	lines := strings.Split(text(report), "\n")
	if lines[0] != "verdict: violated" || !strings.Contains(text(report), "was redirected 2 times") {
		t.Errorf("%s", text(report))
	}
	data, err := json.Marshal(report)
	if err != nil || !bytes.Contains(data, []byte(`"verdict":"violated"`)) || !bytes.Contains(data, []byte(`"id":"P14"`)) {
		t.Errorf("%v: %s", err, data)
	}
	var page bytes.Buffer
	if err := check.Visualize(h, check.DefaultParams(), "a", &page); err != nil || !strings.Contains(page.String(), "grants token") {
		t.Errorf("%v: %d bytes", err, page.Len())
	}
}
