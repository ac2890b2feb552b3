package check_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/lease"
	"leasehold/torture/check"
	"leasehold/torture/history"
)

// fabricated are pairs of histories: one breaks a property, the other is as close
// to it as can be and keeps all. What the rules of package check find in a log
// is not here, since no log that the real table replays breaks them.
var fabricated = []struct {
	property string
	name     string
	says     string   // part of the sentence
	also     []string // what else must break with it
	story    func(s *story, broken bool)
}{
	{
		"P1", "two states at one index", "at index 7 the state of n1 is 000000000000000a and that of n2 is 000000000000000b", nil,
		func(s *story, broken bool) {
			hash := history.Hash(10)
			s.h.Samples = append(s.h.Samples, history.Sample{Node: "n1", Applied: 7, Marks: []history.Mark{{Index: 7, Hash: hash}}})
			if broken {
				hash++
			}
			s.h.Samples = append(s.h.Samples, history.Sample{Node: "n2", Applied: 9, Marks: []history.Mark{{Index: 7, Hash: hash}, {Index: 9, Hash: 4}}})
		},
	},
	{
		"P1", "two entries at one index", "n1 and n2 have different entries at index 2", nil,
		func(s *story, broken bool) {
			s.entry(lease.Lead{Node: "n1"})
			e := s.h.Entries[1]
			e.Node = "n2"
			if broken {
				e.Command = lease.Lead{Node: "n1", Address: "elsewhere"}
			}
			s.h.Entries = append(s.h.Entries, e)
		},
	},
	{
		"P2", "two leaders of a term", "term 4 has the leaders n1 and n2", nil,
		func(s *story, broken bool) {
			term := uint64(5)
			if broken {
				term = 4
			}
			s.h.Leaderships = []history.Leadership{{At: ms, Node: "n1", Term: 4}, {At: 2 * ms, Node: "n2", Term: term}, {At: 3 * ms, Node: "n2", Term: term}}
		},
	},
	{
		"P3", "a token given twice", "token 5 names two grants, to x and to y", nil,
		func(s *story, broken bool) {
			token := uint64(6)
			if broken {
				token = 5
			}
			s.op(0, 20*ms, acquire("a", "x", 5, 0))
			s.op(0, 20*ms, acquire("b", "y", token, 0))
		},
	},
	{
		"P4", "a later grant with a lower token", "token 7 had been answered before y asked for b, and that got token 6", nil,
		func(s *story, broken bool) {
			asked := 15 * ms
			if broken {
				asked = 25 * ms
			}
			s.op(0, 20*ms, acquire("a", "x", 7, 0))
			s.op(asked, 40*ms, acquire("b", "y", 6, 0))
		},
	},
	{
		"P5", "free while it is held", "somebody finds it \"sees free", nil,
		func(s *story, broken bool) {
			o, at := s.logAcquire("a", "x", 0)
			s.op(0, 10*ms, o)
			r := read("a", "held", "x", at, 0)
			if broken {
				r = read("a", "free", "", 0, 0)
			}
			s.op(12*ms, 15*ms, r)
			s.h.End = &history.End{At: 20 * ms, LogComplete: true}
		},
	},
	{
		"P5b", "held by nobody", "somebody finds it \"held", nil,
		func(s *story, broken bool) {
			s.op(0, 10*ms, acquire("a", "x", 5, 0))
			s.op(20*ms, 30*ms, release("a", "x", 5, 0))
			ghost := acquire("a", "z", 0, 0)
			ghost.Outcome = history.Unknown
			if !broken {
				s.op(35*ms, 900*ms, ghost)
			}
			s.op(40*ms, 50*ms, refused(acquire("a", "y", 6, 0), "held"))
		},
	},
	{
		"P5b", "held again after its release", "somebody finds it \"sees held token 5",
		[]string{"P10"},
		func(s *story, broken bool) {
			s.op(0, 10*ms, acquire("a", "x", 5, 0))
			s.op(20*ms, 30*ms, release("a", "x", 5, 0))
			from := 25 * ms
			if broken {
				from = 35 * ms
			}
			s.op(from, 40*ms, read("a", "held", "x", 5, 0))
		},
	},
	{
		"P6", "a token that was overtaken", "r accepted token 7 after token 9", nil,
		func(s *story, broken bool) {
			s.op(0, 10*ms, write("r", 9, "1"))
			o := write("r", 7, "2")
			if !broken {
				o = refused(o, "stale_token")
			}
			s.op(20*ms, 30*ms, o)
		},
	},
	{
		"P6", "an overtaken token by the log's order", "r accepted token 7 after token 9", nil,
		func(s *story, broken bool) {
			first, second := write("r", 9, "1"), write("r", 7, "2")
			first.Answer.Index, second.Answer.Index = 20, 19
			if broken {
				first.Answer.Index, second.Answer.Index = 19, 20
			}
			s.op(0, 30*ms, first)
			s.op(20*ms, 30*ms, second)
		},
	},
	{
		"P6", "a lost update", "both set the counter r to 4", nil,
		func(s *story, broken bool) {
			first, second := write("r", 7, "4"), write("r", 9, "5")
			if broken {
				second = write("r", 9, "4")
			}
			first.Counter, second.Counter = true, true
			s.op(0, 10*ms, first)
			s.op(20*ms, 30*ms, second)
		},
	},
	{
		"P8", "granted before the TTL was over, by the answers", "token 6 of a was answered at 0.900s", nil,
		func(s *story, broken bool) {
			known := 1000 * ms
			if broken {
				known = 900 * ms
			}
			s.op(0, 10*ms, acquire("a", "x", 5, 0))
			s.op(20*ms, known, acquire("a", "y", 6, 0))
		},
	},
	{
		"P8", "granted before the renewed TTL was over", "could not end by itself before", nil,
		func(s *story, broken bool) {
			s.op(0, 10*ms, acquire("a", "x", 5, 0))
			s.op(500*ms, 510*ms, renew("a", "x", 5, 0))
			if !broken {
				o := release("a", "x", 5, 0)
				o.Outcome = history.Unknown
				s.op(520*ms, 600*ms, o)
			}
			s.op(20*ms, 1100*ms, acquire("a", "y", 6, 0))
		},
	},
	{
		"P8", "granted within the lock delay", "could not end by itself before", nil,
		func(s *story, broken bool) {
			o := acquire("a", "x", 5, 0)
			if broken {
				o.LockDelay = 300 * ms
			}
			s.op(0, 10*ms, o)
			s.op(20*ms, 1100*ms, acquire("a", "y", 6, 0))
		},
	},
	{
		"P8", "expired early, by the log", "token 2 of a expired at index 4", nil,
		func(s *story, broken bool) {
			o, token := s.logAcquire("a", "x", 0)
			s.op(0, 10*ms, o)
			renewal := s.entry(lease.Renew{Name: "a", Holder: "x", Token: token})
			s.op(500*ms, 510*ms, renew("a", "x", token, renewal))
			end := s.entry(lease.Expire{Name: "a", Token: token, Renewal: renewal, Term: 1})
			known := 1490 * ms
			if broken {
				known = 1450 * ms
			}
			s.op(known-10*ms, known, read("a", "free", "", 0, end))
		},
	},
	{
		"P8", "a lock delay cut short, by the log", "the lock delay of a after token 2 ended at index 4", nil,
		func(s *story, broken bool) {
			token := s.entry(lease.Acquire{Name: "a", Holder: "x", RequestID: "r2", TTL: time.Second, LockDelay: 300 * ms})
			o := acquire("a", "x", token, token)
			o.LockDelay = 300 * ms
			s.op(0, 10*ms, o)
			end := s.entry(lease.Revoke{Name: "a", Token: token, Reason: "test"})
			s.op(20*ms, 30*ms, history.Operation{Kind: history.Revoke, Client: "op", Name: "a", Token: token, Reason: "test", Answer: history.Answer{Index: end}})
			open := s.entry(lease.Reopen{Name: "a", Token: token})
			known := 330 * ms
			if broken {
				known = 230 * ms
			}
			s.op(known-10*ms, known, read("a", "free", "", 0, open))
		},
	},
	{
		"P9", "held for too long, by the answers", "reader called at 6.000s and found a still held under token 5", nil,
		func(s *story, broken bool) {
			s.op(0, 10*ms, acquire("a", "x", 5, 0))
			if !broken {
				s.h.Faults = append(s.h.Faults, history.Fault{From: 100 * ms, To: 3 * time.Second, Kind: "cut"})
			}
			s.op(6*time.Second, 6010*ms, read("a", "held", "x", 5, 0))
		},
	},
	{
		"P9", "held for too long, by the log", "found a still held under token 2", nil,
		func(s *story, broken bool) {
			o, at := s.logAcquire("a", "x", 0)
			s.op(0, 10*ms, o)
			call := 3700 * ms
			if broken {
				call = 3800 * ms
			}
			s.op(call, call+10*ms, read("a", "held", "x", at, at))
		},
	},
	{
		"P9", "a waiter granted too late", "y waited for a and was granted at", nil,
		func(s *story, broken bool) {
			first, at := s.logAcquire("a", "x", 0)
			s.op(0, 10*ms, first)
			second, _ := s.logAcquire("a", "y", 9*time.Second)
			second.Answer.Index = s.entry(lease.Expire{Name: "a", Token: at, Renewal: at, Term: 1})
			second.Answer.Token = second.Answer.Index
			if known := 3500 * ms; broken {
				s.op(20*ms, 4*time.Second, second)
			} else {
				s.op(20*ms, known, second)
			}
		},
	},
	{
		"P10", "a dead token renews", "x used token 5 with success at 0.040s, after x had been told at 0.030s",
		[]string{"P5b"},
		func(s *story, broken bool) {
			s.op(0, 10*ms, acquire("a", "x", 5, 0))
			s.op(20*ms, 30*ms, refused(renew("a", "x", 5, 0), "lease_lost"))
			from := 25 * ms
			if broken {
				from = 40 * ms
			}
			s.op(from, 50*ms, renew("a", "x", 5, 0))
		},
	},
	{
		"P10", "a wait that is over makes a grant", "y was told that its wait for a was over, and is granted token 6 afterwards", nil,
		func(s *story, broken bool) {
			first, at := s.logAcquire("a", "x", 0)
			s.op(0, 10*ms, first)
			second, place := s.logAcquire("a", "y", 100*ms)
			second.Answer.Index = s.entry(lease.Abandon{Name: "a", Holder: "y", RequestID: second.RequestID, Place: place, Reason: lease.WaitOver})
			s.op(20*ms, 130*ms, refused(second, "wait_timeout"))
			s.op(140*ms, 150*ms, release("a", "x", at, s.entry(lease.Release{Name: "a", Holder: "x", Token: at})))
			if broken {
				s.entry(lease.Acquire{Name: "a", Holder: "y", RequestID: second.RequestID, TTL: time.Second})
			}
		},
	},
	{
		"P11", "one request, two grants", "request r of x for a made two grants, tokens 5 and 9", nil,
		func(s *story, broken bool) {
			first, second := acquire("a", "x", 5, 0), acquire("a", "x", 9, 0)
			first.RequestID, second.RequestID = "r", "r"
			if !broken {
				second.Answer.Token, second.Answer.Replayed = 5, true
			}
			s.op(0, 10*ms, first)
			s.op(1100*ms, 1110*ms, second)
		},
	},
	{
		"P13", "a node with another state than the log", "at index 2 the state of n1 is", nil,
		func(s *story, broken bool) {
			s.entry(lease.Lead{Node: "n1"})
			hash := history.Hash(s.table.Hash())
			if broken {
				hash++
			}
			s.h.Samples = append(s.h.Samples, history.Sample{Node: "n1", Applied: 2, Installed: 1, Marks: []history.Mark{{Index: 2, Hash: hash}}})
		},
	},
	{
		"P14", "more time than the TTL", "was told that 1001 ms remain", nil,
		func(s *story, broken bool) {
			o, _ := s.logAcquire("a", "x", 0)
			o.Answer.RemainingMillis = new(int64(1000))
			if broken {
				o.Answer.RemainingMillis = new(int64(1001))
			}
			s.op(0, 10*ms, o)
		},
	},
	{
		"P14", "an entry that nobody asked for", "entry 3 of the log was asked for by no client", nil,
		func(s *story, broken bool) {
			o, at := s.logAcquire("a", "x", 0)
			s.op(0, 10*ms, o)
			s.entry(lease.Renew{Name: "a", Holder: "x", Token: at})
			lost := renew("a", "x", at, 0)
			lost.Outcome = history.Unknown
			if broken {
				lost.Name = "b"
			}
			s.op(20*ms, 900*ms, lost)
		},
	},
	{
		"P14", "carried out although nothing was to happen", "x was told that nothing happened, and entry 3 carries it out", nil,
		func(s *story, broken bool) {
			o, at := s.logAcquire("a", "x", 0)
			s.op(0, 10*ms, o)
			if broken {
				s.entry(lease.Renew{Name: "a", Holder: "x", Token: at})
			}
			none := renew("a", "x", at, 0)
			none.Outcome = history.Nothing
			s.op(20*ms, 30*ms, none)
		},
	},
	{
		"P14", "an answer that the log has lost", "x was answered from index 3, and the log ends at 2", nil,
		func(s *story, broken bool) {
			o, at := s.logAcquire("a", "x", 0)
			s.op(0, 10*ms, o)
			if !broken {
				s.entry(lease.Renew{Name: "a", Holder: "x", Token: at})
			}
			s.op(20*ms, 30*ms, renew("a", "x", at, 3))
			s.h.End = &history.End{At: 40 * ms, LogComplete: true}
		},
	},
	{
		"P14", "an order against real time", "index 4 had been answered before y called, and its answer comes from index 3", nil,
		func(s *story, broken bool) {
			first, _ := s.logAcquire("a", "x", 0)
			second, _ := s.logAcquire("b", "y", 0)
			s.op(0, 10*ms, first)
			s.op(20*ms, 60*ms, second)
			third := s.entry(lease.Renew{Name: "a", Holder: "x", Token: 2})
			s.op(20*ms, 30*ms, renew("a", "x", 2, third))
			if broken {
				s.h.Operations[1].Call = 35 * ms
			}
		},
	},
	{
		"P14", "two redirects", "was redirected 2 times", nil,
		func(s *story, broken bool) {
			o, _ := s.logAcquire("a", "x", 0)
			if o.Redirects = 1; broken {
				o.Redirects = 2
			}
			s.op(0, 10*ms, o)
		},
	},
	{
		"P15", "no service after healing", "the cluster was healed at 2.000s", nil,
		func(s *story, broken bool) {
			s.h.Faults = []history.Fault{{From: time.Second, To: 2 * time.Second, Kind: "cut"}}
			o := acquire("probe/1", "probe", 5, 0)
			o.Probe = true
			s.op(4600*ms, 4700*ms, o)
			o = acquire("probe/2", "probe", 0, 0)
			o.Probe, o.Outcome = true, history.Nothing
			at := 3 * time.Second
			if broken {
				at = 4800 * ms
			}
			s.op(at, at+10*ms, o)
		},
	},
	{
		"P15", "a request that hangs without a quorum", "without a quorum took 2.5s to fail", nil,
		func(s *story, broken bool) {
			s.h.Faults = []history.Fault{{From: time.Second, To: 9 * time.Second, Kind: "cut", NoQuorum: true}}
			o := acquire("probe/1", "probe", 0, 0)
			o.Probe, o.Outcome = true, history.Nothing
			took := 2200 * ms
			if broken {
				took = 2500 * ms
			}
			s.op(2*time.Second, 2*time.Second+took, o)
		},
	},
	{
		"P16", "a stale read that goes back", "on connection c1 a read from index 8 followed one from index 9", nil,
		func(s *story, broken bool) {
			s.op(0, 10*ms, staleRead("c1", 9))
			session := "c2"
			if broken {
				session = "c1"
			}
			s.op(20*ms, 30*ms, staleRead(session, 8))
		},
	},
	{
		"P16", "a stale read without its label", "does not say that it is one", nil,
		func(s *story, broken bool) {
			o := staleRead("c1", 9)
			o.Answer.Stale = !broken
			s.op(0, 10*ms, o)
		},
	},
	{
		"P16", "a stale read of what never was", "reader read at index 2 that a is free", nil,
		func(s *story, broken bool) {
			o, at := s.logAcquire("a", "x", 0)
			s.op(0, 10*ms, o)
			r := staleRead("c1", at)
			if !broken {
				r.Answer.Index--
			}
			s.op(20*ms, 30*ms, r)
		},
	},
	{
		"P17", "a renewal in time loses", "reached n1 5ms before the deadline, and entry 3 expired it before the renewal's entry 4", nil,
		func(s *story, broken bool) {
			o, at := s.logAcquire("a", "x", 0)
			s.op(0, 10*ms, o)
			s.entry(lease.Expire{Name: "a", Token: at, Renewal: at, Term: 1})
			late := s.entry(lease.Renew{Name: "a", Holder: "x", Token: at})
			s.op(999*ms, 1010*ms, refused(renew("a", "x", at, late), "lease_lost"))
			left := -ms
			if broken {
				left = 5 * ms
			}
			s.h.Arrivals = []history.Arrival{{At: 995 * ms, Node: "n1", Term: 1, Name: "a", Token: at, Left: left, Index: late}, {At: 995 * ms, Node: "n1", Term: 1, Name: "b", Token: 1, Left: ms}}
		},
	},
}

