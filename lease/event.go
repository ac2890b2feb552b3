package lease

import "fmt"

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
	KindRefused   Kind = "refused"
)

// Event is one thing that an entry did. An entry may yield several, all with
// its index: a reclaim ends one grant and makes another.
type Event struct {
	Index, Term uint64
	At          int64
	Kind        Kind
	Name        string // of the lease; of the node for KindLeader
	Holder      string
	Token       uint64 // of the grant concerned, 0 if none

	// Cause is the refusal, for KindRefused, else nil.
	Cause error
	// Other is the index of the entry that explains this one: the last renewal
	// before an expiry, the end of a grant that a refused request relied on, the
	// live grant that stood in the way, the grant whose place a reclaim took. 0 if
	// there is none.
	Other uint64
}

// Why says in one sentence why the event happened, in terms of the log.
func (e Event) Why() string {
	switch e.Kind {
	case KindLeader:
		return fmt.Sprintf("%s won term %d; every lease has its full TTL again", e.Name, e.Term)
	case KindGranted:
		if e.Other != 0 {
			return fmt.Sprintf("its holder reclaimed it: token %d ended in this same entry", e.Other)
		}
		return fmt.Sprintf("the lease was free at index %d", e.Index)
	case KindRenewed:
		return fmt.Sprintf("token %d was live and %s holds it", e.Token, e.Holder)
	case KindReleased:
		return fmt.Sprintf("%s gave token %d back", e.Holder, e.Token)
	case KindExpired:
		return fmt.Sprintf("no renewal of token %d for its whole TTL since index %d", e.Token, e.Other)
	case KindReclaimed:
		return fmt.Sprintf("%s asked anew and gave up its older token %d", e.Holder, e.Token)
	case KindRefused:
		return e.whyRefused()
	}
	return ""
}

func (e Event) whyRefused() string {
	switch e.Cause {
	case ErrHeld:
		return fmt.Sprintf("token %d is live", e.Other)
	case ErrNotHolder:
		return fmt.Sprintf("token %d is live but %s does not hold it", e.Token, e.Holder)
	case ErrLost:
		if e.Other == 0 {
			return fmt.Sprintf("token %d is no live grant of this lease, nor among the last %d that ended", e.Token, EndedKept)
		}
		return fmt.Sprintf("the grant of token %d ended at index %d", e.Token, e.Other)
	case ErrRequestEnded:
		return fmt.Sprintf("the grant that this request made ended at index %d", e.Other)
	case ErrRenewed:
		return fmt.Sprintf("token %d was renewed at index %d", e.Token, e.Other)
	case ErrOldTerm:
		return fmt.Sprintf("token %d has its full TTL again since index %d, where another leader took over", e.Token, e.Other)
	}
	return ""
}
