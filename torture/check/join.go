package check

import (
	"cmp"
	"fmt"
	"slices"

	"leasehold/lease"
	"leasehold/torture/history"
)

// join ties each operation to the entry in which it took effect:
//
//	answered, with an index    that entry
//	acquire, outcome unknown   the entry that granted its request, known by its id
//	others, outcome unknown    the first entry with the same content that nobody
//	                           else claims, behind all that was answered before
//	                           the call
type join struct {
	// effect is the index at which an operation took effect, in the order of
	// h.Operations; 0 if it did not, or nobody knows.
	effect []uint64
	// unclaimed are the entries of clients that no operation has claimed, by content.
	unclaimed map[content][]uint64
	// asked are the operations that may have made entries of that content.
	asked map[content][]*history.Operation
}

// content is what makes an entry of the log the one that an operation asked for.
type content string

// contentOf is the content that an operation asks for, empty for reads. The wait of
// an acquire is not part of it: the server shortens it when it queues again.
func contentOf(o *history.Operation) content {
	switch o.Kind {
	case history.Acquire:
		return acquireContent(o.Name, o.Holder, o.RequestID)
	case history.Renew:
		return renewContent(lease.Renew{Name: o.Name, Holder: o.Holder, Token: o.Token, TTL: o.TTL, Value: o.Value})
	case history.RenewMany:
		return manyContent(o.Holder, lease.Renewal{Name: o.Name, Token: o.Token})
	case history.Release:
		return content(fmt.Sprintf("release %q %q %d", o.Name, o.Holder, o.Token))
	case history.Revoke:
		return content(fmt.Sprintf("revoke %q %d %q", o.Name, o.Token, o.Reason))
	case history.Write:
		value := ""
		if o.Value != nil {
			value = *o.Value
		}
		return writeContent(lease.Write{Register: o.Register, Value: value, Token: o.Token, Lease: o.Guard})
	}
	return ""
}

// contentsOf are the contents of an entry that clients asked for.
func contentsOf(c lease.Command) []content {
	switch c := c.(type) {
	case lease.Acquire:
		return []content{acquireContent(c.Name, c.Holder, c.RequestID)}
	case lease.Renew:
		return []content{renewContent(c)}
	case lease.RenewMany:
		var all []content
		for _, one := range c.Renewals {
			all = append(all, manyContent(c.Holder, one))
		}
		return all
	case lease.Release:
		return []content{content(fmt.Sprintf("release %q %q %d", c.Name, c.Holder, c.Token))}
	case lease.Revoke:
		return []content{content(fmt.Sprintf("revoke %q %d %q", c.Name, c.Token, c.Reason))}
	case lease.Write:
		return []content{writeContent(c)}
	}
	return nil // Lead, Expire, Reopen and Abandon are the cluster's own
}

func acquireContent(name, holder, id string) content {
	return content(fmt.Sprintf("acquire %q %q %q", name, holder, id))
}

func renewContent(c lease.Renew) content {
	value := "-"
	if c.Value != nil {
		value = *c.Value
	}
	return content(fmt.Sprintf("renew %q %q %d %d %q", c.Name, c.Holder, c.Token, c.TTL, value))
}

func manyContent(holder string, one lease.Renewal) content {
	return content(fmt.Sprintf("renew of many %q %q %d", one.Name, holder, one.Token))
}

func writeContent(c lease.Write) content {
	return content(fmt.Sprintf("write %q %q %d %q", c.Register, c.Value, c.Token, c.Lease))
}

func newJoin(r *run) *join {
	j := &join{
		effect:    make([]uint64, len(r.h.Operations)),
		unclaimed: make(map[content][]uint64),
		asked:     make(map[content][]*history.Operation),
	}
	for _, s := range r.replay.steps {
		for _, c := range contentsOf(s.entry.Command) {
			j.unclaimed[c] = append(j.unclaimed[c], s.entry.Index)
		}
	}
	for i := range r.h.Operations {
		o := &r.h.Operations[i]
		if c := contentOf(o); c != "" {
			j.asked[c] = append(j.asked[c], o)
		}
		if o.Answered() {
			j.effect[i] = o.Answer.Index
			j.claim(contentOf(o), o.Answer.Index)
		}
	}
	j.resolve(r)
	return j
}

func (j *join) claim(c content, index uint64) {
	free := j.unclaimed[c]
	if i, found := slices.BinarySearch(free, index); found {
		j.unclaimed[c] = slices.Delete(free, i, i+1)
	}
}

// resolve finds what became of the operations with an unknown outcome, in the
// order of their calls.
func (j *join) resolve(r *run) {
	var unknown []int
	for i := range r.h.Operations {
		if o := &r.h.Operations[i]; !o.Answered() && o.Outcome != history.Nothing || o.Answered() && o.Answer.Index == 0 {
			unknown = append(unknown, i)
		}
	}
	slices.SortStableFunc(unknown, func(a, b int) int {
		return cmp.Compare(r.h.Operations[a].Call, r.h.Operations[b].Call)
	})
	for _, i := range unknown {
		o := &r.h.Operations[i]
		if o.Kind == history.Acquire {
			if tokens := r.replay.attempts[o.Attempt()]; len(tokens) > 0 {
				j.effect[i] = tokens[0]
			}
			continue
		}
		c := contentOf(o)
		free := j.unclaimed[c]
		at, _ := slices.BinarySearch(free, r.places.answeredBefore(o.Call)+1)
		if at < len(free) {
			j.effect[i] = free[at]
			j.unclaimed[c] = slices.Delete(free, at, at+1)
		}
	}
}
