package work

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"leasehold/httpapi/wire"
	"leasehold/torture/history"
)

// operations are what the request asks for: one, or one for each lease of a batch.
// There are none if it is not about a lease or a register.
func (x *exchange) operations() ([]history.Operation, error) {
	one := func(op history.Operation, err error) ([]history.Operation, error) {
		return []history.Operation{op}, err
	}
	switch {
	case x.path == "/v1/acquire":
		var a wire.AcquireRequest
		err := x.read(&a)
		op := history.Operation{
			Kind: history.Acquire, Name: a.Name, Holder: a.Holder, RequestID: a.RequestID, Reclaim: a.Reclaim,
			TTL: millis(a.TTLMillis), Wait: millis(a.WaitMillis), LockDelay: millis(a.LockDelayMillis),
		}
		if a.Value != "" {
			op.Value = &a.Value
		}
		return one(op, err)
	case x.path == "/v1/renew":
		var a wire.RenewRequest
		err := x.read(&a)
		return one(history.Operation{
			Kind: history.Renew, Name: a.Name, Holder: a.Holder, Token: a.Token, TTL: millis(a.TTLMillis), Value: a.Value,
		}, err)
	case x.path == "/v1/renew-many":
		var a wire.RenewManyRequest
		err := x.read(&a)
		batch := "b" + strconv.FormatUint(x.recorder.log.batches.Add(1), 10)
		var ops []history.Operation
		for _, part := range a.Renewals {
			ops = append(ops, history.Operation{Kind: history.RenewMany, Name: part.Name, Holder: a.Holder, Token: part.Token, Batch: batch})
		}
		return ops, err
	case x.path == "/v1/release":
		var a wire.ReleaseRequest
		err := x.read(&a)
		return one(history.Operation{Kind: history.Release, Name: a.Name, Holder: a.Holder, Token: a.Token}, err)
	case x.path == "/v1/revoke":
		var a wire.RevokeRequest
		err := x.read(&a)
		return one(history.Operation{Kind: history.Revoke, Name: a.Name, Token: a.Token, Reason: a.Reason}, err)
	case strings.HasPrefix(x.path, "/v1/leases/"):
		kind := history.Get
		if strings.Contains(x.query, "consistency=stale") {
			kind = history.StaleGet
		}
		return one(history.Operation{Kind: kind, Name: strings.TrimPrefix(x.path, "/v1/leases/")}, nil)
	case strings.HasPrefix(x.path, "/v1/registers/") && x.method == http.MethodPut:
		var a wire.WriteRequest
		err := x.read(&a)
		return one(history.Operation{
			Kind: history.Write, Register: strings.TrimPrefix(x.path, "/v1/registers/"), Value: &a.Value, Token: a.Token, Guard: a.Lease,
		}, err)
	case strings.HasPrefix(x.path, "/v1/registers/"):
		return one(history.Operation{Kind: history.ReadValue, Register: strings.TrimPrefix(x.path, "/v1/registers/")}, nil)
	}
	return nil, nil
}

// read decodes the body of the request.
func (x *exchange) read(into any) error { return json.Unmarshal(x.asked, into) }

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
