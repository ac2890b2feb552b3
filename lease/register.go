package lease

import (
	"iter"
	"slices"

	"github.com/tidwall/btree"
)

// WritesKept is how many writes a register remembers.
const WritesKept = 16

// Register is the protected resource, built in: a value that refuses writers
// whose token has been overtaken. Unlike a lease it stays for good. A Register
// in the table is never changed.
type Register struct {
	Name, Value string
	// HighestToken is the highest that came with an accepted write, 0 if none
	// had one.
	HighestToken uint64
	// Accepted and Refused count the writes.
	Accepted, Refused uint64
	// Writes are the latest of both, oldest first, at most WritesKept.
	Writes []RegisterWrite
}

// RegisterWrite is one attempt to write to a register.
type RegisterWrite struct {
	Index   uint64 // of its entry
	At      int64  // wall-clock milliseconds of that entry
	Token   uint64 // 0 if it had none, which makes it unfenced
	Lease   string // empty if it named none
	Verdict Verdict
}

// Verdict on a write.
type Verdict string

// The verdicts.
const (
	Accepted   Verdict = "accepted"
	StaleToken Verdict = "stale_token" // a higher token has been seen
	NotLive    Verdict = "not_live"    // its token was not the live one of the lease
)

// apply judges a write. The two rules, both of which hold for a write that names
// a lease, answer different questions:
//
//   - the token is not lower than any that was accepted before: nobody who came
//     later has written. This is all that a resource outside can check.
//   - the token is live: at this entry its holder holds the lease. Only a
//     resource inside the same log can know.
func (c Write) apply(t *Table, e Entry) Result {
	old, _ := t.registers.Get(c.Register)
	if old == nil {
		old = &Register{Name: c.Register}
	}
	reg, r := *old, Result{}
	write := RegisterWrite{Index: e.Index, At: e.At, Token: c.Token, Lease: c.Lease, Verdict: Accepted}
	ev := Event{
		Index: e.Index, Term: e.Term, At: e.At, Kind: KindWritten,
		Name: c.Register, Register: true, Token: c.Token,
	}

	switch {
	case c.Token != 0 && c.Token < reg.HighestToken:
		write.Verdict, r.Err, ev.Other = StaleToken, ErrStaleToken, reg.HighestToken
	case c.Lease != "" && t.Get(c.Lease).Live(c.Token) == nil:
		write.Verdict, r.Err = NotLive, ErrNotLive
		if ended := t.ended.byToken(c.Token); ended != nil && ended.Name == c.Lease {
			r.Ended, ev.Other = ended, ended.Index
		}
	}
	if r.Err != nil {
		reg.Refused++
		ev.Kind, ev.Cause = KindRefused, r.Err
	} else {
		reg.Accepted++
		reg.Value, reg.HighestToken = c.Value, max(reg.HighestToken, c.Token)
	}
	kept := old.Writes[max(0, len(old.Writes)+1-WritesKept):]
	reg.Writes = append(slices.Clone(kept), write)

	t.putRegister(&reg)
	r.Register, r.Events = &reg, []Event{ev}
	return r
}

func (t *Table) putRegister(reg *Register) {
	if old, was := t.registers.Set(reg.Name, reg); was {
		t.hash.drop(old)
	}
	t.hash.add(reg)
}

// Register returns the register of that name, nil if it was never written to.
// The caller must not change it.
func (t *Table) Register(name string) *Register {
	reg, _ := t.registers.Get(name)
	return reg
}

// Registers is the number of registers.
func (t *Table) Registers() int { return t.registers.Len() }

func allRegisters(m *btree.Map[string, *Register]) iter.Seq[*Register] {
	return func(yield func(*Register) bool) {
		m.Scan(func(_ string, reg *Register) bool { return yield(reg) })
	}
}
