package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

// maxAnswer bounds an answer in bytes. A full page of leases with values of the
// largest size, every byte of them escaped, is below it.
const maxAnswer = 64 << 20

// request is one call in a form that can be sent any number of times.
type request struct {
	method string
	path   string // escaped, with its query
	body   []byte // nil for a read
	// requestID of an acquire, for the errors.
	requestID string
	// once: it must not be sent again after a try whose outcome is unknown.
	once bool
	// wait is how long the server may wait before it answers, until when is set by
	// the first try, and waiting gives the body for what is left of it. All are zero
	// for a request that is answered at once.
	wait    time.Duration
	until   time.Time
	waiting func(left time.Duration) []byte
	// leaderOnly: no other node answers this call, so who answers it leads.
	leaderOnly bool
}

// writes says whether the request may change something.
func (r request) writes() bool { return r.body != nil }

// left is how much of the wait is left.
func (r request) left() time.Duration {
	if r.waiting == nil {
		return 0
	}
	return max(time.Until(r.until), 0)
}

// verdict is what a try tells about the request.
type verdict int

const (
	answered verdict = iota // the cluster has said what came of it
	nothing                 // it had no effect
	unknown                 // it may or may not have had an effect
)

// try asks one server, and the leader that it names, if it names one. At most
// one redirect is followed: a second one means that leadership is moving, and
// that is better waited out than chased.
func (api *API) try(caller context.Context, server string, r request) outcome {
	ctx, cancel := context.WithTimeout(caller, api.tryTimeout+r.left())
	defer cancel()

	a, v, err := api.exchange(ctx, server, server+r.path, r)
	if err == nil && a.status == http.StatusTemporaryRedirect {
		leader, target, ok := a.redirect(server + r.path)
		if !ok {
			return outcome{nil, answered, unexpected(server, a.status, "it names no server to ask instead")}
		}
		api.servers.named(leader)
		server = leader
		a, v, err = api.exchange(ctx, server, target, r)
	}
	if err == nil {
		v, err = a.judge(server, r)
	}
	switch {
	case errors.Is(caller.Err(), context.Canceled): // which tells nothing about the server
	case v != answered:
		api.servers.failed(server)
	case r.leaderOnly:
		api.servers.leads(server)
	}
	return outcome{a.body, v, err}
}

// answer is an HTTP response that has been read to its end.
type answer struct {
	status   int
	location string
	body     []byte
}

// exchange sends the request to a URL and reads the answer. Without an answer,
// the verdict says whether the request can have had an effect.
func (api *API) exchange(ctx context.Context, server, target string, r request) (answer, verdict, *Error) {
	if r.waiting != nil {
		r.body = r.waiting(r.left())
		var stop func()
		ctx, stop = api.whileAlive(ctx, server)
		defer stop()
	}
	var conn connecting
	ctx = httptrace.WithClientTrace(ctx, conn.trace())
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, nothing, unreachable(server, err)
	}
	if r.writes() {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := api.http.Do(req)
	if errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	if err != nil {
		if !r.writes() || conn.failed(err, api.reports) {
			return answer{}, nothing, unreachable(server, err)
		}
		return answer{}, unknown, unsure(server, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		// The server has acted, but what it said is lost.
		if !r.writes() {
			return answer{}, nothing, unreachable(server, err)
		}
		return answer{}, unknown, unsure(server, err)
	}
	return answer{resp.StatusCode, resp.Header.Get("Location"), body}, answered, nil
}

// connecting watches whether a request got a connection at all. Until then
// nothing has been sent.
type connecting struct{ got atomic.Bool }

func (c *connecting) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { c.got.Store(true) }}
}

// failed says whether err came before there was a connection. In doubt, which
// is with a transport that does not report its steps, it says no.
func (c *connecting) failed(err error, reports bool) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	return reports && !c.got.Load()
}

// redirect gives the base URL of the server that a redirect points at, and the
// whole URL.
func (a answer) redirect(from string) (server, target string, ok bool) {
	base, err := url.Parse(from)
	if err != nil {
		return "", "", false
	}
	to, err := base.Parse(a.location)
	if err != nil || a.location == "" || to.Host == "" {
		return "", "", false
	}
	return to.Scheme + "://" + to.Host, to.String(), true
}

// judge reads an answer.
func (a answer) judge(server string, r request) (verdict, *Error) {
	if a.status >= 200 && a.status <= 299 {
		return answered, nil
	}
	e := &Error{Server: server}
	known := json.Unmarshal(a.body, &e.Problem) == nil && e.Code != ""
	if !known {
		e = unexpected(server, a.status, excerpt(a.body))
	}
	e.Status = a.status
	switch {
	case a.status == http.StatusServiceUnavailable, a.status == http.StatusTemporaryRedirect:
		return nothing, e
	case known && e.Code == codeUnknown && r.writes():
		return unknown, e
	case !known && (a.status == http.StatusBadGateway || a.status == http.StatusGatewayTimeout):
		// Something on the way to the server lost the request or its answer.
		cause := errors.New(e.Detail)
		if r.writes() {
			return unknown, unsure(server, cause)
		}
		return nothing, unreachable(server, cause)
	}
	return answered, e
}

// excerpt gives the start of a body that is not what it should be.
func excerpt(body []byte) string {
	const most = 200
	if len(body) > most {
		body = append(body[:most:most], "…"...)
	}
	return string(bytes.ToValidUTF8(bytes.TrimSpace(body), []byte("?")))
}
