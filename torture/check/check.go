package check

import (
	"fmt"
	"slices"
	"time"

	"leasehold/torture/history"
)

// Params are the bounds that a run has to keep.
type Params struct {
	// ClockMargin is by how much clocks may run apart: 0.02 is 2 %. Runs that change
	// the rate of a leader's clock need as much more.
	ClockMargin float64
	// Failover bounds how long a cluster with a quorum may be without a leader that
	// serves: 3 × heartbeat timeout + 1 s.
	Failover time.Duration
	// FailFast bounds how long a request may take that cannot be served.
	FailFast time.Duration
	// Slack is for what the bounds do not count: a busy machine, the way of an answer.
	Slack time.Duration
	// LinearizeTimeout bounds the search for a linear order, which may be
	// exponential. What was not decided by then is inconclusive.
	LinearizeTimeout time.Duration
	// Others: clients that the history does not know were at work as well.
	Others bool
	// Require names properties that must have been checked, or else the run is
	// inconclusive.
	Require []string
	// Need is what the run must have met with.
	Need Need
}

// DefaultParams are those of a cluster with default timeouts, and need nothing.
func DefaultParams() Params {
	return Params{
		ClockMargin: 0.02, Failover: 2500 * time.Millisecond, FailFast: 2 * time.Second,
		Slack: 250 * time.Millisecond, LinearizeTimeout: 30 * time.Second,
	}
}

// Violation is one case in which a property did not hold.
type Violation struct {
	// What was violated, in one sentence.
	What string `json:"what"`
	// Operations and Entries that show it, few of them.
	Operations []history.Operation `json:"operations,omitempty"`
	Entries    []history.Entry     `json:"entries,omitempty"`
}

// Status of a property after a run.
type Status string

// The states of a property.
const (
	OK           Status = "ok"
	Violated     Status = "violated"
	Inconclusive Status = "inconclusive"
	// NotChecked: the history does not have what the property speaks of.
	NotChecked Status = "not checked"
)

// Result is what the check of one property came to.
type Result struct {
	Property
	Status Status `json:"status"`
	// Checked counts the cases that were looked at; Unit says of what.
	Checked int    `json:"checked"`
	Unit    string `json:"unit"`
	// Violations, at most maxViolations of them; Found is how many there were.
	Violations []Violation `json:"violations,omitempty"`
	Found      int         `json:"found,omitempty"`
	// Note says why a property was not checked, or what was left out.
	Note string `json:"note,omitempty"`
}

const maxViolations = 10

// Property is one of the promises, with its check.
type Property struct {
	ID       string `json:"id"` // "P1" …
	Name     string `json:"name"`
	Sentence string `json:"sentence"`

	// needsLog: without a log that can be replayed it is not checked.
	needsLog bool
	check    func(*run, *finding)
}

// Properties in the order of their ids.
func Properties() []Property { return slices.Clone(properties) }

var properties = []Property{
	{"P1", "same state", "Nodes that have applied the same entries have the same state.", false, checkSameState},
	{"P2", "one leader a term", "No term has two leaders.", false, checkLeaders},
	{"P3", "token is the index", "A token is the index of the entry that made the grant, and names one grant.", false, checkTokens},
	{"P4", "tokens in real time", "A grant that was answered before another was asked for has the lower token.", false, checkTokenOrder},
	{"P5", "linearizable", "What the clients of a lease were told fits one order in which each call took effect at one moment while it ran.", true, checkLinearLog},
	{"P5b", "linearizable without the log", "The same, judged by the clients' answers alone.", false, checkLinearAnswers},
	{"P6", "fenced registers", "A register takes no write with a token below one it has accepted, and fenced updates are never lost.", false, checkRegisters},
	{"P7", "one holder", "At each index a lease has at most one live token.", true, ruleOf("P7")},
	{"P8", "never early", "A grant does not end before its TTL is over since it was last renewed, and a lock delay is served in full.", false, checkEarly},
	{"P9", "late by a bound", "In a healed cluster a grant ends within its TTL and the time of a failover.", false, checkLate},
	{"P10", "the dead stay dead", "A token whose grant is over does nothing any more, and a wait that is over makes no grant.", false, checkDead},
	{"P11", "safe to repeat", "The same request makes one grant, however often it is sent.", false, checkRepeats},
	{"P12", "first come, first served", "Waiters are granted in the order of the entries that queued them, and none is forgotten.", true, ruleOf("P12")},
	{"P13", "snapshots tell all", "The state of each node, also of one that installed a snapshot, is that of the whole log replayed.", true, checkReplayHashes},
	{"P14", "answers are in the log", "Each answer is what its entry in the log came to, in real-time order, and nothing is in the log that nobody asked for.", true, checkAnswers},
	{"P15", "serves or says so", "With a healed quorum a lease is granted soon; without one requests fail fast, and none hangs.", false, checkProbes},
	{"P16", "honest stale reads", "Reads that may be old say so, show a state that was, and do not go backwards on one connection.", false, checkStaleReads},
	{"P17", "a renewal in time wins", "A renewal that reached the leader before the deadline is not overtaken by the expiry.", true, checkArrivals},
}

// finding gathers what the check of one property sees.
type finding struct {
	checked    int
	unit       string
	violations []Violation
	found      int
	note       string
	undecided  bool // the check could not be brought to its end
}

func (f *finding) violated(v Violation) {
	f.found++
	if len(f.violations) < maxViolations {
		f.violations = append(f.violations, v)
	}
}

// Check judges a history by all properties.
func Check(h *history.History, p Params) Report {
	r := newRun(h, p)
	report := Report{Run: h.Run, Evidence: gather(r)}
	for _, property := range properties {
		report.Results = append(report.Results, r.judge(property))
	}
	report.Missing = p.Need.missing(report.Evidence)
	report.decide(p)
	return report
}

// judge checks one property.
func (r *run) judge(p Property) Result {
	res := Result{Property: p, Status: NotChecked}
	if p.needsLog && r.replay == nil {
		res.Note = r.noReplay
		return res
	}
	var f finding
	p.check(r, &f)
	res.Checked, res.Unit, res.Violations, res.Found, res.Note = f.checked, f.unit, f.violations, f.found, f.note
	switch {
	case f.found > 0:
		res.Status = Violated
	case f.undecided:
		res.Status = Inconclusive
	case f.checked > 0:
		res.Status = OK
	case res.Note == "":
		res.Note = fmt.Sprintf("the history has no %s", f.unit)
	}
	return res
}

// run is a history with what several checks need to know of it.
type run struct {
	h *history.History
	p Params

	log      history.Log
	replay   *replay // nil if the log cannot be replayed
	noReplay string  // why not
	rules    map[string]*finding
	places   placement
	seen     *historyView // what the answers alone tell
	join     *join        // nil without a replay
}

func newRun(h *history.History, p Params) *run {
	r := &run{h: h, p: p, log: h.Merge(), places: newPlacement(h), seen: view(h)}
	r.replay, r.noReplay = newReplay(h, r.log)
	if r.replay != nil {
		r.join = newJoin(r)
		r.rules = applyRules(r.replay)
	}
	return r
}

// longest is a span of time on any clock that may run slower than ours.
func (p Params) longest(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + p.ClockMargin))
}

// shortest is a span of time on any clock that may run faster than ours.
func (p Params) shortest(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - p.ClockMargin))
}
