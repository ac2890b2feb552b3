package sim

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// quiet is a testing.TB for the cluster of one simulation. What would fail a test is
// kept: a simulation that fails is looked at, made smaller and tried again before it
// fails a test, if it does.
type quiet struct {
	testing.TB

	mu       sync.Mutex // guards what follows
	failures []string
	cleanups []func()
}

func (q *quiet) Helper()                   {}
func (q *quiet) Log(...any)                {}
func (q *quiet) Logf(string, ...any)       {}
func (q *quiet) Error(args ...any)         { q.fail(fmt.Sprint(args...)) }
func (q *quiet) Errorf(f string, a ...any) { q.fail(fmt.Sprintf(f, a...)) }
func (q *quiet) Fail()                     { q.fail("failed") }
func (q *quiet) Fatal(args ...any)         { q.fail(fmt.Sprint(args...)); runtime.Goexit() }
func (q *quiet) Fatalf(f string, a ...any) { q.fail(fmt.Sprintf(f, a...)); runtime.Goexit() }
func (q *quiet) FailNow()                  { q.Fail(); runtime.Goexit() }

func (q *quiet) fail(why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failures = append(q.failures, why)
}

func (q *quiet) Failed() bool { return len(q.failed()) > 0 }

func (q *quiet) failed() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failures
}

func (q *quiet) Cleanup(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cleanups = append(q.cleanups, f)
}

// finish runs what was to be done at the end, the latest first.
func (q *quiet) finish() {
	q.mu.Lock()
	all := q.cleanups
	q.cleanups = nil
	q.mu.Unlock()
	for i := len(all) - 1; i >= 0; i-- {
		q.guard(all[i])
	}
}

// guard runs f to its end, or to a Fatal.
func (q *quiet) guard(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}
