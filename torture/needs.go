package torture

import (
	"time"

	"leasehold/faults"
	"leasehold/torture/check"
)

// params are the bounds that a run has to keep, and what it has to show. Late is how
// late the machine itself was: the bounds do not count that.
func params(s faults.Schedule, nodes int, length, late time.Duration, blackBox bool) check.Params {
	p := check.DefaultParams()
	p.Failover = 3*heartbeatTimeout + time.Second
	p.ClockMargin += clockError(s)
	p.Slack += late
	if !blackBox {
		p.LeaveOut = []string{"P5b"} // the search may take long
	}
	if len(s) == 0 {
		p.Missing = []string{"no fault was played, so nothing was put to the test"}
	}
	p.Need = need(s, nodes, length)
	p.Require = []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P14", "P15", "P16"}
	return p
}

// clockError is by how much the lease clocks of a schedule run wrong.
func clockError(s faults.Schedule) (most float64) {
	for _, step := range s {
		if step.Kind == faults.ClockRate {
			// At 90 % a TTL takes 1/0.9 of its time.
			rate := float64(step.Percent) / 100
			most = max(most, 1/rate-1, 1-1/rate)
		}
	}
	return most
}

// need is the least that a run must have met with. It depends on what was done: a
// full disk drops no message.
func need(s faults.Schedule, nodes int, length time.Duration) check.Need {
	n := check.Need{
		Operations: int(10 * length.Seconds()), ExpiriesPerMin: 60, Stale: 5, Repeated: 1, Redirects: 1,
		Snapshots: 5, LostUpdates: 1, BeliefOverlap: time.Millisecond,
	}
	var links, outages, breaks int
	var away bool
	for _, step := range s {
		switch step.Kind {
		case faults.Cut, faults.Jam, faults.Delay, faults.Loss:
			links++
		case faults.Kill, faults.Pause:
			outages++
			away = away || missesEntries(s, step, nodes)
		}
		if breaksConnections(step) {
			breaks++
		}
	}
	n.Dropped = 10 * links
	if outages > 0 {
		n.Terms = 1
	}
	if away {
		n.Installed = 1
	}
	if breaks > 0 {
		n.Unknown = 1
	}
	return n
}

// missesEntries: the node is away while a majority of the others works on, for so long
// that the others cut off their logs where it stood.
func missesEntries(s faults.Schedule, away faults.Step, nodes int) bool {
	const long, together = 2500 * time.Millisecond, 200
	down := 0 // with it
	for _, step := range s {
		if step.Kind == away.Kind && max(step.AtMillis, away.AtMillis)-min(step.AtMillis, away.AtMillis) < together {
			down++
		}
	}
	return away.Duration() >= long && down <= (nodes-1)/2
}

// breaksConnections: some client may be left without an answer.
func breaksConnections(step faults.Step) bool {
	switch step.Kind {
	case faults.Kill, faults.Stop, faults.DropReply, faults.DiskFull:
		return true
	}
	return false
}
