package check_test

import (
	"slices"
	"testing"
	"time"

	"leasehold/lease"
	"leasehold/torture/check"
	"leasehold/torture/history"
)

// mutations each turn a right history into a wrong one, or say that this one has
// no place for it. The checker must find every one of them.
var mutations = []struct {
	name   string
	mutate func(h *history.History) bool
	// byLog and byAnswers are properties of which one at least must be violated, with
	// the log and when the log is taken away. Empty: it cannot be seen that way.
	byLog, byAnswers []string
}{
	{
		"change a token", onOp(isFreshGrant, func(_ *history.History, o *history.Operation) { o.Answer.Token++ }),
		[]string{"P14", "P3"},
		nil,
	},
	{
		"double a grant", onOp(isFreshGrant, func(h *history.History, o *history.Operation) {
			twin := *o
			twin.Holder, twin.Client = "intruder", "intruder"
			h.Operations = append(h.Operations, twin)
		}),
		[]string{"P3", "P14"},
		[]string{"P3"},
	},
	{"swap two grants", swapGrants, []string{"P3", "P14"}, []string{"P4", "P5b"}},
	{"drop an expiry from the log", onEntry(isExpiry, func(e *history.Entry) { e.Command, e.Kind = nil, "noop" }), []string{"P13"}, nil},
	{"give an entry another content", onEntry(isAcquire, func(e *history.Entry) {
		c := e.Command.(lease.Acquire)
		c.Holder += "'"
		e.Command = c
	}), []string{"P13", "P14"}, nil},
	{"shift a call behind a later answer", shiftBehind, []string{"P14"}, nil},
	{"renew until just before the expiry", renewLate, []string{"P8"}, nil},
	{"grant early", grantEarly, nil, []string{"P8"}},
	{
		"refuse a renewal that was carried out", onOp(is(history.Renew, history.OK), func(_ *history.History, o *history.Operation) {
			o.Outcome, o.Code = history.Refused, "lease_lost"
		}),
		[]string{"P14"},
		nil,
	},
	{
		"carry out a renewal that was refused", onOp(isLost, func(_ *history.History, o *history.Operation) {
			o.Outcome, o.Code = history.OK, ""
		}),
		[]string{"P14"},
		nil,
	},
	{
		"refuse an acquire that was granted", onOp(isFreshGrant, func(_ *history.History, o *history.Operation) {
			o.Outcome, o.Code, o.Answer = history.Refused, "held", history.Answer{Index: o.Answer.Index}
		}),
		[]string{"P14"},
		nil,
	},
	{
		"say that nothing happened", onOp(is(history.Release, history.OK), func(_ *history.History, o *history.Operation) { o.Outcome = history.Nothing }),
		[]string{"P14"},
		nil,
	},
	{"forget an operation", func(h *history.History) bool {
		i := slices.IndexFunc(h.Operations, func(o history.Operation) bool { return o.Kind == history.Write && o.Outcome == history.OK })
		if i >= 0 {
			h.Operations = slices.Delete(h.Operations, i, i+1)
		}
		return i >= 0
	}, []string{"P14"}, nil},
	{
		"read free what is held", onOp(isHeldRead, func(_ *history.History, o *history.Operation) {
			o.Answer.State, o.Answer.Token, o.Answer.Holder = "free", 0, ""
		}),
		[]string{"P14"},
		nil,
	},
	{
		"read a grant long after its end", onOp(isHeldRead, func(h *history.History, o *history.Operation) {
			o.Call, o.Return = h.End.At+10*time.Second, h.End.At+11*time.Second
		}),
		[]string{"P9"},
		[]string{"P9", "P10", "P5b"},
	},
	{"read an old grant", readOld, []string{"P14"}, []string{"P10", "P5b"}},
	{"use a dead token", useDead, []string{"P14", "P10"}, []string{"P10", "P5b"}},
	{"one request, two tokens", twoTokens, []string{"P11", "P14"}, []string{"P11"}},
	{
		"set back a stale read", onOp(isLaterStale, func(_ *history.History, o *history.Operation) { o.Answer.Index = 1 }),
		[]string{"P16"},
		[]string{"P16"},
	},
	{"change a state", func(h *history.History) bool {
		m := &h.Samples[len(h.Samples)/2].Marks
		*m = []history.Mark{{Index: (*m)[0].Index, Hash: (*m)[0].Hash + 1}}
		return (*m)[0].Index > 0
	}, []string{"P13"}, nil},
	{"accept a stale write", acceptStale, []string{"P14", "P6"}, []string{"P6"}},
	{"end the log early", func(h *history.History) bool {
		h.Entries = h.Entries[:len(h.Entries)-len(h.Entries)/4]
		return true
	}, []string{"P14"}, nil},
	{
		"fail a probe", onOp(isProbe, func(_ *history.History, o *history.Operation) { o.Outcome = history.Unknown }),
		[]string{"P15"},
		[]string{"P15"},
	},
	{"two leaders of a term", func(h *history.History) bool {
		l := h.Leaderships[0]
		l.Node = "other"
		h.Leaderships = append(h.Leaderships, l)
		return true
	}, []string{"P2"}, []string{"P2"}},
}

