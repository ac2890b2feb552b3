package client

import (
	"fmt"
	"time"
)

// LostError says why a lease is lost. It is [ErrLost] to [errors.Is].
type LostError struct {
	Name  string
	Token uint64
	// How the grant ended, at which Index of the log: "expired", "revoked",
	// "reclaimed", "released". Empty if the server has not said so: then no renewal
	// was confirmed in time, and the server may still count the lease as ours.
	How    string
	Index  uint64
	Detail string // for people
	Cause  error  // the *[Error] that told it, or the last failure of a renewal
}

func (e *LostError) Error() string {
	return fmt.Sprintf("lease %s is lost, token %d: %s", e.Name, e.Token, e.Detail)
}

// Unwrap gives [ErrLost] and the cause.
func (e *LostError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrLost}
	}
	return []error{ErrLost, e.Cause}
}

// told is the loss that a server has told of.
func told(name string, token uint64, cause *Error) *LostError {
	return &LostError{Name: name, Token: token, How: cause.How, Index: cause.Index, Detail: cause.Detail, Cause: cause}
}

// silence is the loss of a lease whose last confirmed request was sent that long
// ago.
func silence(name string, token uint64, ago time.Duration, cause error) *LostError {
	e := &LostError{Name: name, Token: token, Cause: cause}
	e.Detail = fmt.Sprintf("no renewal was confirmed for %v", ago.Round(time.Millisecond))
	if cause != nil {
		e.Detail += "; the last try: " + cause.Error()
	}
	return e
}
