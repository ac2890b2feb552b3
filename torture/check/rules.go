package check

import (
	"fmt"
	"slices"

	"leasehold/lease"
	"leasehold/torture/history"
)

// The table of package lease says what each entry comes to. Here its word is not
// taken for it: what it says it did is held against a second, much smaller
// account of who may do what. Were a rule missing in the table, the cluster and
// the replay would both miss it and agree.

// account of one lease.
type account struct {
	live    *holding
	cooling uint64   // token of the grant whose lock delay runs, 0 if none
	queue   []uint64 // places, first in the queue first
	over    map[uint64]bool
}

// holding is a live grant.
type holding struct {
	token, renewal uint64
	holder, id     string // id of the request
}

// rules follows a log and gathers what breaks a rule, by property.
type rules struct {
	accounts map[string]*account
	highest  map[string]uint64 // token that each register has accepted
	found    map[string]*finding
	now      *step
}

// ruleOf is the check of a property that the rules take care of alone.
func ruleOf(id string) func(*run, *finding) {
	return func(r *run, f *finding) { *f = *r.rules[id] }
}

// addRules adds what the rules found for a property that others check too.
func (r *run) addRules(id string, f *finding) {
	if r.rules == nil {
		return
	}
	f.checked += r.rules[id].checked
	for _, v := range r.rules[id].violations {
		f.violated(v)
	}
}

func applyRules(r *replay) map[string]*finding {
	a := &rules{
		accounts: make(map[string]*account), highest: make(map[string]uint64),
		found: map[string]*finding{
			"P3": {unit: "grants"}, "P6": {unit: "writes"}, "P7": {unit: "grants"}, "P8": {unit: "expiries"},
			"P10": {unit: "uses of a token"}, "P11": {unit: "refused requests"}, "P12": {unit: "waiters"}, "P14": {unit: "refusals"},
		},
	}
	a.begin(r.start)
	for i := range r.steps {
		a.now = &r.steps[i]
		for _, ev := range a.now.result.Events {
			a.follow(ev)
		}
		if name := a.now.result.Name; name != "" {
			if of := a.of(name); of.live == nil && of.cooling == 0 && len(of.queue) > 0 {
				a.broken("P12", "%s is free after entry %d, and the request queued at index %d was not granted", name, a.now.entry.Index, of.queue[0])
			}
		}
	}
	return a.found
}

func (a *rules) begin(t *lease.Table) {
	if t == nil {
		return
	}
	for l := range t.Ascend("") {
		of := a.of(l.Name)
		if g := l.Grant; g != nil {
			of.live = &holding{g.Token, g.Renewal, g.Holder, g.RequestID}
		} else {
			of.cooling = l.Cooldown.Token
		}
		for w := range t.WaitersOf(l.Name) {
			of.queue = append(of.queue, w.Place)
		}
	}
	for reg := range t.Snapshot().AllRegisters() {
		a.highest[reg.Name] = reg.HighestToken
	}
}

func (a *rules) of(name string) *account {
	of := a.accounts[name]
	if of == nil {
		of = &account{over: make(map[uint64]bool)}
		a.accounts[name] = of
	}
	return of
}

func (a *rules) broken(id, format string, args ...any) {
	a.found[id].violated(Violation{What: fmt.Sprintf(format, args...), Entries: []history.Entry{a.now.entry}})
}

// follow takes one event into account.
func (a *rules) follow(ev lease.Event) {
	of := a.of(ev.Name)
	switch ev.Kind {
	case lease.KindGranted:
		a.granted(of, ev)
	case lease.KindRenewed:
		if a.uses(of, ev) {
			of.live.renewal = ev.Index
		}
	case lease.KindExpired:
		a.expired(of, ev)
		of.live = nil
	case lease.KindReleased, lease.KindRevoked, lease.KindReclaimed:
		a.uses(of, ev)
		of.live = nil
	case lease.KindCooling:
		of.cooling = ev.Token
	case lease.KindReopened:
		of.cooling = 0
	case lease.KindQueued:
		a.found["P12"].checked++
		of.queue = append(of.queue, ev.Place)
	case lease.KindAbandoned:
		of.queue = slices.DeleteFunc(of.queue, func(p uint64) bool { return p == ev.Place })
		of.over[ev.Place] = true
	case lease.KindWritten:
		a.written(ev)
	case lease.KindRefused:
		a.refused(of, ev)
	}
}

func (a *rules) granted(of *account, ev lease.Event) {
	a.found["P3"].checked++
	a.found["P7"].checked++
	if ev.Token != ev.Index {
		a.broken("P3", "entry %d grants %s with token %d", ev.Index, ev.Name, ev.Token)
	}
	if of.live != nil {
		a.broken("P7", "entry %d grants %s to %s while token %d of %s is live", ev.Index, ev.Name, ev.Holder, of.live.token, of.live.holder)
	}
	if of.cooling != 0 {
		a.broken("P8", "entry %d grants %s while the lock delay after token %d runs", ev.Index, ev.Name, of.cooling)
	}
	_, ownEntry := a.now.entry.Command.(lease.Acquire)
	reclaims := ownEntry && slices.ContainsFunc(a.now.result.Events, func(e lease.Event) bool { return e.Kind == lease.KindReclaimed })
	switch {
	case ev.Place == 0 && len(of.queue) > 0 && !reclaims:
		a.broken("P12", "entry %d grants %s to %s, ahead of the request queued at index %d", ev.Index, ev.Name, ev.Holder, of.queue[0])
	case ev.Place != 0 && of.over[ev.Place]:
		a.broken("P10", "entry %d grants %s to the request queued at index %d, whose wait was over", ev.Index, ev.Name, ev.Place)
	case ev.Place != 0 && (len(of.queue) == 0 || of.queue[0] != ev.Place):
		a.broken("P12", "entry %d grants %s to the request queued at index %d, whose turn it was not", ev.Index, ev.Name, ev.Place)
	}
	of.queue = slices.DeleteFunc(of.queue, func(p uint64) bool { return p == ev.Place })
	of.live = &holding{ev.Token, ev.Index, ev.Holder, ev.RequestID}
}