// Each kind of change that makes a history wrong is found, by a property that is
// about it; and what the answers alone can show is found without the log.
func TestCheck_MutatedHistories_AreViolated(t *testing.T) {
	seeds := 16
	if testing.Short() || raceEnabled {
		seeds = 8
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			made := 0
			for seed := range seeds {
				h := simulate(uint64(seed))
				if !m.mutate(h) {
					continue
				}
				made++
				if m.byLog != nil {
					mustBreak(t, h, m.byLog, seed)
				}
				if m.byAnswers != nil {
					h.Entries = nil
					mustBreak(t, h, m.byAnswers, seed)
				}
			}
			if made < seeds/4 {
				t.Errorf("only %d of %d histories had a place for it", made, seeds)
			}
		})
	}
}

func mustBreak(t *testing.T, h *history.History, ids []string, seed int) {
	t.Helper()
	report := check.Check(h, check.DefaultParams())
	got := violatedIn(report)
	if !slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(got, id) }) {
		t.Fatalf("seed %d, log of %d entries: violated are %v, want one of %v\n%s", seed, len(h.Entries), got, ids, text(report))
	}
}

// onOp changes the operation in the middle of those that fit.
func onOp(fits func(*history.History, *history.Operation) bool, change func(*history.History, *history.Operation)) func(*history.History) bool {
	return func(h *history.History) bool {
		var all []int
		for i := range h.Operations {
			if fits(h, &h.Operations[i]) {
				all = append(all, i)
			}
		}
		if len(all) == 0 {
			return false
		}
		change(h, &h.Operations[all[len(all)/2]])
		return true
	}
}

func onEntry(fits func(history.Entry) bool, change func(*history.Entry)) func(*history.History) bool {
	return func(h *history.History) bool {
		i := slices.IndexFunc(h.Entries, fits)
		if i >= 0 {
			change(&h.Entries[i])
		}
		return i >= 0
	}
}

func is(k history.Kind, out history.Outcome) func(*history.History, *history.Operation) bool {
	return func(_ *history.History, o *history.Operation) bool { return o.Kind == k && o.Outcome == out }
}

func isFreshGrant(_ *history.History, o *history.Operation) bool {
	return o.Kind == history.Acquire && o.Outcome == history.OK && !o.Answer.Replayed && !o.Probe
}

func isProbe(_ *history.History, o *history.Operation) bool { return o.Probe && o.Call > 3*time.Second }

func isLost(_ *history.History, o *history.Operation) bool {
	return o.Kind == history.Renew && o.Code == "lease_lost"
}

func isHeldRead(_ *history.History, o *history.Operation) bool {
	return o.Kind == history.Get && o.Answer.State == "held"
}

func isLaterStale(h *history.History, o *history.Operation) bool {
	read := is(history.StaleGet, history.OK)
	return read(h, o) && slices.ContainsFunc(h.Operations, func(other history.Operation) bool {
		return read(h, &other) && other.Session == o.Session && other.Return < o.Call && other.Answer.Index > 1
	})
}

func isExpiry(e history.Entry) bool  { _, ok := e.Command.(lease.Expire); return ok }
func isAcquire(e history.Entry) bool { _, ok := e.Command.(lease.Acquire); return ok }

// grantsOf lists the fresh grants of a lease in the order of their answers.
func grantsOf(h *history.History, name string) []*history.Operation {
	var all []*history.Operation
	for i := range h.Operations {
		if o := &h.Operations[i]; isFreshGrant(h, o) && o.Name == name {
			all = append(all, o)
		}
	}
	return all
}

// apart finds two grants of one lease, the second asked for after the first was
// answered.
func apart(h *history.History) (first, second *history.Operation) {
	for _, name := range simNames {
		all := grantsOf(h, name)
		for i := 1; i < len(all); i++ {
			if all[i-1].Return < all[i].Call && all[i-1].Holder != all[i].Holder {
				return all[i-1], all[i]
			}
		}
	}
	return nil, nil
}

