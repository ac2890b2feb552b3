package lease

import "iter"

// EndedKept is how many ended grants the table remembers.
const EndedKept = 1024

// endedRing holds the latest ended grants, with an index for each question that
// is asked of it. Only the slots are state; the indexes follow from them.
type endedRing struct {
	slots [EndedKept]*Ended
	count uint64 // ended grants ever added; the next goes to slot count % EndedKept

	tokens   map[uint64]*Ended
	requests map[request]*Ended
	names    map[string]*Ended
}

// request is an acquire, named by what its request id is scoped to.
type request struct{ name, holder, id string }

func (e *Ended) request() request { return request{e.Name, e.Holder, e.RequestID} }

// add stores an ended grant and returns the one that it pushed out, if any.
func (r *endedRing) add(e *Ended) (oldest *Ended) {
	if r.tokens == nil {
		r.tokens = make(map[uint64]*Ended)
		r.requests = make(map[request]*Ended)
		r.names = make(map[string]*Ended)
	}
	slot := &r.slots[r.count%EndedKept]
	oldest = *slot
	if oldest != nil {
		delete(r.tokens, oldest.Token)
		// A request is in the ring once: while it is, it makes no other grant.
		delete(r.requests, oldest.request())
		if r.names[oldest.Name] == oldest { // else a later end of the name has the place
			delete(r.names, oldest.Name)
		}
	}
	*slot = e
	r.count++
	r.tokens[e.Token] = e
	r.requests[e.request()] = e
	r.names[e.Name] = e
	return oldest
}

func (r *endedRing) byToken(token uint64) *Ended { return r.tokens[token] }
func (r *endedRing) byName(name string) *Ended   { return r.names[name] }
func (r *endedRing) byRequest(name, holder, id string) *Ended {
	return r.requests[request{name, holder, id}]
}

// all iterates over the ended grants, oldest first.
func (r *endedRing) all() iter.Seq[*Ended] {
	return func(yield func(*Ended) bool) {
		for i := range uint64(EndedKept) {
			e := r.slots[(r.count+i)%EndedKept]
			if e != nil && !yield(e) {
				return
			}
		}
	}
}
