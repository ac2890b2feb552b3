package fence

import (
	"context"
	"slices"
)

// mark is what a guard knows of one resource. Its guard's mutex guards it.
type mark struct {
	highest uint64
	running []*operation  // writes under way with the highest token
	older   int           // writes under way with lower ones
	drained chan struct{} // closed when older falls to 0; nil while nobody waits for it
}

// operation is one write under way.
type operation struct {
	cancel context.CancelCauseFunc
}

func (m *mark) busy() bool { return len(m.running)+m.older > 0 }

// raise sets the mark. What is under way becomes old by it, and is told so.
func (m *mark) raise(resource string, token uint64) {
	if token == m.highest {
		return
	}
	for _, o := range m.running {
		o.cancel(&StaleError{Resource: resource, Token: m.highest, Highest: token})
	}
	m.older += len(m.running)
	m.running = nil
	m.highest = token
}

// whenDrained gives a channel that is closed when no older write is under way.
func (m *mark) whenDrained() <-chan struct{} {
	if m.drained == nil {
		m.drained = make(chan struct{})
	}
	return m.drained
}

// leave counts a write that has ended.
func (m *mark) leave(o *operation) {
	if i := slices.Index(m.running, o); i >= 0 {
		m.running = slices.Delete(m.running, i, i+1)
		return
	}
	m.older--
	if m.older == 0 && m.drained != nil {
		close(m.drained)
		m.drained = nil
	}
}
