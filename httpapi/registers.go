package httpapi

import (
	"leasehold/cluster"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

func (s *Server) putRegister(c *call) (answer, error) {
	name := c.r.PathValue("name")
	if err := lease.CheckName(name); err != nil {
		return answer{}, err
	}
	cmd, err := decodeWrite(name, c.body)
	if err != nil {
		return answer{}, err
	}
	out, err := s.backend.Write(c.r.Context(), cmd)
	if err != nil {
		return answer{}, &writeError{err}
	}
	return answer{body: written(cmd, out), at: positionOf(out.Result.Entry)}, nil
}

func (s *Server) getRegister(c *call) (answer, error) {
	name := c.r.PathValue("name")
	if err := lease.CheckName(name); err != nil {
		return answer{}, err
	}
	consistency, err := c.consistency()
	if err != nil {
		return answer{}, err
	}
	reg, read, err := s.backend.Register(c.r.Context(), name, consistency)
	if err != nil {
		return answer{}, err
	}
	body := RegisterOf(name, reg)
	body.ClusterID, body.Term, body.Index = read.ClusterID, read.Term, read.Index
	body.StaleRead = staleRead(read)
	return answer{body: body, at: position{read.Term, read.Index}}, nil
}

// writeError marks an error of a write to a register, which is another write when
// it is repeated.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

var writeFields = fields{[]string{"value", "token", "lease"}, 1}

// decodeWrite reads the body of a write to the register of that name.
func decodeWrite(register string, body []byte) (lease.Write, error) {
	w := lease.Write{Register: register}
	err := readObject(body, writeFields, func(o *object, name string) (err error) {
		switch name {
		case "value":
			w.Value, err = checked(o, lease.CheckValue)
		case "token":
			w.Token, err = o.integer(anyToken)
		case "lease":
			w.Lease, err = checked(o, lease.CheckName)
			err = inField("lease", err)
		}
		return err
	})
	if err != nil {
		return w, err
	}
	return w, w.Check() // a lease needs a token
}

func written(cmd lease.Write, out cluster.Outcome) wire.Write {
	r, reg := out.Result, out.Result.Register
	return wire.Write{
		Name: reg.Name, Value: reg.Value, Index: r.Entry.Index, Token: cmd.Token, Lease: cmd.Lease,
		Fenced: cmd.Token != 0, Verdict: string(lease.Accepted), HighestToken: reg.HighestToken,
		Accepted: reg.Accepted, Refused: reg.Refused, ClusterID: out.ClusterID, Term: r.Entry.Term,
	}
}

// RegisterOf is a register as a reader sees it, without the position of the
// read; nil is one that was never written to.
func RegisterOf(name string, reg *lease.Register) wire.Register {
	w := wire.Register{Name: name, Writes: []wire.RegisterWrite{}}
	if reg == nil {
		return w
	}
	w.Value, w.HighestToken, w.Accepted, w.Refused = reg.Value, reg.HighestToken, reg.Accepted, reg.Refused
	for _, write := range reg.Writes {
		w.Writes = append(w.Writes, wire.RegisterWrite{
			Index: write.Index, Token: write.Token, Lease: write.Lease, Verdict: string(write.Verdict), At: wallTime(write.At),
		})
	}
	return w
}
