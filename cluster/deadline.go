package cluster

import (
	"time"

	"leasehold/lease"
)

// deadlineID says what a deadline is of: a lease, or the waiter with that place
// in its queue.
type deadlineID struct {
	name  string
	place uint64 // 0 for the lease itself
}

// deadline is what the keeper knows of something that will fall due.
type deadline struct {
	id      deadlineID
	command lease.Command // to be proposed when it is due
	version uint64        // index of the entry that set it; older ones do not change it
	wait    *wait         // whose it is, nil for that of a lease
	at      time.Duration // lease time
	// key orders the heap. It is never later than at: a renewal moves only at,
	// and the deadline is put back when it comes up early.
	key       time.Duration
	place     int      // in the heap, -1 if not there
	renewals  int      // in flight
	attempt   *attempt // under way, nil if none
	heldBack  bool     // due, but a renewal is in flight
	retryFrom time.Duration
}

// attempt is one try at having the command of a deadline applied.
type attempt struct {
	command lease.Command
	of      *deadline
	sent    chan struct{} // closed when it is in the queue to Raft, or will never be
	known   chan struct{} // closed when its outcome is known
}

// deadlineHeap implements heap.Interface by key.
type deadlineHeap []*deadline

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].key < h[j].key }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *deadlineHeap) Push(x any) {
	d := x.(*deadline)
	d.place = len(*h)
	*h = append(*h, d)
}

func (h *deadlineHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	d.place = -1
	return d
}
