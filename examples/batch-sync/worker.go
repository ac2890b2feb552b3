package main

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// worker is one pod. All workers are goroutines of one process here, so what stops a
// whole pod, such as a garbage collection or a node that is short of CPU, is acted:
// whatever the worker does goes through pauseAt or a stoppable transport, and stands
// still there.
type worker struct {
	id     int
	name   string
	pauses pauses
	steps  atomic.Int64 // batches begun
	log    func(format string, args ...any)

	process sync.RWMutex // locked for writing as long as the process stands still
}

func newWorker(id int, p pauses, log func(string, ...any)) *worker {
	return &worker{id: id, name: fmt.Sprintf("worker-%d", id), pauses: p, log: log}
}

// nextStep begins the next batch, and says what will hit the worker there.
func (w *worker) nextStep() pause {
	return w.pauses.of(w.id, int(w.steps.Add(1)-1))
}

// errCrashed: the process is gone. Nothing may be tidied up after it.
var errCrashed = errors.New("the worker has crashed")

// pauseAt stops the whole process if the pause is for this place, and otherwise
// waits until it is not stopped by something else that it does.
func (w *worker) pauseAt(here place, p pause, batch int64) error {
	switch {
	case p.place != here:
		w.waitWhileStopped()
		return nil
	case p.crash:
		w.log("%s crashes at batch %d, %v", w.name, batch, here)
		return errCrashed
	}
	w.log("%s stops for %v at batch %d, %v", w.name, p.length.Round(time.Millisecond), batch, here)
	w.process.Lock()
	defer w.process.Unlock()
	time.Sleep(p.length)
	return nil
}

func (w *worker) waitWhileStopped() {
	w.process.RLock()
	defer w.process.RUnlock()
}

// stopped says whether the process stands still. Its timer does not fire then.
func (w *worker) stopped() bool {
	if !w.process.TryRLock() {
		return true
	}
	w.process.RUnlock()
	return false
}

// stoppable is a transport of the worker's: a process that stands still sends no
// request, and above all does not renew a lease.
type stoppable struct {
	*worker
	next http.RoundTripper
}

func (s stoppable) RoundTrip(r *http.Request) (*http.Response, error) {
	s.waitWhileStopped()
	return s.next.RoundTrip(r)
}

func (p place) String() string {
	return [...]string{"nowhere", "before the push", "while the API answers", "between push and mark", "after the mark"}[p]
}
