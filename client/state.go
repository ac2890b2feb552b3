package client

import "time"

// State of a [Lease].
type State int

// The states. See the diagram in the package's documentation.
const (
	// Held: the server cannot have granted the lease to anybody else by expiry.
	Held State = iota
	// Uncertain: the same, but a renewal is overdue. The lease will be lost soon
	// unless one is confirmed: begin nothing new.
	Uncertain
	// Lost for good. Stop.
	Lost
	// Released: given back by [Lease.Release].
	Released
)

func (s State) String() string {
	switch s {
	case Held:
		return "held"
	case Uncertain:
		return "uncertain"
	case Lost:
		return "lost"
	case Released:
		return "released"
	}
	return "unknown"
}

// The times in the life of a lease, counted from before the latest confirmed
// request for it was sent. The server counts the whole TTL from when it applied
// that request, which was later.
//
//	0        TTL/3      TTL/2              TTL - margin   TTL
//	├──────────┼──────────┼───────────────────────┼────────┤
//	 confirmed  renewal    uncertain               lost     the server may
//	            due                                         grant it again

// margin is by how much a client gives up before the TTL. Two things must fit
// into it. The clocks of client and leader may run at different rates: a kernel
// that is disciplined by NTP stays within 0.05 % of true time, two of them within
// 0.1 %, and crystals without discipline are about as good; a fiftieth is twenty
// times that. And between the deadline and what is done about it a timer has to
// fire and goroutines have to run: 10 ms.
func margin(ttl time.Duration) time.Duration { return ttl/50 + 10*time.Millisecond }

// deadline is when a lease is lost that was confirmed by a request sent at sent.
func deadline(sent time.Time, ttl time.Duration) time.Time { return sent.Add(ttl - margin(ttl)) }

// overdue is when a renewal is overdue: the one of TTL/3 has had time to fail, or
// is still without an answer.
func overdue(sent time.Time, ttl time.Duration) time.Time { return sent.Add(ttl / 2) }

// renewalTimeout bounds one try to renew. It is below TTL/3, so that there is time
// for a second one and a part of a third.
func renewalTimeout(ttl time.Duration) time.Duration { return ttl / 4 }
