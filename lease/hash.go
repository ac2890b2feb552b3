package lease

import (
	"crypto/sha256"
	"encoding/binary"
)

// stateHash is a fingerprint of the records in the table, kept up to date by
// adding the hash of each record that comes and subtracting that of each that
// goes. Addition does not care about order, so replicas that reached the same
// state by a snapshot and by replay agree; that a record comes and goes in
// constant time is why it is a sum and not a hash of the whole state.
// It finds replicas that parted ways by a bug; it is no defence against forgery.
type stateHash uint64

// record is a part of the state that comes and goes as a whole.
type record interface{ hash() uint64 }

func (h *stateHash) add(r record)  { *h += stateHash(r.hash()) }
func (h *stateHash) drop(r record) { *h -= stateHash(r.hash()) }

// Hash is the fingerprint of the state after the entry that was applied last.
// Two nodes that have applied the same index have the same hash.
func (t *Table) Hash() uint64 {
	d := newDigest()
	d.str("table", t.clusterID, t.leader.Node, t.leader.Address, t.leader.ClusterID)
	d.num(t.leadEntry.Index, t.leadEntry.Term, uint64(t.leadEntry.At))
	d.num(t.applied.Index, t.applied.Term, uint64(t.applied.At))
	d.num(t.ended.count)
	return uint64(t.hash) + d.sum()
}

func (l *Lease) hash() uint64 {
	d := newDigest()
	d.str("lease", l.Name, string(l.State()))
	d.num(uint64(l.Waiters))
	if g := l.Grant; g != nil {
		d.str(g.Holder, g.RequestID, g.Value)
		d.num(g.Token, g.Term, g.Renewal, g.Renewals, uint64(g.TTL), uint64(g.LockDelay), uint64(g.GrantedAt), uint64(g.RenewedAt), g.Place, number(g.Taken))
	}
	if c := l.Cooldown; c != nil {
		d.num(c.Token, c.Since, uint64(c.Delay), uint64(c.At))
	}
	return d.sum()
}

func (w *Waiter) hash() uint64 {
	d := newDigest()
	d.str("waiter", w.Name, w.Holder, w.RequestID, w.Value)
	d.num(w.Place, uint64(w.TTL), uint64(w.LockDelay), uint64(w.QueuedAt))
	return d.sum()
}

func (reg *Register) hash() uint64 {
	d := newDigest()
	d.str("register", reg.Name, reg.Value)
	d.num(reg.HighestToken, reg.Accepted, reg.Refused, uint64(len(reg.Writes)))
	for _, w := range reg.Writes {
		d.str(w.Lease, string(w.Verdict))
		d.num(w.Index, uint64(w.At), w.Token)
	}
	return d.sum()
}

func (e *Ended) hash() uint64 {
	d := newDigest()
	d.str("ended", e.Name, e.Holder, e.RequestID, string(e.How), e.Reason)
	d.num(e.Token, e.Index, uint64(e.At))
	return d.sum()
}

// digest gathers the fields of a record, each string with its length before
// it, so that no two different records gather the same bytes.
type digest struct{ buf []byte }

// newDigest has room for a record without a long value.
func newDigest() digest { return digest{buf: make([]byte, 0, 256)} }

func (d *digest) str(fields ...string) {
	for _, s := range fields {
		d.buf = binary.AppendUvarint(d.buf, uint64(len(s)))
		d.buf = append(d.buf, s...)
	}
}

func (d *digest) num(fields ...uint64) {
	for _, n := range fields {
		d.buf = binary.AppendUvarint(d.buf, n)
	}
}

// sum is the start of a SHA-256. A plain checksum would not do: the sum of two
// FNV hashes often stays the same when two records swap their last bytes.
func (d *digest) sum() uint64 {
	sum := sha256.Sum256(d.buf)
	return binary.BigEndian.Uint64(sum[:])
}

func number(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