// Each property is violated by a history made for it and by no other check than
// those named, with a sentence that says what happened; and a history next to it
// holds.
func TestCheck_FabricatedHistories_ViolateOneProperty(t *testing.T) {
	for _, f := range fabricated {
		t.Run(f.property+" "+f.name, func(t *testing.T) {
			bad := new(story)
			f.story(bad, true)
			report := check.Check(&bad.h, check.DefaultParams())
			got, want := violatedIn(report), append([]string{f.property}, f.also...)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) || report.Verdict != check.IsViolated {
				t.Fatalf("violated are %v, want %v\n%s", got, want, text(report))
			}
			if said := report.Of(f.property).Violations[0].What; !strings.Contains(said, f.says) {
				t.Errorf("it says %q, want %q in it", said, f.says)
			}

			good := new(story)
			f.story(good, false)
			report = check.Check(&good.h, check.DefaultParams())
			if report.Verdict != check.Holds || report.Of(f.property).Status != check.OK {
				t.Errorf("the history next to it is found %s, and %s is %s\n%s", report.Verdict, f.property, report.Of(f.property).Status, text(report))
			}
		})
	}
}

func violatedIn(r check.Report) []string {
	var ids []string
	for _, res := range r.Results {
		if res.Status == check.Violated {
			ids = append(ids, res.ID)
		}
	}
	return ids
}
