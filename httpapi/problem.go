package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"leasehold/cluster"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// Errors that arise in this package. All are wrapped in a sentence that begins
// with their text.
var (
	errNotFound     = errors.New("not found")
	errForbidden    = errors.New("forbidden")
	errBodyTooLarge = errors.New("the body is too large")
	errBodyTimeout  = errors.New("the body is too slow")
	errNotReady     = errors.New("not ready")
	errPanic        = errors.New("a bug stopped this request; the log of the node has more")
	errNoHop        = errors.New("the leader cannot be reached from here")
)

// methodError: the path exists, the method does not.
type methodError struct{ method, allow string }

func (e *methodError) Error() string {
	return fmt.Sprintf("%s is not a method of this path; use %s", clip(e.method), e.allow)
}

// acquireError adds to an error the request id of the acquire that it ended.
type acquireError struct {
	requestID string
	err       error
}

func (e *acquireError) Error() string { return e.err.Error() }
func (e *acquireError) Unwrap() error { return e.err }

// table is where errors get their status and code, and the client is told what
// to do next. The first row that matches counts; the last one matches all.
var table = []row{
	// First, since its cause may be any of the others.
	{both(as[*writeError], as[*cluster.Unknown]), 504, "outcome_unknown", "read the register to learn it: it lists its latest writes; to repeat the request is to write again"},
	{as[*cluster.Unknown], 504, "outcome_unknown", "repeat the request to learn it, an acquire with the same request_id"},

	{as[*lease.FieldError], 400, "invalid_argument", ""},
	{is(errForbidden), 403, "forbidden", ""},
	{is(errNotFound), 404, "not_found", ""},
	{as[*methodError], 405, "method_not_allowed", ""},
	{is(errBodyTimeout), 408, "request_timeout", ""},
	{is(errBodyTooLarge), 413, "body_too_large", ""},

	{is(lease.ErrHeld), 409, "held", "ask again when it may be free"},
	{is(lease.ErrCooling), 409, "cooling", "ask again when the lock delay is over"},
	{is(cluster.ErrWaitTimeout), 409, "wait_timeout", "ask again, from the end of the queue"},
	{is(lease.ErrNotHolder), 409, "not_holder", "give the holder that acquired it"},
	{both(as[*revokeError], is(lease.ErrLost)), 410, "lease_lost", "nothing was revoked, look who holds the lease now"},
	{is(lease.ErrLost), 410, "lease_lost", "stop what it protected, and acquire again for a newer token"},
	{is(lease.ErrRequestEnded), 410, "request_ended", "acquire with a new request_id for a newer token"},
	{as[*compactedError], 410, "compacted", "list the leases (GET /v1/leases), then resume with the index of the list as since"},
	{is(lease.ErrStaleToken), 412, "stale_token", "nothing was written, and nothing with this token ever will be: a write with a higher one was accepted"},
	{is(lease.ErrNotLive), 412, "stale_token", "nothing was written: whoever sent this no longer holds the lease, or never did"},

	{as[*cluster.NotLeader], 307, "not_leader", "send this request there, as curl does with -L"},
	{hasNoRoom, 429, cluster.TooManyRegisters, "nothing happened, write to one that exists"},
	{as[*cluster.LimitError], 429, "", "nothing happened, ask again later"},
	{both(as[*cluster.Queued], as[*cluster.Unavailable]), 503, "", ""},
	{is(errNotReady), 503, "not_ready", ""}, // whatever the cause
	{is(errNoHop), 503, string(cluster.NoLeader), "nothing happened, ask again"},
	{as[*cluster.Unavailable], 503, "", "nothing happened, ask again"},

	{func(error) bool { return true }, 500, "internal", ""},
}

