package work

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"leasehold/httpapi/wire"
	"leasehold/torture/history"
)

// recorder sends the requests of a player and records each exchange.
type recorder struct {
	client string
	below  http.RoundTripper
	log    *Log
}

// transport gives a transport that records. Package client trusts what an
// *http.Transport reports about its connections, so it gets one: whose requests,
// all with the scheme http, go to a protocol of ours.
func (r *recorder) transport() *http.Transport {
	t := new(http.Transport)
	t.RegisterProtocol("http", r)
	return t
}

// noteKey of a context: a func(*history.Operation) that adds to what is recorded.
type noteKey struct{}

// noting has note called with each operation that ctx leads to.
func noting(ctx context.Context, note func(*history.Operation)) context.Context {
	return context.WithValue(ctx, noteKey{}, note)
}

// unrecorded is a note that keeps the exchanges out of the history.
func unrecorded(op *history.Operation) { op.Kind = "" }

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &exchange{recorder: r, path: req.URL.EscapedPath(), query: req.URL.RawQuery, method: req.Method}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		x.asked = body
	}
	ops := x.operations()
	if len(ops) == 0 || ops[0].Kind == "" {
		return r.below.RoundTrip(again(req, req.Context(), x.asked))
	}
	if note, ok := req.Context().Value(noteKey{}).(func(*history.Operation)); ok {
		for i := range ops {
			note(&ops[i])
		}
		if ops[0].Kind == "" {
			return r.below.RoundTrip(again(req, req.Context(), x.asked))
		}
	}
	var sent atomic.Bool
	var session atomic.Value
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		sent.Store(true)
		if c, ok := info.Conn.(*gatedConn); ok {
			session.Store(c.name)
		}
	}})
	call := r.log.Now()
	resp, err := r.below.RoundTrip(again(req, ctx, x.asked))
	if err == nil {
		x.status, x.header = resp.StatusCode, resp.Header
		x.told, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(x.told))
	}
	if err != nil && !sent.Load() {
		return nil, err // there was no exchange
	}
	for i, op := range ops {
		op.Call, op.Return, op.Client = call, r.log.Now(), r.client
		op.Session, _ = session.Load().(string)
		x.conclude(&op, i, err)
		if op.Outcome != redirected {
			r.log.Add(op)
		}
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// again is the request with its body unread.
func again(req *http.Request, ctx context.Context, body []byte) *http.Request {
	req = req.Clone(ctx)
	if body != nil {
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	return req
}

// exchange is one request and its answer.
type exchange struct {
	recorder    *recorder
	method      string
	path, query string
	asked, told []byte // the bodies
	status      int
	header      http.Header
}

// operations are what the request asks for: one, or one for each lease of a batch.
// There are none if it is not about a lease or a register.
func (x *exchange) operations() []history.Operation {
	one := func(op history.Operation) []history.Operation { return []history.Operation{op} }
	switch {
	case x.path == "/v1/acquire":
		var a wire.AcquireRequest
		x.read(&a)
		op := history.Operation{
			Kind: history.Acquire, Name: a.Name, Holder: a.Holder, RequestID: a.RequestID, Reclaim: a.Reclaim,
			TTL: millis(a.TTLMillis), Wait: millis(a.WaitMillis), LockDelay: millis(a.LockDelayMillis),
		}
		if a.Value != "" {
			op.Value = &a.Value
		}
		return one(op)
	case x.path == "/v1/renew":
		var a wire.RenewRequest
		x.read(&a)
		return one(history.Operation{
			Kind: history.Renew, Name: a.Name, Holder: a.Holder, Token: a.Token, TTL: millis(a.TTLMillis), Value: a.Value,
		})
	case x.path == "/v1/renew-many":
		var a wire.RenewManyRequest
		x.read(&a)
		batch := "b" + strconv.FormatUint(x.recorder.log.batches.Add(1), 10)
		var ops []history.Operation
		for _, part := range a.Renewals {
			ops = append(ops, history.Operation{Kind: history.RenewMany, Name: part.Name, Holder: a.Holder, Token: part.Token, Batch: batch})
		}
		return ops
	case x.path == "/v1/release":
		var a wire.ReleaseRequest
		x.read(&a)
		return one(history.Operation{Kind: history.Release, Name: a.Name, Holder: a.Holder, Token: a.Token})
	case x.path == "/v1/revoke":
		var a wire.RevokeRequest
		x.read(&a)
		return one(history.Operation{Kind: history.Revoke, Name: a.Name, Token: a.Token, Reason: a.Reason})
	case strings.HasPrefix(x.path, "/v1/leases/"):
		kind := history.Get
		if strings.Contains(x.query, "consistency=stale") {
			kind = history.StaleGet
		}
		return one(history.Operation{Kind: kind, Name: strings.TrimPrefix(x.path, "/v1/leases/")})
	case strings.HasPrefix(x.path, "/v1/registers/") && x.method == http.MethodPut:
		var a wire.WriteRequest
		x.read(&a)
		return one(history.Operation{
			Kind: history.Write, Register: strings.TrimPrefix(x.path, "/v1/registers/"), Value: &a.Value, Token: a.Token, Guard: a.Lease,
		})
	case strings.HasPrefix(x.path, "/v1/registers/"):
		return one(history.Operation{Kind: history.ReadValue, Register: strings.TrimPrefix(x.path, "/v1/registers/")})
	}
	return nil
}

// read decodes what our own client has encoded.
func (x *exchange) read(into any) {
	if err := json.Unmarshal(x.asked, into); err != nil {
		panic("a request of package client cannot be read: " + err.Error())
	}
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