// uses: a token does something only while it is the live one, and for its holder.
func (a *rules) uses(of *account, ev lease.Event) bool {
	a.found["P10"].checked++
	token, holder := usedBy(a.now.entry.Command, ev)
	switch {
	case of.live == nil:
		a.broken("P10", "entry %d: token %d of %s is %s, and nobody held the lease", ev.Index, token, ev.Name, ev.Kind)
		return false
	case of.live.token != token || of.live.token != ev.Token:
		a.broken("P10", "entry %d comes with token %d of %s and has effect on token %d; the live one is %d", ev.Index, token, ev.Name, ev.Token, of.live.token)
	case holder != "" && of.live.holder != holder:
		a.broken("P10", "entry %d: %s uses token %d of %s, which is that of %s", ev.Index, holder, token, ev.Name, of.live.holder)
	}
	return true
}

// usedBy is the token that came with the command, and who used it.
func usedBy(c lease.Command, ev lease.Event) (token uint64, holder string) {
	switch c := c.(type) {
	case lease.Renew:
		return c.Token, c.Holder
	case lease.RenewMany:
		for _, one := range c.Renewals {
			if one.Name == ev.Name {
				return one.Token, c.Holder
			}
		}
	case lease.Release:
		return c.Token, c.Holder
	case lease.Revoke:
		return c.Token, ""
	case lease.Acquire: // reclaims
		return ev.Token, c.Holder
	}
	return ev.Token, ""
}

// expired: the entry must speak of the latest renewal, and of a deadline that was
// set in its own term. Else it ends a grant early.
func (a *rules) expired(of *account, ev lease.Event) {
	a.found["P8"].checked++
	c, ok := a.now.entry.Command.(lease.Expire)
	switch {
	case !ok:
		a.broken("P8", "entry %d ends token %d of %s as expired and is no expiry", ev.Index, ev.Token, ev.Name)
	case of.live == nil || of.live.token != c.Token:
		a.broken("P10", "entry %d expires token %d of %s, which is not live", ev.Index, c.Token, ev.Name)
	case of.live.renewal != c.Renewal:
		a.broken("P8", "entry %d expires token %d of %s by its renewal at index %d, and it was renewed at index %d", ev.Index, c.Token, ev.Name, c.Renewal, of.live.renewal)
	case c.Term != a.now.entry.Term:
		a.broken("P8", "entry %d of term %d expires token %d of %s by a deadline of term %d", ev.Index, a.now.entry.Term, c.Token, ev.Name, c.Term)
	}
}

// refused: a refusal must have its reason in the account too.
func (a *rules) refused(of *account, ev lease.Event) {
	a.found["P14"].checked++
	if c, write := a.now.entry.Command.(lease.Write); write {
		of = a.of(c.Lease)
	}
	live := of.live != nil && of.live.token == ev.Token
	c, acquires := a.now.entry.Command.(lease.Acquire)
	switch {
	case ev.Cause == lease.ErrHeld && of.live == nil:
		a.broken("P14", "entry %d refuses %s to %s as held, and nobody holds it", ev.Index, ev.Name, ev.Holder)
	case ev.Cause == lease.ErrHeld && acquires && of.live.holder == c.Holder && of.live.id == c.RequestID:
		a.broken("P11", "entry %d refuses %s to request %s of %s, which holds it under token %d", ev.Index, ev.Name, c.RequestID, c.Holder, of.live.token)
	case ev.Cause == lease.ErrCooling && of.cooling == 0:
		a.broken("P14", "entry %d refuses %s to %s as cooling, and no lock delay runs", ev.Index, ev.Name, ev.Holder)
	case (ev.Cause == lease.ErrLost || ev.Cause == lease.ErrNotLive) && live:
		a.broken("P14", "entry %d says that token %d of %s is over, and it is live", ev.Index, ev.Token, ev.Name)
	case ev.Cause == lease.ErrNotHolder && (!live || of.live.holder == ev.Holder):
		a.broken("P14", "entry %d says that token %d of %s is not that of %s, and it is, or is over", ev.Index, ev.Token, ev.Name, ev.Holder)
	case ev.Cause == lease.ErrStaleToken && ev.Token >= a.highest[ev.Name]:
		a.broken("P6", "entry %d refuses token %d for %s, where the highest is %d", ev.Index, ev.Token, ev.Name, a.highest[ev.Name])
	}
}

func (a *rules) written(ev lease.Event) {
	c, ok := a.now.entry.Command.(lease.Write)
	if !ok {
		return
	}
	a.found["P6"].checked++
	if c.Token != 0 && c.Token < a.highest[c.Register] {
		a.broken("P6", "entry %d writes to %s with token %d after token %d", ev.Index, c.Register, c.Token, a.highest[c.Register])
	}
	a.highest[c.Register] = max(a.highest[c.Register], c.Token)
	if c.Lease == "" {
		return
	}
	if of := a.of(c.Lease); of.live == nil || of.live.token != c.Token {
		a.broken("P10", "entry %d writes to %s under token %d of %s, which is not live", ev.Index, c.Register, c.Token, c.Lease)
	}
}
