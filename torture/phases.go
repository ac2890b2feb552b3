package torture

import (
	"slices"
	"time"

	"leasehold/torture/history"
)

// phase is a part of the time of a run, with what the clients got done in it.
type phase struct {
	Name      string
	Length    time.Duration
	Answered  int // operations that the cluster decided
	Unknown   int // and those of which the client does not know what came
	Turned    int // away: certainly nothing happened
	latencies []time.Duration
}

// Rate of answers in a second.
func (p *phase) Rate() float64 {
	if p.Length <= 0 {
		return 0
	}
	return float64(p.Answered) / p.Length.Seconds()
}

// Latency that so many percent of the answers do not exceed.
func (p *phase) Latency(percent int) time.Duration {
	if len(p.latencies) == 0 {
		return 0
	}
	slices.Sort(p.latencies)
	return p.latencies[(len(p.latencies)-1)*percent/100].Round(10 * time.Microsecond)
}

// phases are before the first fault of the cluster, while one is on, between them, and
// after the last one.
func phases(h *history.History) []*phase {
	end, first, last := time.Duration(0), time.Duration(0), time.Duration(0)
	for i := range h.Operations {
		end = max(end, h.Operations[i].Return)
	}
	spans := disturbances(h)
	if len(spans) > 0 {
		first, last = spans[0].from, spans[len(spans)-1].to
	}
	before, during := &phase{Name: "before the first fault", Length: first}, &phase{Name: "while a fault is on"}
	between, after := &phase{Name: "between faults"}, &phase{Name: "after the last fault", Length: end - last}
	for _, s := range spans {
		during.Length += s.to - s.from
	}
	between.Length = last - first - during.Length
	for i := range h.Operations {
		o := &h.Operations[i]
		switch {
		case o.Return < first:
			before.count(o)
		case o.Return >= last:
			after.count(o)
		case slices.ContainsFunc(spans, func(s span) bool { return s.from <= o.Return && o.Return < s.to }):
			during.count(o)
		default:
			between.count(o)
		}
	}
	return []*phase{before, during, between, after}
}

func (p *phase) count(o *history.Operation) {
	switch {
	case o.Answered():
		p.Answered++
		if o.Wait == 0 {
			p.latencies = append(p.latencies, o.Return-o.Call)
		}
	case o.Outcome == history.Unknown:
		p.Unknown++
	default:
		p.Turned++
	}
}

// span is a time in which something was wrong with the cluster.
type span struct{ from, to time.Duration }

// disturbances are those times, without overlaps, in their order.
func disturbances(h *history.History) (all []span) {
	var each []span
	for _, f := range h.Faults {
		if f.Client == "" {
			each = append(each, span{f.From, f.To})
		}
	}
	slices.SortFunc(each, func(a, b span) int { return int(a.from - b.from) })
	for _, s := range each {
		if last := len(all) - 1; last >= 0 && s.from <= all[last].to {
			all[last].to = max(all[last].to, s.to)
		} else {
			all = append(all, s)
		}
	}
	return all
}
