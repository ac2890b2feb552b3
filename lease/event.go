package lease

import (
	"fmt"
	"time"
)

// Kind of an [Event].
type Kind string

// The kinds of events.
const (
	KindLeader    Kind = "leader"
	KindGranted   Kind = "granted"
	KindRenewed   Kind = "renewed"
	KindReleased  Kind = "released"
	KindExpired   Kind = "expired"
	KindReclaimed Kind = "reclaimed"
	KindRevoked   Kind = "revoked"
	KindQueued    Kind = "queued"
	KindAbandoned Kind = "abandoned"
	KindCooling   Kind = "cooling"
	KindReopened  Kind = "reopened"
	KindWritten   Kind = "written"
	KindRefused   Kind = "refused"
)

var kindOfEnd = map[How]Kind{
	Released: KindReleased, Expired: KindExpired, Reclaimed: KindReclaimed, Revoked: KindRevoked,
}

// Event is one thing that an entry did. An entry may yield several, all with
// its index: a hand-over ends one grant and makes another.
type Event struct {
	Index, Term uint64
	At          int64
	Kind        Kind
	Name        string // of the lease or register; of the node for KindLeader
	Register    bool   // the name is that of a register
	Holder      string
	RequestID   string // of the grant or waiter concerned
	Token       uint64 // of the grant concerned, or that came with the request; 0 if none

	// Place is the index of the entry that queued the waiter concerned; 0 if there
	// is none.
	Place uint64
	// Delay is the lock delay that begins, for KindCooling.
	Delay time.Duration
	// Reason is the operator's for KindRevoked, and a [Reason] for KindAbandoned and
	// for a KindReleased that was none of the holder's doing.
	Reason string
	// Cause is the refusal, for KindRefused, else nil.
	Cause error
	// Other is the index of the entry that explains this one: the last renewal
	// before an expiry, the end of a grant that a refused request relied on, the
	// live grant that stood in the way, the grant that ended in the same entry, the
	// start of the lock delay that is over. 0 if there is none.
	Other uint64
}

func newEvent(e Entry, k Kind, name string) Event {
	return Event{Index: e.Index, Term: e.Term, At: e.At, Kind: k, Name: name}
}

// of fills in the grant that the event is about.
func (e Event) of(g *Grant) Event {
	e.Holder, e.RequestID, e.Token = g.Holder, g.RequestID, g.Token
	return e
}

// by fills in the waiter that the event is about.
func (e Event) by(w *Waiter) Event {
	e.Holder, e.RequestID, e.Place = w.Holder, w.RequestID, w.Place
	return e
}

// Why says in one sentence why the event happened, in terms of the log.
func (e Event) Why() string {
	switch e.Kind {
	case KindLeader:
		return fmt.Sprintf("%s won term %d; every lease has its full TTL again", e.Name, e.Term)
	case KindGranted:
		return e.whyGranted()
	case KindRenewed:
		return fmt.Sprintf("token %d was live and %s holds it", e.Token, e.Holder)
	case KindReleased:
		if e.Reason != "" {
			return fmt.Sprintf("nobody was there to take token %d: %s", e.Token, e.Reason)
		}
		return fmt.Sprintf("%s gave token %d back", e.Holder, e.Token)
	case KindExpired:
		return fmt.Sprintf("no renewal of token %d for its whole TTL since index %d", e.Token, e.Other)
	case KindReclaimed:
		return fmt.Sprintf("%s asked anew and gave up its older token %d", e.Holder, e.Token)
	case KindRevoked:
		return fmt.Sprintf("an operator took token %d away from %s: %s", e.Token, e.Holder, e.Reason)
	case KindQueued:
		if e.Other == 0 {
			return "the lease is cooling; it waits for its turn"
		}
		return fmt.Sprintf("token %d is live; it waits for its turn", e.Other)
	case KindAbandoned:
		return fmt.Sprintf("%s gave up the place of index %d: %s", e.Holder, e.Place, e.Reason)
	case KindCooling:
		return fmt.Sprintf("the grant of token %d asked that nobody be granted for %v after it", e.Token, e.Delay)
	case KindReopened:
		return fmt.Sprintf("the lock delay that began at index %d is over", e.Other)
	case KindWritten:
		if e.Token == 0 {
			return "it came without a token, so nothing was checked"
		}
		return fmt.Sprintf("token %d is no lower than any seen before", e.Token)
	case KindRefused:
		return e.whyRefused()
	}
	return ""
}

func (e Event) whyGranted() string {
	switch {
	case e.Place != 0 && e.Other != 0:
		return fmt.Sprintf("first in the queue since index %d: token %d ended in this same entry", e.Place, e.Other)
	case e.Place != 0:
		return fmt.Sprintf("first in the queue since index %d: the lock delay ended in this same entry", e.Place)
	case e.Other != 0:
		return fmt.Sprintf("its holder reclaimed it: token %d ended in this same entry", e.Other)
	}
	return fmt.Sprintf("the lease was free at index %d", e.Index)
}

func (e Event) whyRefused() string {
	switch e.Cause {
	case ErrHeld:
		return fmt.Sprintf("token %d is live", e.Other)
	case ErrCooling:
		return fmt.Sprintf("the lock delay that began at index %d still runs", e.Other)
	case ErrNotHolder:
		return fmt.Sprintf("token %d is live but %s does not hold it", e.Token, e.Holder)
	case ErrLost:
		return e.whyNotLive("this lease")
	case ErrRequestEnded:
		return fmt.Sprintf("the grant that this request made ended at index %d", e.Other)
	case ErrStaleToken:
		return fmt.Sprintf("token %d came after token %d had been seen", e.Token, e.Other)
	case ErrNotLive:
		return e.whyNotLive("the lease")
	case ErrNotCooling:
		return fmt.Sprintf("no lock delay of token %d runs", e.Token)
	case ErrNotQueued:
		switch {
		case e.Place != 0:
			return fmt.Sprintf("the request has queued again, at index %d", e.Place)
		case e.Other != 0:
			return fmt.Sprintf("the request was granted at index %d", e.Other)
		}
		return "the request is not in the queue"
	case ErrRenewed:
		return fmt.Sprintf("token %d was renewed at index %d", e.Token, e.Other)
	case ErrOldTerm:
		return fmt.Sprintf("token %d has its full TTL again since index %d, where another leader took over", e.Token, e.Other)
	}
	return ""
}

func (e Event) whyNotLive(of string) string {
	switch {
	case e.Other != 0:
		return fmt.Sprintf("the grant of token %d ended at index %d", e.Token, e.Other)
	case e.Token >= e.Index:
		return fmt.Sprintf("no grant can have token %d: the log has only come to index %d", e.Token, e.Index)
	}
	return fmt.Sprintf("token %d is no live grant of %s, nor among the last %d that ended", e.Token, of, EndedKept)
}
