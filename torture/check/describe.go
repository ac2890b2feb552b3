package check

import (
	"fmt"
	"strings"
	"time"

	"leasehold/lease"
	"leasehold/torture/history"
)

// describe puts an operation into one line: who asked what and was told what, when.
func describe(o history.Operation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s %s", o.ID, o.Client, asked(o))
	fmt.Fprintf(&b, " → %s", told(o))
	fmt.Fprintf(&b, "  [%s, %s]", seconds(o.Call), seconds(o.Return))
	return b.String()
}

func asked(o history.Operation) string {
	about := o.Name
	if o.Register != "" {
		about = o.Register
	}
	s := fmt.Sprintf("%s %s", o.Kind, about)
	if o.Kind == history.Acquire {
		s += fmt.Sprintf(" request %s ttl %v", o.RequestID, o.TTL)
		if o.Wait > 0 {
			s += fmt.Sprintf(" wait %v", o.Wait)
		}
	}
	if o.Token != 0 {
		s += fmt.Sprintf(" token %d", o.Token)
	}
	return s
}

func told(o history.Operation) string {
	s := string(o.Outcome)
	if o.Code != "" {
		s += " " + o.Code
	}
	if o.Answer.State != "" {
		s += " " + o.Answer.State
	}
	if o.Answer.Token != 0 {
		s += fmt.Sprintf(" token %d", o.Answer.Token)
	}
	if o.Answer.Index != 0 {
		s += fmt.Sprintf(" at index %d", o.Answer.Index)
	}
	return s
}

func describeEntry(e history.Entry) string {
	switch c := e.Command.(type) {
	case nil:
		return fmt.Sprintf("entry %d term %d: %s", e.Index, e.Term, e.Kind)
	case lease.RenewMany:
		return fmt.Sprintf("entry %d term %d: %d renewals of %s", e.Index, e.Term, len(c.Renewals), c.Holder)
	default:
		return fmt.Sprintf("entry %d term %d: %s%+v", e.Index, e.Term, strings.TrimPrefix(fmt.Sprintf("%T", c), "lease."), c)
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

// shows makes the violation that those operations show.
func shows(what string, ops ...*history.Operation) Violation {
	v := Violation{What: what}
	for _, o := range ops {
		if o != nil {
			v.Operations = append(v.Operations, *o)
		}
	}
	return v
}

// in adds entries to a violation.
func (v Violation) in(entries ...history.Entry) Violation {
	v.Entries = append(v.Entries, entries...)
	return v
}
