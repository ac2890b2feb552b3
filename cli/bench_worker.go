package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"leasehold/httpapi/wire"
)

// worker is one client of a bench, with a lease of its own. One goroutine runs
// it; others read only its done and failed.
type worker struct {
	run          *benchRun
	name, holder string

	conn     *benchConn // nil: to be made
	address  string     // that conn goes to
	token    uint64     // of the grant it holds, 0 if none
	renewal  []byte     // the body of a renewal of that grant
	acquires int        // numbers the request ids
	// unsure: an acquire may have been granted unseen. The next one reclaims.
	unsure bool

	done, failed atomic.Uint64 // operations and failed tries so far, for the progress line

	completed  uint64 // operations that ended in the time measured
	unfinished uint64
	latencies  latencies         // of the operations that began in it
	errors     map[string]uint64 // failed tries in it
}

// loop does operations until time is up. It returns an error if going on makes
// no sense.
func (w *worker) loop(ctx context.Context) error {
	defer w.leave()
	for {
		start := time.Now()
		if !start.Before(w.run.end) || ctx.Err() != nil {
			return ctxErr(ctx)
		}
		ok, err := w.operation(ctx)
		if err != nil {
			return err
		}
		end := time.Now()
		counts := !start.Before(w.run.begin)
		if !ok {
			if counts {
				w.unfinished++
			}
			continue
		}
		w.done.Add(1)
		if counts {
			// Also when it ended after the time measured: to leave out the slow
			// operations at the end would flatter the figures.
			w.latencies.add(end.Sub(start))
		}
		if !end.Before(w.run.begin) && end.Before(w.run.end) {
			w.completed++
		}
	}
}

// operation does one operation, trying until it succeeds. It gives false when
// time is up before that.
func (w *worker) operation(ctx context.Context) (bool, error) {
	for {
		err := w.try(ctx)
		if err == nil {
			return true, nil
		}
		if err := w.recover(ctx, err); err != nil {
			return false, err
		}
		if !time.Now().Before(w.run.end) || ctx.Err() != nil {
			return false, nil
		}
	}
}

func (w *worker) try(ctx context.Context) error {
	if w.run.flags.work == workRenew {
		if w.token == 0 { // lost to a failure
			if err := w.acquire(ctx); err != nil {
				return err
			}
		}
		return w.post(ctx, "/v1/renew", w.renewal, nil)
	}
	if err := w.acquire(ctx); err != nil {
		return err
	}
	return w.release(ctx)
}

func (w *worker) acquire(ctx context.Context) error {
	w.acquires++
	body, err := json.Marshal(wire.AcquireRequest{
		Name: w.name, Holder: w.holder, TTLMillis: int64(w.run.flags.ttl),
		RequestID: fmt.Sprintf("%s-%d", w.holder, w.acquires), Reclaim: w.unsure,
	})
	if err != nil {
		return err
	}
	w.unsure = true
	var grant struct {
		Token uint64 `json:"token"`
	}
	if err := w.post(ctx, "/v1/acquire", body, &grant); err != nil {
		return err
	}
	w.token, w.unsure = grant.Token, false
	w.renewal, err = json.Marshal(wire.RenewRequest{Name: w.name, Holder: w.holder, Token: w.token})
	return err
}

func (w *worker) release(ctx context.Context) error {
	body, err := json.Marshal(wire.ReleaseRequest{Name: w.name, Holder: w.holder, Token: w.token})
	if err != nil {
		return err
	}
	if err := w.post(ctx, "/v1/release", body, nil); err != nil {
		return err
	}
	w.token = 0
	return nil
}

// tryError is a try that failed.
type tryError struct {
	code   string // of the problem, or "connection", "timeout"
	status int    // 0 without an answer
	cause  error
}

func (e *tryError) Error() string { return fmt.Sprintf("%s: %v", e.code, e.cause) }

// post makes one call and decodes its answer, if into is not nil.
func (w *worker) post(ctx context.Context, path string, body []byte, into any) error {
	if w.conn == nil {
		w.address = w.run.target()
		conn, err := dialBench(ctx, w.address)
		if err != nil {
			return &tryError{code: "connection", cause: err}
		}
		w.conn = conn
	}
	status, answer, err := w.conn.post(path, body)
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return &tryError{code: "timeout", cause: err}
	case err != nil:
		return &tryError{code: "connection", cause: err}
	case status != http.StatusOK:
		return refusal(status, answer)
	case into == nil:
		return nil
	}
	return json.Unmarshal(answer, into)
}

func refusal(status int, answer []byte) error {
	var problem wire.Problem
	if json.Unmarshal(answer, &problem) != nil || problem.Code == "" {
		problem.Code, problem.Detail = fmt.Sprintf("status_%d", status), http.StatusText(status)
	}
	return &tryError{code: problem.Code, status: status, cause: errors.New(problem.Detail)}
}

// recover prepares the next try after a failed one. It returns an error if
// there should be none.
func (w *worker) recover(ctx context.Context, err error) error {
	var failed *tryError
	if !errors.As(err, &failed) {
		return err
	}
	w.count(failed.code)
	switch failed.status {
	case http.StatusConflict, http.StatusGone:
		// The grant ended meanwhile, or an acquire was granted unseen.
		w.token, w.unsure = 0, true
		return nil
	case 0, http.StatusTemporaryRedirect, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		w.hangUp()
		w.unsure = true
		if err := w.run.moved(ctx, w.address); err != nil && ctx.Err() == nil && time.Now().Before(w.run.end) {
			return err
		}
		return nil
	}
	return err // a bad request stays bad
}

func (w *worker) count(code string) {
	w.failed.Add(1)
	if now := time.Now(); !now.Before(w.run.begin) && now.Before(w.run.end) {
		w.errors[code]++
	}
}

func (w *worker) hangUp() {
	if w.conn != nil {
		w.conn.close()
		w.conn = nil
	}
}

// leave gives back what the worker holds, if that is easily done; otherwise the
// TTL does it.
func (w *worker) leave() {
	if w.conn != nil && w.token != 0 {
		_ = w.release(context.Background())
	}
	w.hangUp()
}
