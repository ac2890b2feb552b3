package cli

import (
	"fmt"
	"time"

	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
	"leasehold/httpapi/wire"
)

type getFlags struct {
	*access
	stale bool
}

func (p *program) getCommand() *urfave.Command {
	f := &getFlags{access: newAccess()}
	return &urfave.Command{
		Name:        "get",
		Usage:       "show a lease",
		UsageText:   "leasehold get [--stale] NAME",
		Description: "A free lease is shown too, with how its last grant ended if that is still known.",
		Flags:       append([]urfave.Flag{staleFlag(&f.stale)}, f.flags()...),
		Action:      func(c *urfave.Context) error { return p.get(c, f) },
	}
}

func staleFlag(stale *bool) urfave.Flag {
	return &urfave.BoolFlag{Name: "stale", Destination: stale, Usage: "take the answer of any node, however old, such as without a quorum"}
}

func consistency(stale bool) client.Consistency {
	if stale {
		return client.Stale
	}
	return client.Linearizable
}

func (p *program) get(c *urfave.Context, f *getFlags) error {
	name, err := oneName(c)
	if err != nil {
		return err
	}
	cl, err := p.client(c, f.access)
	if err != nil {
		return err
	}
	defer cl.Close()
	l, err := cl.Lease(c.Context, name, consistency(f.stale))
	if err != nil {
		return err
	}
	if f.json {
		return p.printJSON(l)
	}
	return p.printLease(l, time.Now())
}

func (p *program) printLease(l wire.Lease, now time.Time) error {
	t := newTable(p.stdout)
	t.row("name", l.Name)
	t.row("state", l.State)
	if l.CoolingSince != 0 {
		t.row("reopens", fmt.Sprintf("%s: a lock delay of %v runs since index %d", reopens(l), millis(l.LockDelayMillis), l.CoolingSince))
	}
	if l.Token != 0 {
		t.row("holder", l.Holder)
		t.row("token", number(l.Token))
		t.row("ttl", millis(l.TTLMillis).String())
		t.field("lock_delay", millis(l.LockDelayMillis).String())
		if l.RemainingMillis != nil {
			t.row("remaining", remaining(l.RemainingMillis))
		}
		t.field("value", l.Value)
		t.field("request_id", l.RequestID)
		t.row("granted", fmt.Sprintf("%s, at %s", age(now, l.GrantedAt), l.GrantedAt))
		if l.Renewals > 0 {
			t.row("renewed", fmt.Sprintf("%s, %d times so far", age(now, l.RenewedAt), l.Renewals))
		}
	}
	if l.Waiters > 0 {
		t.row("waiters", number(l.Waiters))
	}
	if last := l.Last; last != nil {
		t.row("last", lastGrant(*last, now))
		t.field("", last.Why)
	}
	if l.Index != 0 {
		t.row("index", number(l.Index))
	}
	if l.StaleRead != nil {
		t.row("stale", staleness(*l.StaleRead))
	}
	return t.flush()
}

// reopens says when the lock delay of a cooling lease is over.
func reopens(l wire.Lease) string {
	if l.RemainingMillis == nil {
		return "in ?" // only the leader knows
	}
	return "in " + remaining(l.RemainingMillis)
}

// lastGrant says how the last grant of a lease ended.
func lastGrant(l wire.Last, now time.Time) string {
	text := fmt.Sprintf("token %d", l.Token)
	if l.Holder != "" { // else it is no longer known
		text += fmt.Sprintf(" of %s, %s", l.Holder, l.How)
	} else {
		text += " ended"
	}
	if l.At != "" {
		text += " " + age(now, l.At)
	}
	return text + fmt.Sprintf(" at index %d", l.Index)
}

// staleness says how old an answer may be.
func staleness(s wire.StaleRead) string {
	leader := "no leader is known"
	if s.Leader != nil {
		leader = "the leader is " + s.Leader.ID
	}
	contact := "never heard from one"
	if s.LastContactMillis != nil {
		contact = "heard from " + span(time.Duration(*s.LastContactMillis)*time.Millisecond) + " ago"
	}
	return fmt.Sprintf("applied up to index %d; %s, %s", s.AppliedIndex, leader, contact)
}
