package httpapi

import (
	"fmt"

	"leasehold/cluster"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

var (
	renewManyFields = fields{[]string{"holder", "renewals"}, 2}
	renewalFields   = fields{[]string{"name", "token"}, 2}
)

// renewMany renews many grants of one holder by one entry of the log. Each is
// answered for itself.
func (s *Server) renewMany(c *call) (answer, error) {
	cmd, err := decodeRenewMany(c.body)
	if err != nil {
		return answer{}, err
	}
	entry, each, err := s.backend.RenewMany(c.r.Context(), cmd)
	if err != nil {
		return answer{}, err
	}
	body := wire.RenewMany{Results: make([]wire.RenewResult, 0, len(each)), Term: entry.Term, Index: entry.Index}
	for i, one := range each {
		body.Results = append(body.Results, renewResult(cmd.Renewals[i], one))
	}
	return answer{body: body, at: positionOf(entry)}, nil
}

func renewResult(asked lease.Renewal, r cluster.Renewed) wire.RenewResult {
	w := wire.RenewResult{Name: asked.Name, Token: asked.Token, Renewed: r.Err == nil}
	if r.Err != nil {
		p, _ := problem(r.Err)
		w.Code, w.Detail, w.How, w.Index = p.Code, p.Detail, p.How, p.Index
		return w
	}
	ttl := r.Result.Lease.Grant.TTL
	w.TTLMillis, w.RemainingMillis = ttl.Milliseconds(), remaining(r.Remaining, ttl)
	return w
}

// decodeRenewMany reads the body of a renew-many.
func decodeRenewMany(body []byte) (lease.RenewMany, error) {
	var many lease.RenewMany
	names := make(map[string]bool)
	err := readObject(body, renewManyFields, func(o *object, field string) (err error) {
		if field == "holder" {
			many.Holder, err = checked(o, lease.CheckHolder)
			return err
		}
		return o.list(lease.MaxRenewals, renewalFields, func() func(string) error {
			many.Renewals = append(many.Renewals, lease.Renewal{})
			one := &many.Renewals[len(many.Renewals)-1]
			return func(field string) (err error) {
				if field == "token" {
					one.Token, err = o.integer(anyToken)
					return err
				}
				if one.Name, err = checked(o, lease.CheckName); err != nil {
					return err
				}
				if names[one.Name] {
					return &lease.FieldError{Field: "name", Detail: fmt.Sprintf("%s is given twice", one.Name)}
				}
				names[one.Name] = true
				return nil
			}
		})
	})
	return many, err
}
