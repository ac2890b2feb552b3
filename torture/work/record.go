package work

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

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
	ops, err := x.operations()
	if err != nil {
		return nil, err
	}
	if len(ops) == 0 {
		return r.below.RoundTrip(again(req, req.Context(), x.asked))
	}
	if note, ok := req.Context().Value(noteKey{}).(func(*history.Operation)); ok {
		for i := range ops {
			note(&ops[i])
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
