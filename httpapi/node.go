package httpapi

import (
	"fmt"
	"math"
	"runtime"

	"leasehold/httpapi/wire"
)

// The calls of this file are answered by the node that was asked, whoever leads.

func (s *Server) status(*call) (answer, error) {
	st := s.backend.Status()
	body := statusOf(st)
	if s.lab != nil {
		body.Lab, body.Faults = true, s.faultsOf(s.lab.List()).Faults
	}
	return answer{body: body, at: position{st.Term, st.AppliedIndex}}, nil
}

func (s *Server) cluster(*call) (answer, error) {
	m := s.backend.Members()
	return answer{body: wire.Cluster{
		ClusterID: m.ClusterID, Leader: nodeOf(m.Leader), Members: membersOf(m.Members),
	}}, nil
}

func (s *Server) raftLog(c *call) (answer, error) {
	from, err := c.integer("from", bounds{"a whole number", 0, math.MaxUint64}, 0)
	if err != nil {
		return answer{}, err
	}
	limit, err := c.pageSize()
	if err != nil {
		return answer{}, err
	}
	page, err := s.backend.Log(from, limit)
	if err != nil {
		return answer{}, err
	}
	return answer{body: LogOf(page)}, nil
}

func (s *Server) livez(*call) (answer, error) {
	return answer{body: wire.Live{Live: true}}, nil
}

func (s *Server) readyz(*call) (answer, error) {
	if err := s.backend.Ready(); err != nil {
		return answer{}, fmt.Errorf("%w: %w", errNotReady, err)
	}
	return answer{body: wire.Ready{Ready: true}}, nil
}

func (s *Server) version(*call) (answer, error) {
	return answer{body: wire.Version{Version: s.backend.Status().Version, Go: runtime.Version()}}, nil
}
