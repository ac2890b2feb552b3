package check

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"leasehold/lease"
)

// act is one thing that happened to a lease, or that somebody saw of it, in the
// words of the model.
type act struct {
	kind   actKind
	token  uint64
	holder string
	state  lease.State // sees
	// cools: the end is followed by a lock delay.
	cools bool
	// reclaims: the grant takes over from an older one of the same holder.
	reclaims bool
	// after is the token of the grant before, by the order of tokens. To grant in
	// another order leads nowhere, and a search that only finds that out at its end does
	// not come to one: a hundred calls at once have too many orders.
	after uint64
	// kept: by another answer this grant was live until a client ended it, so that
	// nothing else does. This, too, only spares the search what leads nowhere.
	kept bool
	// ghost: it may speak of a grant that no answer has told of, made for a request
	// with an unknown outcome.
	ghost bool
}

type actKind string

const (
	grants   actKind = "grants"     // token to holder
	uses     actKind = "uses"       // token is live
	ends     actKind = "ends"       // token was live, and is not any more
	reopens  actKind = "reopens"    // the lock delay is over
	over     actKind = "over"       // token is not live
	foreign  actKind = "not holder" // token is live, and not holder's
	held     actKind = "held"       // somebody holds it
	cooling  actKind = "cooling"    // the lock delay runs
	occupied actKind = "occupied"   // one or the other
	sees     actKind = "sees"       // exactly that
)

// world is the state of one lease in the model.
type world struct {
	phase  lease.State
	token  uint64 // of the live grant
	holder string
	last   uint64 // the highest token that was granted
	kept   bool   // as the act says
}

// exact is the model of a lease whose every end is known, since the log has it.
func (w world) exact(a act) (bool, world) {
	live := w.phase == lease.Held && w.token == a.token
	switch a.kind {
	case grants:
		free := w.phase == lease.Free || a.reclaims && w.phase == lease.Held && w.holder == a.holder
		return free && a.token > w.last && a.after <= w.last, world{lease.Held, a.token, a.holder, a.token, false}
	case uses:
		return live, w
	case ends:
		next := world{phase: lease.Free, last: w.last}
		if a.cools {
			next.phase = lease.Cooling
		}
		return live, next
	case reopens:
		return w.phase == lease.Cooling, world{phase: lease.Free, last: w.last}
	case over:
		return !live, w
	case foreign:
		return live && w.holder != a.holder, w
	case held:
		return w.phase == lease.Held, w
	case cooling:
		return w.phase == lease.Cooling, w
	case occupied:
		return w.phase != lease.Free, w
	case sees:
		return w.phase == a.state && (a.state != lease.Held || live && w.holder == a.holder), w
	}
	return false, w
}

// blackBox is the model of a lease that may run out at any moment, since nobody
// tells. So "held" means: not yet known to be over, and a lease is found over when
// an answer says so. When it may run out is not its business, P8 and P9 are
// about that. "Free" stands for all that is not held.
func (w world) blackBox(a act) (bool, world) {
	live := w.phase == lease.Held && w.token == a.token
	gone := world{phase: lease.Free, last: w.last}
	if a.ghost && a.token > w.last && a.kind != over { // here it shows itself
		live, w = true, world{lease.Held, a.token, a.holder, a.token, false}
		gone.last = a.token
	}
	switch a.kind {
	case grants:
		return a.token > w.last && a.after <= w.last && !w.kept || live, world{lease.Held, a.token, a.holder, max(a.token, w.last), a.kept}
	case uses:
		return live, w
	case ends:
		return live, gone
	case over:
		if live {
			return !w.kept, gone
		}
		return true, w
	case foreign:
		return live && (w.holder != a.holder || a.ghost), w
	case held:
		return w.phase == lease.Held || a.ghost, w
	case cooling:
		return !w.kept, gone
	case sees:
		if a.state != lease.Held {
			return !w.kept, gone
		}
		return live && w.holder == a.holder, w
	}
	return false, w
}

// model for the search of a linear order.
func model(step func(world, act) (bool, world)) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return world{phase: lease.Free} },
		Step: func(state, input, _ any) (bool, any) { return step(state.(world), input.(act)) },
		DescribeOperation: func(input, _ any) string {
			a := input.(act)
			s := string(a.kind)
			if a.state != "" {
				s += " " + string(a.state)
			}
			if a.token != 0 {
				s += fmt.Sprintf(" token %d", a.token)
			}
			return s + " " + a.holder
		},
		DescribeState: func(state any) string {
			w := state.(world)
			if w.phase != lease.Held {
				return string(w.phase)
			}
			return fmt.Sprintf("held by %s under token %d", w.holder, w.token)
		},
	}
}
