package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// writeTimeout bounds a write. It does not end with the request that asked for it:
// a client that hangs up must not leave the total and the journal apart.
const writeTimeout = 5 * time.Second

// term is one period of being active. It keeps in memory what would be wrong with two
// leaders: each would go on counting from its own total.
type term struct {
	grant
	leader  string
	journal *journal

	mu    sync.Mutex // guards total, and is held while it is written
	total int64

	failing sync.Once
	failed  chan struct{} // closed when memory and journal may be apart

	entering sync.Mutex // guards closed
	closed   bool
	requests sync.WaitGroup
}

func newTerm(ctx context.Context, g grant, leader string, j *journal) (*term, error) {
	total, err := j.takeOver(ctx, g)
	return &term{grant: g, leader: leader, journal: j, total: total, failed: make(chan struct{})}, err
}

// add adds an amount to the total, once for each key.
func (t *term) add(ctx context.Context, key string, amount int64) (Entry, bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	e, repeated, err := t.journal.add(ctx, t.grant, Entry{Key: key, Amount: amount, Total: t.total + amount, Leader: t.leader})
	switch {
	case errors.Is(err, errKey):
	case err != nil: // also of a commit of which nobody knows the outcome
		t.fail()
	case !repeated:
		t.total = e.Total
	}
	return e, repeated, err
}

// read gives the total. What is in memory may be old, if somebody has taken over
// unnoticed; so a read asks the fence too.
func (t *term) read(ctx context.Context) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.journal.confirm(ctx, t.grant); err != nil {
		return 0, err
	}
	return t.total, nil
}

// fail ends the term. The next one, ours or another's, reads the journal again.
func (t *term) fail() { t.failing.Do(func() { close(t.failed) }) }

// enter says whether the term takes another request. If so, call leave at its end.
func (t *term) enter() bool {
	t.entering.Lock()
	defer t.entering.Unlock()
	if !t.closed {
		t.requests.Add(1)
	}
	return !t.closed
}

func (t *term) leave() { t.requests.Done() }

// close lets no request in any more, and waits for those that are under way.
func (t *term) close() {
	t.entering.Lock()
	t.closed = true
	t.entering.Unlock()
	t.requests.Wait()
}
