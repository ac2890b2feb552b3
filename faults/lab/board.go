// Package lab keeps the faults that are on in one node. It knows when each ends, and
// tells those who do them when something has changed; it does none itself.
//
//	POST /v1/faults ─▶ Board ◀── asked by the links, the disk, the clocks, the API
//	                     │
//	       a timer each ─┘ the end of a fault is its own
//
// Two nouns: a [Board], of which each node of a lab has one, and the [Active] faults
// on it. A node that is no lab has no board: every method that asks works on a nil
// one, on which nothing is ever on.
package lab

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"leasehold/faults"
)

// MaxActive is how many faults can be on at once.
const MaxActive = 64

// Board is the faults that are on in one node.
type Board struct {
	log hclog.Logger
	// on is replaced and never changed, so that to ask costs next to nothing.
	on atomic.Pointer[[]*Active]

	mu       sync.Mutex // guards what follows, and every replacement of on
	made     int        // so far
	closed   bool
	watchers map[*func()]struct{}
	random   *rand.Rand
}

// Active is a fault that is on, or was.
type Active struct {
	ID    string
	Fault faults.Fault
	Begun time.Time

	over  chan struct{} // closed when it has healed
	timer *time.Timer
	left  atomic.Int64 // of its count
}

// New makes a board with nothing on it. What is random in its faults is drawn from
// the seed. A nil logger stands for none.
func New(logger hclog.Logger, seed uint64) *Board {
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	return &Board{log: logger, watchers: make(map[*func()]struct{}), random: rand.New(rand.NewPCG(seed, seed))}
}

// Begin puts a fault on. It heals by itself. The error is a *faults.FieldError.
func (b *Board) Begin(f faults.Fault) (*Active, error) {
	a, err := b.Prepare(f)
	if err == nil {
		b.Start(a)
	}
	return a, err
}

// Prepare makes a fault that is not on before Start. The error is a
// *faults.FieldError.
func (b *Board) Prepare(f faults.Fault) (*Active, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if f.Kind.OfProcess() {
		return nil, &faults.FieldError{Field: "fault", Detail: fmt.Sprintf("is %s, which a node cannot do to itself", f.Kind)}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, &faults.FieldError{Field: "fault", Detail: "cannot begin, this node is stopping"}
	case len(b.list()) >= MaxActive:
		return nil, &faults.FieldError{Field: "fault", Detail: fmt.Sprintf("cannot begin, %d are on, which is the most there can be; heal some first", MaxActive)}
	}
	b.made++
	a := &Active{ID: fmt.Sprintf("f%d", b.made), Fault: f, Begun: time.Now(), over: make(chan struct{})}
	a.left.Store(f.Count)
	return a, nil
}

// Start puts a fault on that was prepared, unless the board has been closed since.
func (b *Board) Start(a *Active) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		close(a.over)
		return
	}
	a.Begun = time.Now()
	on := append(slices.Clone(b.list()), a)
	b.on.Store(&on)
	a.timer = time.AfterFunc(a.Fault.Duration(), func() { b.heal("its time is over", func(x *Active) bool { return x == a }) })
	b.mu.Unlock()
	b.log.Warn("FAULT begins", "id", a.ID, "what", a.Fault.String())
	b.changed()
}

// Heal ends a fault now. It is nil if none with that id is on.
func (b *Board) Heal(id string) *Active {
	for _, a := range b.heal("by request", func(a *Active) bool { return a.ID == id }) {
		return a
	}
	return nil
}

// HealAll ends every fault now.
func (b *Board) HealAll() []*Active {
	return b.heal("by request", func(*Active) bool { return true })
}

// Close ends every fault, and lets none begin any more.
func (b *Board) Close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.heal("this node stops", func(*Active) bool { return true })
}

func (b *Board) heal(why string, which func(*Active) bool) (healed []*Active) {
	b.mu.Lock()
	var on []*Active
	for _, a := range b.list() {
		if which(a) {
			healed = append(healed, a)
			a.timer.Stop()
			close(a.over)
		} else {
			on = append(on, a)
		}
	}
	b.on.Store(&on)
	b.mu.Unlock()
	if len(healed) == 0 {
		return nil
	}
	for _, a := range healed {
		b.log.Warn("FAULT healed", "id", a.ID, "what", a.Fault.String(), "why", why)
	}
	b.changed()
	return healed
}

// Watch has f called, without any lock, after each fault that begins or heals.
func (b *Board) Watch(f func()) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers[&f] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers, &f)
	}
}

func (b *Board) changed() {
	b.mu.Lock()
	var all []func()
	for f := range b.watchers {
		all = append(all, *f)
	}
	b.mu.Unlock()
	for _, f := range all {
		f()
	}
}

func (b *Board) list() []*Active {
	if b == nil {
		return nil
	}
	if on := b.on.Load(); on != nil {
		return *on
	}
	return nil
}

// List is the faults that are on, in the order in which they began.
func (b *Board) List() []*Active { return slices.Clone(b.list()) }

// Quiet says that nothing is on.
func (b *Board) Quiet() bool { return len(b.list()) == 0 }

// On gives the faults of a kind that are on, in the order in which they began.
func (b *Board) On(kind faults.Kind) iter.Seq[*Active] {
	return func(yield func(*Active) bool) {
		for _, a := range b.list() {
			if a.Fault.Kind == kind && !yield(a) {
				return
			}
		}
	}
}

// OnLink gives the faults of the link to a peer in one direction.
func (b *Board) OnLink(peer string, d faults.Direction) iter.Seq[*Active] {
	return func(yield func(*Active) bool) {
		for _, a := range b.list() {
			if a.Fault.Touches(peer, d) && !yield(a) {
				return
			}
		}
	}
}

// Roll is a number from 0 to n-1.
func (b *Board) Roll(n int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.random.Int64N(n)
}

// WallTime is what this node takes for the time, for people to read.
func (b *Board) WallTime() time.Time { return time.Now().Add(b.WallShift()) }

// WallShift is how far the wall clock of this node is wrong.
func (b *Board) WallShift() (shift time.Duration) {
	for a := range b.On(faults.WallShift) {
		shift += a.Fault.Shift()
	}
	return shift
}

// DropsReply says whether the answer to a request is to be dropped, and counts it. A
// fault without a path is for requests that write: nobody misses an answer of those
// that ask again and again how things are.
func (b *Board) DropsReply(path string, writes bool) bool {
	for a := range b.On(faults.DropReply) {
		if a.Fault.Path != path && !(a.Fault.Path == "" && writes) {
			continue
		}
		if left := a.left.Add(-1); left >= 0 {
			if left == 0 {
				b.heal("it has done its count", func(x *Active) bool { return x == a })
			}
			return true
		}
	}
	return false
}

// Left is how many answers a [faults.DropReply] has still to drop.
func (a *Active) Left() int64 { return max(a.left.Load(), 0) }

// Over is closed when the fault has healed.
func (a *Active) Over() <-chan struct{} { return a.over }

// Healed says whether it has.
func (a *Active) Healed() bool {
	select {
	case <-a.over:
		return true
	default:
		return false
	}
}

// Remaining is how long it has left, at least 0.
func (a *Active) Remaining() time.Duration {
	return max(a.Fault.Duration()-time.Since(a.Begun), 0)
}