type row struct {
	matches func(error) bool
	status  int
	code    string // empty: the error brings its own
	next    string
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func as[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

func both(a, b func(error) bool) func(error) bool {
	return func(err error) bool { return a(err) && b(err) }
}

// hasNoRoom is for the one limit that no waiting gets below.
func hasNoRoom(err error) bool {
	e, ok := errors.AsType[*cluster.LimitError](err)
	return ok && e.Code == cluster.TooManyRegisters
}

// retryTransient is when to ask again after what passes by itself: about as
// long as an election takes.
const retryTransient = time.Second

// problem puts an error into words, and says which place in the log they come
// from.
func problem(err error) (wire.Problem, position) {
	i := slices.IndexFunc(table, func(r row) bool { return r.matches(err) })
	r := table[i]
	p := wire.Problem{
		Type: "about:blank", Title: http.StatusText(r.status), Status: r.status,
		Code: r.code, Detail: err.Error(),
	}
	var at position
	switch r.status {
	case http.StatusBadRequest:
		e, _ := errors.AsType[*lease.FieldError](err)
		p.Field, p.Detail = e.Field, e.Field+" "+e.Detail
	case http.StatusTemporaryRedirect:
		e, _ := errors.AsType[*cluster.NotLeader](err)
		p.Leader = nodeOf(e.Leader)
	case http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed:
		if e, ok := errors.AsType[*cluster.Refusal](err); ok {
			at = positionOf(e.Result.Entry)
			explain(&p, e)
		}
		if e, ok := errors.AsType[*compactedError](err); ok {
			p.Index = e.floor
		}
	case http.StatusTooManyRequests:
		e, _ := errors.AsType[*cluster.LimitError](err)
		if p.Code == "" {
			p.Code, p.RetryAfterMillis = e.Code, new(ceilMillis(retryTransient))
		}
	case http.StatusServiceUnavailable:
		if e, ok := errors.AsType[*cluster.Unavailable](err); ok && p.Code == "" {
			p.Code = string(e.Reason)
		}
		p.RetryAfterMillis = new(ceilMillis(retryTransient))
	case http.StatusGatewayTimeout:
		e, _ := errors.AsType[*cluster.Unknown](err)
		p.Detail = fmt.Sprintf("the outcome is unknown, it may happen or not: %v", e.Cause)
	}
	if r.next != "" {
		p.Detail += "; " + r.next
	}
	return p, at
}

// explain adds to a problem what the log knows of a refusal.
func explain(p *wire.Problem, e *cluster.Refusal) {
	if reg := e.Result.Register; reg != nil {
		p.HighestToken = reg.HighestToken
	} else {
		l := LeaseOf(cluster.LeaseView{
			Name: e.Result.Name, Lease: e.Result.Lease, Last: e.Last, Remaining: e.Remaining,
		})
		l.ClusterID, l.Term, l.Index = e.ClusterID, e.Result.Entry.Term, e.Result.Entry.Index
		p.Lease = &l
	}
	if e.RetryAfter > 0 {
		p.RetryAfterMillis = new(ceilMillis(e.RetryAfter))
	}
	switch ended := e.Result.Ended; {
	case ended != nil:
		p.How, p.Index, p.Token = string(ended.How), ended.Index, ended.Token
		p.Detail += " (" + whyEnded(ended) + ")"
	case errors.Is(e, lease.ErrLost), errors.Is(e, lease.ErrNotLive):
		p.Detail += " (no such grant)"
	}
}

// writeProblem answers with an error.
func (s *Server) writeProblem(w http.ResponseWriter, c *call, err error) {
	gone := c.r.Context().Err() != nil || as[*acquireError](err) // the latter: see whileHere
	if errors.Is(err, context.Canceled) && gone && !as[*cluster.Unknown](err) {
		// The client is gone. To just return would send an empty 200, which one
		// that closed only its own direction would take for a success.
		panic(http.ErrAbortHandler)
	}
	p, at := problem(s.limitHops(c, err))
	if e, ok := errors.AsType[*acquireError](err); ok {
		p.RequestID = e.requestID
	}
	h := w.Header()
	if p.RetryAfterMillis != nil {
		h.Set("Retry-After", strconv.FormatInt((*p.RetryAfterMillis+999)/1000, 10))
	}
	switch p.Status {
	case http.StatusTemporaryRedirect:
		h.Set("Location", s.location(c, p, as[*cluster.Queued](err)))
	case http.StatusMethodNotAllowed:
		e, _ := errors.AsType[*methodError](err)
		h.Set("Allow", e.allow)
	case http.StatusInternalServerError:
		s.log.Error("request failed", "method", c.r.Method, "path", c.r.URL.Path, "error", err)
	}
	s.writeJSON(w, p.Status, "application/problem+json", p, at)
}

// limitHops turns a redirect into a plain refusal if the request was redirected
// before, or there is no address to send it to. While leadership moves, two
// nodes may each take the other for the leader, and the client would run to and
// fro between them.
func (s *Server) limitHops(c *call, err error) error {
	e, ok := errors.AsType[*cluster.NotLeader](err)
	if !ok || as[*cluster.Queued](err) { // one that waited here was in the right place
		return err
	}
	if from, hopped := c.query[via]; hopped {
		return fmt.Errorf("%w: node %s sent this request here, but %s does not lead either", errNoHop, clip(from), s.node[0])
	}
	if e.Leader.Address == "" {
		return fmt.Errorf("%w: its address is not known", errNoHop)
	}
	return err
}

// location is the same request at another node, marked with the name of this one.
// A queued request takes its request id along: a client that gave it none keeps
// its place by it.
func (s *Server) location(c *call, p wire.Problem, queued bool) string {
	query := withoutVia(c.r.URL.RawQuery)
	if _, has := c.query["request_id"]; queued && !has {
		query = append(query, "request_id="+escape(p.RequestID))
	}
	query = append(query, via+"="+escape(s.node[0]))
	return "http://" + p.Leader.Address + c.r.URL.EscapedPath() + "?" + strings.Join(query, "&")
}

// escape is for a value in a query. A space is %20, for our own parser refuses a
// plus.
func escape(value string) string { return strings.ReplaceAll(url.QueryEscape(value), "+", "%20") }

// withoutVia returns the parameters of a query as they came, but for the mark of
// an earlier redirect.
func withoutVia(query string) []string {
	if query == "" {
		return nil
	}
	return slices.DeleteFunc(strings.Split(query, "&"), func(param string) bool {
		return strings.HasPrefix(param, via+"=")
	})
}
