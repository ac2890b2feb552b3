package httpapi

import (
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

func (s *Server) revoke(c *call) (answer, error) {
	cmd, err := decodeRevoke(c.body)
	if err != nil {
		return answer{}, err
	}
	out, err := s.backend.Revoke(c.r.Context(), cmd)
	if err != nil {
		return answer{}, &revokeError{err}
	}
	return answer{
		body: wire.Revoke{Name: cmd.Name, Token: cmd.Token, Index: endedAt(out.Result), Already: out.Result.Already},
		at:   positionOf(out.Result.Entry),
	}, nil
}

// revokeError marks an error of a revoke, whose sender holds nothing that it
// could lose.
type revokeError struct{ err error }

func (e *revokeError) Error() string { return e.err.Error() }
func (e *revokeError) Unwrap() error { return e.err }

var revokeFields = fields{[]string{"name", "token", "reason"}, 3}

// decodeRevoke reads the body of a revoke.
func decodeRevoke(body []byte) (lease.Revoke, error) {
	var r lease.Revoke
	err := readObject(body, revokeFields, func(o *object, name string) (err error) {
		switch name {
		case "name":
			r.Name, err = checked(o, lease.CheckName)
		case "token":
			r.Token, err = o.integer(anyToken)
		case "reason":
			r.Reason, err = checked(o, lease.CheckReason)
		}
		return err
	})
	return r, err
}
