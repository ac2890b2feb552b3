package fence

import (
	"context"
	"fmt"
	"sync"
)

// DefaultMaxResources is how many resources a guard remembers unless it is told
// otherwise: some 130 MB with names of 30 bytes.
const DefaultMaxResources = 1_000_000

// Guard keeps the highest token of each resource in memory. The zero Guard is
// ready; it must not be copied. All methods may be called at the same time.
//
// A guard never forgets a resource by itself. To forget is to take the next token
// for the first one, however old it is, so a guard that dropped what was
// not used for long would let in the very writer that was paused for long.
// When it is full it refuses new resources, and those it knows go on.
type Guard struct {
	// MaxResources is how many resources are remembered, 0 for
	// [DefaultMaxResources]. Not to be changed once the guard is in use.
	MaxResources int

	mu    sync.Mutex // guards what follows, and the marks in it
	marks map[string]*mark
}

// Check admits a token that is no lower than the highest that the resource has
// seen, and remembers it. Errors: [*StaleError], [ErrToken] for 0, [ErrFull].
//
// It waits for nothing, and says nothing of what happens after it has returned. So it is right only
// where the write is one step with it, for example under a mutex of the caller's
// that covers both, or to load a mark that was kept with the data. Otherwise use
// [Guard.Do].
func (g *Guard) Check(resource string, token uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, err := g.admitLocked(resource, token)
	return err
}

// Do checks a token and runs write, in such a way that no write with an older
// token is under way or comes later. It first waits for older ones to end, for as
// long as ctx allows; while it waits, none with an older token begins any more.
// Writes with the same token may run at the same time.
//
// The context that write gets is canceled when a newer token comes, with a
// [*StaleError] as its cause: a holder that was paused in the middle must not keep its
// successor waiting. To stop then is right, and to go on to the end is safe.
//
// Errors: those of Check, those of write, and one that wraps [ErrBusy] and the
// cause of ctx when the wait was cut short. With [*StaleError], [ErrToken],
// [ErrFull] and [ErrBusy] write has not been called, unless they are its own.
func (g *Guard) Do(ctx context.Context, resource string, token uint64, write func(context.Context) error) error {
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leave, err := g.enter(ctx, resource, token, cancel)
	if err != nil {
		return err
	}
	defer leave() // also when write panics: others must not wait for ever
	return write(running)
}

// Highest tells the highest token that a resource has seen, 0 if none.
func (g *Guard) Highest(resource string) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.marks[resource]; m != nil {
		return m.highest
	}
	return 0
}

// Forget drops what is known of a resource, and tells whether there is nothing
// left to forget: while a write is under way it does nothing. The next token
// will be taken for the first one, so forget only a resource
// that will not be written again by anybody, for example one that was deleted and
// whose name is not used again.
func (g *Guard) Forget(resource string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.marks[resource]; m != nil && m.busy() {
		return false
	}
	delete(g.marks, resource)
	return true
}

// admitLocked checks a token against the mark of its resource, and raises it.
func (g *Guard) admitLocked(resource string, token uint64) (*mark, error) {
	if token == 0 {
		return nil, fmt.Errorf("%w: 0, tokens begin at 1", ErrToken)
	}
	m := g.marks[resource]
	if m == nil {
		limit := g.MaxResources
		if limit == 0 {
			limit = DefaultMaxResources
		}
		if len(g.marks) >= limit {
			return nil, fmt.Errorf("%w: %d are remembered", ErrFull, limit)
		}
		if g.marks == nil {
			g.marks = make(map[string]*mark)
		}
		m = new(mark)
		g.marks[resource] = m
	}
	if token < m.highest {
		return nil, &StaleError{Resource: resource, Token: token, Highest: m.highest}
	}
	m.raise(resource, token)
	return m, nil
}

// enter admits a token and waits until no write with an older one is under way.
// The caller calls leave when its own is over; cancel is called if a newer token
// comes before.
func (g *Guard) enter(ctx context.Context, resource string, token uint64, cancel context.CancelCauseFunc) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		// Again after each wait: a newer one may have come meanwhile.
		m, err := g.admitLocked(resource, token)
		if err != nil {
			return nil, err
		}
		if m.older == 0 {
			o := &operation{cancel}
			m.running = append(m.running, o)
			return func() { g.leave(m, o) }, nil
		}
		drained := m.whenDrained()
		g.mu.Unlock()
		select {
		case <-drained:
		case <-ctx.Done():
		}
		g.mu.Lock()
		if ctx.Err() != nil { // also when both have happened: nobody may be there to hear of the write
			return nil, fmt.Errorf("%w: %q, token %d: %w", ErrBusy, resource, token, context.Cause(ctx))
		}
	}
}

func (g *Guard) leave(m *mark, o *operation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m.leave(o)
}
