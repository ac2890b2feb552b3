package cluster

import (
	"context"
	"sync"
)

// gate counts who is inside and can be shut.
type gate struct {
	mu     sync.Mutex
	inside int
	isShut bool
	empty  chan struct{} // non-nil while somebody waits; closed when nobody is inside
}

// enter reports whether the gate was open; the caller must leave then.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isShut {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut = true
}

// wait returns when nobody is inside; it is for a gate that is shut.
func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	if g.inside == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
