package lease

import (
	"errors"
	"fmt"
)

// Refusals. A [Result] carries one of these when its entry did not do what was
// asked; the state has then not changed.
var (
	// ErrHeld: another grant of the lease is live.
	ErrHeld = errors.New("lease is held")
	// ErrNotHolder: the token is live, but it belongs to another holder.
	ErrNotHolder = errors.New("token belongs to another holder")
	// ErrLost: the token's grant is over, or there never was one.
	ErrLost = errors.New("lease is lost")
	// ErrRequestEnded: the grant that this request id once made is over.
	ErrRequestEnded = errors.New("request has ended")

	// ErrRenewed and ErrOldTerm refuse an Expire that the state has overtaken,
	// as ErrLost does. No client sees them.
	ErrRenewed = errors.New("grant was renewed")
	ErrOldTerm = errors.New("deadline was set in another term")
)

// FieldError says that a field of a request is not acceptable, and what would be.
type FieldError struct {
	Field  string // the name of the field as clients write it
	Detail string // what is wrong, and the bounds
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Detail) }
