package work

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"leasehold/httpapi/wire"
	"leasehold/torture/history"
)

// redirected is the outcome of an exchange that only said where to go. It is not
// recorded: the one that follows is.
const redirected history.Outcome = "redirected"

// conclude adds what came of the i-th operation of the exchange.
func (x *exchange) conclude(op *history.Operation, i int, err error) {
	if strings.Contains(x.query, "via=") {
		op.Redirects = 1
	}
	if err != nil {
		op.Outcome = history.Unknown
		return
	}
	op.Answer.Node = x.header.Get("X-Leasehold-Node")
	op.Answer.Term = number(x.header.Get("X-Leasehold-Term"))
	op.Answer.Index = number(x.header.Get("X-Leasehold-Index"))
	if x.status != http.StatusOK {
		x.refused(op)
		return
	}
	op.Outcome = history.OK
	if err := x.answered(op, i); err != nil {
		op.Outcome, op.Code = history.Unknown, "unreadable"
	}
}

func number(header string) uint64 {
	n, _ := strconv.ParseUint(header, 10, 64) // 0 if there is none
	return n
}

// answered takes over what a 200 says.
func (x *exchange) answered(op *history.Operation, i int) error {
	a := &op.Answer
	switch op.Kind {
	case history.Acquire, history.Renew:
		var g wire.Grant
		if err := json.Unmarshal(x.told, &g); err != nil {
			return err
		}
		a.Term, a.Index, a.Token, a.Holder, a.Replayed = g.Term, g.Index, g.Token, g.Holder, g.Replayed
		a.TTL, a.RemainingMillis, a.Value = millis(g.TTLMillis), &g.RemainingMillis, &g.Value
		if op.Kind == history.Acquire && op.RequestID == "" {
			op.RequestID = g.RequestID
		}
	case history.RenewMany:
		var many wire.RenewMany
		if err := json.Unmarshal(x.told, &many); err != nil {
			return err
		}
		a.Term, a.Index = many.Term, many.Index
		part := many.Results[i]
		if !part.Renewed {
			op.Outcome, op.Code, a.How, a.EndedIndex = history.Refused, part.Code, part.How, part.Index
			break
		}
		a.Token, a.Holder, a.TTL, a.RemainingMillis = part.Token, op.Holder, millis(part.TTLMillis), &part.RemainingMillis
	case history.Release:
		var r wire.Release
		if err := json.Unmarshal(x.told, &r); err != nil {
			return err
		}
		a.Token, a.Already, a.EndedIndex = r.Token, r.Already, r.Index
	case history.Revoke:
		var r wire.Revoke
		if err := json.Unmarshal(x.told, &r); err != nil {
			return err
		}
		a.Token, a.Already, a.EndedIndex = r.Token, r.Already, r.Index
	case history.Get, history.StaleGet:
		var l wire.Lease
		if err := json.Unmarshal(x.told, &l); err != nil {
			return err
		}
		a.State, a.Holder, a.Token, a.TTL, a.RemainingMillis, a.Value = l.State, l.Holder, l.Token, millis(l.TTLMillis), l.RemainingMillis, &l.Value
		if l.Index != 0 {
			a.Index = l.Index
		}
		if l.StaleRead != nil {
			a.Stale, a.Index = l.Stale, l.AppliedIndex
		}
	case history.Write:
		var w wire.Write
		if err := json.Unmarshal(x.told, &w); err != nil {
			return err
		}
		a.Term, a.Index, a.Token, a.HighestToken = w.Term, w.Index, w.Token, w.HighestToken
	case history.ReadValue:
		var r wire.Register
		if err := json.Unmarshal(x.told, &r); err != nil {
			return err
		}
		a.Value, a.HighestToken = &r.Value, r.HighestToken
	}
	return nil
}

// refused takes over what a problem says.
func (x *exchange) refused(op *history.Operation) {
	var p wire.Problem
	_ = json.Unmarshal(x.told, &p) // else it stays without a code
	op.Code = p.Code
	if op.Kind == history.Acquire && op.RequestID == "" {
		op.RequestID = p.RequestID
	}
	a := &op.Answer
	a.RetryAfterMillis, a.How, a.EndedIndex, a.HighestToken = p.RetryAfterMillis, p.How, p.Index, p.HighestToken
	if p.Lease != nil {
		a.State, a.Holder, a.Token, a.RemainingMillis = p.Lease.State, p.Lease.Holder, p.Lease.Token, p.Lease.RemainingMillis
	}
	switch x.status {
	case http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed:
		op.Outcome = history.Refused
	case http.StatusTemporaryRedirect:
		op.Outcome = redirected
		if op.Redirects++; op.Redirects > 1 { // one too many
			op.Outcome = history.Nothing
		}
		if op.Wait > 0 { // leadership may have moved while it was in the queue
			op.Outcome = history.Unknown
		}
	case http.StatusServiceUnavailable:
		op.Outcome = history.Nothing
		if op.Wait > 0 && p.RequestID != "" { // it may have a place in the queue
			op.Outcome = history.Unknown
		}
	case http.StatusInternalServerError, http.StatusGatewayTimeout:
		op.Outcome = history.Unknown
	default:
		op.Outcome = history.Nothing
	}
}
