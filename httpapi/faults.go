package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"leasehold/cluster"
	"leasehold/faults"
	"leasehold/faults/lab"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// The calls of this file are about the faults of the node that is asked, whoever
// leads. A node that is no lab refuses them.

const faultsPath = "/v1/faults"

func (s *Server) inLab() error {
	if s.lab == nil {
		return fmt.Errorf("%w: node %s was not started with --lab, so nothing can be made to go wrong in it", errForbidden, s.node[0])
	}
	return nil
}

func (s *Server) faults(*call) (answer, error) {
	if err := s.inLab(); err != nil {
		return answer{}, err
	}
	return answer{body: s.faultsOf(s.lab.List())}, nil
}

func (s *Server) beginFault(c *call) (answer, error) {
	if err := s.inLab(); err != nil {
		return answer{}, err
	}
	f, err := decodeFault(c.body)
	if err != nil {
		return answer{}, err
	}
	a, err := s.lab.Prepare(f)
	if err != nil {
		return answer{}, faultError(err)
	}
	if f.Touches(faults.Clients, faults.Out) {
		// This answer is to get away first.
		return answer{body: faultOf(a), answered: func(bool) { s.lab.Start(a) }}, nil
	}
	s.lab.Start(a)
	return answer{body: faultOf(a)}, nil
}

func (s *Server) healFault(c *call) (answer, error) {
	if err := s.inLab(); err != nil {
		return answer{}, err
	}
	if err := c.noBody(); err != nil {
		return answer{}, err
	}
	id := c.r.PathValue("id")
	if id == "" || len(id) > maxFaultID {
		return answer{}, &lease.FieldError{Field: "id", Detail: fmt.Sprintf("must be 1 to %d bytes; GET %s lists those that there are", maxFaultID, faultsPath)}
	}
	a := s.lab.Heal(id)
	if a == nil {
		return answer{}, fmt.Errorf("%w: no fault %s is on in node %s; it may have healed itself", errNotFound, clip(id), s.node[0])
	}
	return answer{body: s.faultsOf([]*lab.Active{a})}, nil
}

func (s *Server) healFaults(c *call) (answer, error) {
	if err := s.inLab(); err != nil {
		return answer{}, err
	}
	if err := c.noBody(); err != nil {
		return answer{}, err
	}
	return answer{body: s.faultsOf(s.lab.HealAll())}, nil
}

// maxFaultID bounds the ids that are looked for, in bytes.
const maxFaultID = 64

// decodeFault reads the body of a fault.
func decodeFault(body []byte) (faults.Fault, error) {
	f, err := faults.Parse(body)
	return f, faultError(err)
}

// faultError turns what package faults refuses into what this one answers.
func faultError(err error) error {
	if bad, ok := errors.AsType[*faults.FieldError](err); ok {
		return &lease.FieldError{Field: bad.Field, Detail: bad.Detail}
	}
	return err
}

func (s *Server) faultsOf(list []*lab.Active) wire.Faults {
	body := wire.Faults{Node: s.node[0], Faults: make([]wire.Fault, 0, len(list))}
	for _, a := range list {
		body.Faults = append(body.Faults, faultOf(a))
	}
	return body
}

func faultOf(a *lab.Active) wire.Fault {
	return wire.Fault{ID: a.ID, RemainingMillis: ceilMillis(a.Remaining()), Fault: a.Fault}
}

// dropReply closes the connection instead of answering, if a fault says so and the
// request has been carried out by this node. To the rest of the node the answer has
// left: that one was lost on its way nobody can know here.
func (s *Server) dropReply(c *call, a answer, err error) {
	path, writes := c.r.URL.Path, c.r.Method != http.MethodGet && c.r.Method != http.MethodHead
	if s.lab.Quiet() || !carriedOut(err) || strings.HasPrefix(path, faultsPath) || !s.lab.DropsReply(path, writes) {
		return
	}
	if a.answered != nil {
		a.answered(true)
	}
	panic(http.ErrAbortHandler)
}

// carriedOut says whether a request got as far as the log, if it is one that has to.
func carriedOut(err error) bool {
	return err == nil || as[*cluster.Refusal](err) || as[*cluster.Unknown](err)
}
