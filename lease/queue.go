package lease

import (
	"encoding/binary"
	"iter"
	"strings"
	"time"

	"github.com/tidwall/btree"
)

// Waiter is an acquire that waits for its lease. A Waiter in the table is never
// changed.
type Waiter struct {
	Name, Holder, RequestID string
	// Place is the index of the entry that queued it. The waiter with the least
	// place is granted first.
	Place uint64

	// What the grant will have.
	Value          string
	TTL, LockDelay time.Duration

	QueuedAt int64 // wall-clock milliseconds of the entry Place, for people to read
}

func (w *Waiter) request() request { return request{w.Name, w.Holder, w.RequestID} }

// waitQueue holds the queues of all leases in one tree, so that a snapshot of
// all of them is one copy of a root. Only the tree is state; the index of the
// requests follows from it.
type waitQueue struct {
	byPlace   btree.Map[string, *Waiter]
	byRequest map[request]*Waiter
}

// placeKey sorts by name, then by place. A name has no byte 0, so the places of
// one name stand together.
func placeKey(name string, place uint64) string {
	return string(binary.BigEndian.AppendUint64(append([]byte(name), 0), place))
}

func (q *waitQueue) add(w *Waiter) {
	if q.byRequest == nil {
		q.byRequest = make(map[request]*Waiter)
	}
	q.byPlace.Set(placeKey(w.Name, w.Place), w)
	q.byRequest[w.request()] = w
}

func (q *waitQueue) remove(w *Waiter) {
	q.byPlace.Delete(placeKey(w.Name, w.Place))
	delete(q.byRequest, w.request())
}

// find returns the waiter of that request, nil if it does not wait.
func (q *waitQueue) find(r request) *Waiter { return q.byRequest[r] }

// first returns the waiter of that lease whose turn it is, nil if there is none.
func (q *waitQueue) first(name string) *Waiter {
	for w := range waitersOf(&q.byPlace, name) {
		return w
	}
	return nil
}

// waitersOf iterates over the waiters of a lease in the order of their places.
func waitersOf(byPlace *btree.Map[string, *Waiter], name string) iter.Seq[*Waiter] {
	prefix := name + "\x00"
	return func(yield func(*Waiter) bool) {
		byPlace.Ascend(prefix, func(key string, w *Waiter) bool {
			return strings.HasPrefix(key, prefix) && yield(w)
		})
	}
}
