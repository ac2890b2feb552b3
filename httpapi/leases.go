package httpapi

import (
	"crypto/rand"
	"fmt"

	"leasehold/cluster"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

func (s *Server) acquire(c *call) (answer, error) {
	cmd, err := decodeAcquire(c.body, s.ttl)
	if err != nil {
		return answer{}, err
	}
	if cmd.RequestID, err = requestID(c, cmd.RequestID); err != nil {
		return answer{}, err
	}
	ctx, stop := c.r.Context(), func() {}
	if cmd.Wait > 0 {
		ctx, stop = whileHere(c.r)
	}
	defer stop()
	out, err := s.backend.Acquire(ctx, cmd)
	if err != nil {
		return answer{}, &acquireError{cmd.RequestID, err}
	}
	return answer{body: grant(out), at: positionOf(out.Result.Entry), answered: out.Answered}, nil
}

// requestID settles the request id of an acquire. It may stand in the body, in
// the query, which is where a redirect can put it, or nowhere: then it is made
// here, before anything is proposed, so that even an answer that says "unknown"
// can name it.
func requestID(c *call, inBody string) (string, error) {
	inQuery, ok := c.query["request_id"]
	switch {
	case !ok && inBody == "":
		return "r-" + rand.Text(), nil
	case !ok:
		return inBody, nil
	}
	if err := lease.CheckRequestID(inQuery); err != nil {
		return "", err
	}
	if inBody != "" && inBody != inQuery {
		return "", &lease.FieldError{
			Field:  "request_id",
			Detail: fmt.Sprintf("is %q in the body and %q in the query; give it once", inBody, inQuery),
		}
	}
	return inQuery, nil
}

func (s *Server) renew(c *call) (answer, error) {
	cmd, err := decodeRenew(c.body, s.ttl)
	if err != nil {
		return answer{}, err
	}
	out, err := s.backend.Renew(c.r.Context(), cmd)
	if err != nil {
		return answer{}, err
	}
	return answer{body: grant(out), at: positionOf(out.Result.Entry)}, nil
}

func (s *Server) release(c *call) (answer, error) {
	cmd, err := decodeRelease(c.body)
	if err != nil {
		return answer{}, err
	}
	out, err := s.backend.Release(c.r.Context(), cmd)
	if err != nil {
		return answer{}, err
	}
	return answer{body: released(cmd, out), at: positionOf(out.Result.Entry)}, nil
}

func (s *Server) lease(c *call) (answer, error) {
	// ServeMux matched the path as it came and decoded the name afterwards, so
	// "a%2Fb" is "a/b" and "%2e%2e" gets here, to be refused.
	name := c.r.PathValue("name")
	if err := lease.CheckName(name); err != nil {
		return answer{}, err
	}
	consistency, err := c.consistency()
	if err != nil {
		return answer{}, err
	}
	view, read, err := s.backend.Lease(c.r.Context(), name, consistency)
	if err != nil {
		return answer{}, err
	}
	l := LeaseOf(view)
	l.ClusterID, l.Term, l.Index = read.ClusterID, read.Term, read.Index
	l.StaleRead = staleRead(read)
	return answer{body: l, at: position{read.Term, read.Index}}, nil
}

func (s *Server) leases(c *call) (answer, error) {
	var q cluster.LeaseQuery
	var err error
	if q.Prefix, err = c.partOfName("prefix"); err != nil {
		return answer{}, err
	}
	if q.After, err = c.partOfName("after"); err != nil {
		return answer{}, err
	}
	if q.Limit, err = c.pageSize(); err != nil {
		return answer{}, err
	}
	consistency, err := c.consistency()
	if err != nil {
		return answer{}, err
	}
	page, read, err := s.backend.Leases(c.r.Context(), q, consistency)
	if err != nil {
		return answer{}, err
	}
	body := wire.Leases{
		Leases: make([]wire.Lease, 0, len(page.Leases)), Next: page.Next,
		Index: read.Index, StaleRead: staleRead(read),
	}
	for _, view := range page.Leases {
		body.Leases = append(body.Leases, LeaseOf(view))
	}
	return answer{body: body, at: position{read.Term, read.Index}}, nil
}

func (s *Server) requests(c *call) (answer, error) {
	id := c.r.PathValue("request_id")
	if err := lease.CheckRequestID(id); err != nil {
		return answer{}, err
	}
	consistency, err := c.consistency()
	if err != nil {
		return answer{}, err
	}
	views, read, err := s.backend.Requests(c.r.Context(), id, consistency)
	if err != nil {
		return answer{}, err
	}
	body := make([]wire.Request, 0, len(views))
	for _, view := range views {
		body = append(body, requestOf(view))
	}
	return answer{body: body, at: position{read.Term, read.Index}}, nil
}