func swapGrants(h *history.History) bool {
	a, b := apart(h)
	if a == nil {
		return false
	}
	a.Answer.Token, b.Answer.Token = b.Answer.Token, a.Answer.Token
	return true
}

// shiftBehind lets an operation be called after one that took effect later had
// been answered.
func shiftBehind(h *history.History) bool {
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Kind != history.Write || o.Outcome != history.OK {
			continue
		}
		for j := range h.Operations {
			if later := h.Operations[j]; later.Kind == history.Renew && later.Outcome == history.OK && later.Answer.Index > o.Answer.Index {
				o.Call, o.Return = later.Return+time.Millisecond, later.Return+2*time.Millisecond
				return true
			}
		}
	}
	return false
}

// renewLate moves the last renewal before an expiry close to it.
func renewLate(h *history.History) bool {
	for _, e := range h.Entries {
		c, ok := e.Command.(lease.Expire)
		if !ok || c.Renewal == c.Token {
			continue
		}
		seen := time.Duration(1<<63 - 1)
		for _, o := range h.Operations {
			if o.Answered() && o.Answer.Index >= e.Index {
				seen = min(seen, o.Return)
			}
		}
		for i := range h.Operations {
			o := &h.Operations[i]
			if o.Kind == history.Renew && o.Outcome == history.OK && o.Answer.Index == c.Renewal && seen < 1<<62 && o.Call < seen-100*time.Millisecond && c.Term == e.Term {
				o.Call, o.Return = seen-20*time.Millisecond, seen-10*time.Millisecond
				return true
			}
		}
	}
	return false
}

// grantEarly moves a grant that followed an expiry to where the one before it
// still had its TTL.
func grantEarly(h *history.History) bool {
	for _, name := range simNames {
		all := grantsOf(h, name)
		for i := 1; i < len(all); i++ {
			before, next := all[i-1], all[i]
			ended := slices.ContainsFunc(h.Operations, func(o history.Operation) bool {
				return (o.Kind == history.Release || o.Kind == history.Revoke || o.TTL != 0 && o.Kind == history.Renew) && o.Token == before.Answer.Token
			})
			ghost := slices.ContainsFunc(h.Operations, func(o history.Operation) bool {
				return o.Kind == history.Acquire && o.Attempt() == next.Attempt() && o.ID != next.ID
			})
			if ended || ghost || next.Reclaim || before.Answer.Token > next.Answer.Token || before.Wait > 0 {
				continue
			}
			next.Call, next.Return = before.Return+time.Millisecond, before.Call+before.TTL/2
			return next.Return > next.Call
		}
	}
	return false
}

func readOld(h *history.History) bool {
	first, second := apart(h)
	if first == nil {
		return false
	}
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Kind == history.Get && o.Outcome == history.OK && o.Name == first.Name && o.Call > second.Return && o.Answer.Token != first.Answer.Token {
			o.Answer.State, o.Answer.Token, o.Answer.Holder = "held", first.Answer.Token, first.Holder
			return true
		}
	}
	return false
}

func useDead(h *history.History) bool {
	first, second := apart(h)
	if first == nil {
		return false
	}
	h.Operations = append(h.Operations, history.Operation{
		ID: len(h.Operations) + 1, Client: first.Client, Kind: history.Renew, Name: first.Name, Holder: first.Holder, Token: first.Answer.Token,
		Call: second.Return + time.Millisecond, Return: second.Return + 2*time.Millisecond,
		Outcome: history.OK, Answer: history.Answer{Token: first.Answer.Token, Index: second.Answer.Index},
	})
	return true
}

func twoTokens(h *history.History) bool {
	for _, name := range simNames {
		all := grantsOf(h, name)
		for i := range all {
			for j := range i {
				if all[i].Holder == all[j].Holder && all[i].Answer.Token != all[j].Answer.Token {
					all[i].RequestID = all[j].RequestID
					return true
				}
			}
		}
	}
	return false
}

func acceptStale(h *history.History) bool {
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Kind != history.Write || o.Outcome != history.Refused || o.Code != "stale_token" {
			continue
		}
		if slices.ContainsFunc(h.Operations, func(other history.Operation) bool {
			return other.Kind == history.Write && other.Outcome == history.OK && other.Register == o.Register && other.Token > o.Token && other.Return < o.Call
		}) {
			o.Outcome, o.Code = history.OK, ""
			return true
		}
	}
	return false
}
