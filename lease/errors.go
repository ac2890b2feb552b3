package lease

import (
	"errors"
	"fmt"
)

// Refusals. A [Result] carries one of these when its entry did not do what was
// asked; the state has then not changed, but for a register, which counts the
// writes that it refuses.
var (
	// ErrHeld: another grant of the lease is live.
	ErrHeld = errors.New("lease is held")
	// ErrCooling: the lock delay of the lease's last grant still runs.
	ErrCooling = errors.New("lease is cooling")
	// ErrNotHolder: the token is live, but it belongs to another holder.
	ErrNotHolder = errors.New("token belongs to another holder")
	// ErrLost: the token's grant is over, or there never was one.
	ErrLost = errors.New("lease is lost")
	// ErrRequestEnded: the grant that this request id once made is over.
	ErrRequestEnded = errors.New("request has ended")

	// ErrStaleToken: the register has seen a higher token.
	ErrStaleToken = errors.New("token is stale")
	// ErrNotLive: the token is not the live one of the lease that guards the write.
	ErrNotLive = errors.New("token is not live")

	// These refuse what a leader proposes by itself, when the state has overtaken
	// it, as ErrLost refuses an Expire. No client sees them.
	ErrRenewed    = errors.New("grant was renewed")
	ErrOldTerm    = errors.New("deadline was set in another term")
	ErrNotCooling = errors.New("lease is not cooling")
	ErrNotQueued  = errors.New("request is not queued")
)

// FieldError says that a field of a request is not acceptable, and what would be.
type FieldError struct {
	Field  string // the name of the field as clients write it
	Detail string // what is wrong, and the bounds
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Detail) }
