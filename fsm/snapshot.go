package fsm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"leasehold/lease"
)

// A snapshot is
//
//	"leasehold snapshot" version │ header │ leases by name │ waiters by name and
//	place │ registers by name │ ended, oldest first
//
// where the header and every record are a uvarint length and that many bytes.
// The order is part of the format: equal states have equal bytes. Restoring
// recomputes the state hash and compares it with the header's, so a snapshot
// that was cut short or changed on disk is never taken for the state.
const (
	snapshotMagic   = "leasehold snapshot"
	snapshotVersion = 2
	// maxRecord is far above the largest register: it bounds what a corrupt length
	// can make us allocate.
	maxRecord = 64 << 10
)

// WriteSnapshot writes the encoding of s.
func WriteSnapshot(out io.Writer, s *lease.Snapshot) error {
	buffered := bufio.NewWriterSize(out, 64<<10)
	if _, err := buffered.WriteString(snapshotMagic); err != nil {
		return err
	}
	if err := buffered.WriteByte(snapshotVersion); err != nil {
		return err
	}
	w := &recordWriter{out: buffered}
	w.header(s.Header)
	for l := range s.All() {
		w.lease(l)
	}
	for waiter := range s.AllWaiters() {
		w.waiter(waiter)
	}
	for reg := range s.AllRegisters() {
		w.register(reg)
	}
	for e := range s.Ended() {
		w.ended(e)
	}
	if w.err != nil {
		return w.err
	}
	return buffered.Flush()
}

// ReadSnapshot reads what [WriteSnapshot] wrote and builds the table anew.
func ReadSnapshot(in io.Reader) (*lease.Table, error) {
	r := &recordReader{in: bufio.NewReaderSize(in, 64<<10)}
	head := make([]byte, len(snapshotMagic)+1)
	if _, err := io.ReadFull(r.in, head); err != nil || string(head[:len(snapshotMagic)]) != snapshotMagic {
		return nil, errors.New("this is not a leasehold snapshot")
	}
	if version := head[len(snapshotMagic)]; version != snapshotVersion {
		return nil, fmt.Errorf("the snapshot has version %d, this version of leasehold knows %d", version, snapshotVersion)
	}
	header := r.header()
	table, err := lease.Restore(header, lease.Parts{
		Leases:    records(r, header.Leases, takeLease),
		Waiters:   records(r, header.Waiters, takeWaiter),
		Registers: records(r, header.Registers, takeRegister),
		Ended:     records(r, int(min(header.EndedEver, lease.EndedKept)), takeEnded),
	})
	if r.err != nil {
		return nil, fmt.Errorf("the snapshot is damaged: %w", r.err)
	}
	if err != nil {
		return nil, fmt.Errorf("the snapshot is damaged: %w", err)
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		return nil, errors.New("the snapshot is damaged: it goes on after its end")
	}
	return table, nil
}

type recordWriter struct {
	out *bufio.Writer
	w   writer
	err error
}

func (w *recordWriter) record(fill func(*writer)) {
	w.w.buf = w.w.buf[:0]
	fill(&w.w)
	if w.err != nil {
		return
	}
	size := binary.AppendUvarint(nil, uint64(len(w.w.buf)))
	if _, err := w.out.Write(size); err != nil {
		w.err = err
		return
	}
	_, w.err = w.out.Write(w.w.buf)
}

func (w *recordWriter) header(h lease.Header) {
	w.record(func(w *writer) {
		entry(w, h.Applied)
		w.str(h.ClusterID)
		w.str(h.Leader.Node)
		w.str(h.Leader.Address)
		w.str(h.Leader.ClusterID)
		entry(w, h.LeadEntry)
		w.num(h.EndedEver)
		w.num(uint64(h.Leases))
		w.num(uint64(h.Waiters))
		w.num(uint64(h.Registers))
		w.num(h.Hash)
	})
}

func entry(w *writer, e lease.Entry) {
	w.num(e.Index)
	w.num(e.Term)
	w.num(uint64(e.At))
}

func (w *recordWriter) lease(l *lease.Lease) {
	w.record(func(w *writer) {
		w.str(l.Name)
		w.num(uint64(l.Waiters))
		w.flag(l.Grant != nil)
		if c := l.Cooldown; l.Grant == nil {
			w.num(c.Token)
			w.num(c.Since)
			w.num(millis(c.Delay))
			w.num(uint64(c.At))
			return
		}
		g := l.Grant
		w.num(g.Token)
		w.num(g.Term)
		w.num(g.Renewal)
		w.num(g.Renewals)
		w.str(g.Holder)
		w.str(g.RequestID)
		w.str(g.Value)
		w.num(millis(g.TTL))
		w.num(millis(g.LockDelay))
		w.num(g.Place)
		w.flag(g.Taken)
		w.num(uint64(g.GrantedAt))
		w.num(uint64(g.RenewedAt))
	})
}

func (w *recordWriter) waiter(waiter *lease.Waiter) {
	w.record(func(w *writer) {
		w.str(waiter.Name)
		w.str(waiter.Holder)
		w.str(waiter.RequestID)
		w.num(waiter.Place)
		w.str(waiter.Value)
		w.num(millis(waiter.TTL))
		w.num(millis(waiter.LockDelay))
		w.num(uint64(waiter.QueuedAt))
	})
}

func (w *recordWriter) register(reg *lease.Register) {
	w.record(func(w *writer) {
		w.str(reg.Name)
		w.str(reg.Value)
		w.num(reg.HighestToken)
		w.num(reg.Accepted)
		w.num(reg.Refused)
		w.num(uint64(len(reg.Writes)))
		for _, write := range reg.Writes {
			w.num(write.Index)
			w.num(uint64(write.At))
			w.num(write.Token)
			w.str(write.Lease)
			w.str(string(write.Verdict))
		}
	})
}

func (w *recordWriter) ended(e *lease.Ended) {
	w.record(func(w *writer) {
		w.str(e.Name)
		w.num(e.Token)
		w.str(e.Holder)
		w.str(e.RequestID)
		w.str(string(e.How))
		w.str(e.Reason)
		w.num(e.Index)
		w.num(uint64(e.At))
	})
}

type recordReader struct {
	in  *bufio.Reader
	err error
}

// record reads the next record into fields; what does not add up is in r.err.
func (r *recordReader) record(take func(*reader)) {
	if r.err != nil {
		return
	}
	size, err := binary.ReadUvarint(r.in)
	if err == nil && size > maxRecord {
		err = errMalformed
	}
	if err != nil {
		r.err = err
		return
	}
	fields := &reader{buf: make([]byte, size)}
	if _, r.err = io.ReadFull(r.in, fields.buf); r.err != nil {
		return
	}
	take(fields)
	r.err = fields.done()
}

func (r *recordReader) header() (h lease.Header) {
	r.record(func(f *reader) {
		h.Applied = takeEntry(f)
		h.ClusterID = f.str()
		h.Leader = lease.Lead{Node: f.str(), Address: f.str(), ClusterID: f.str()}
		h.LeadEntry = takeEntry(f)
		h.EndedEver = f.num()
		h.Leases, h.Waiters, h.Registers = int(f.num()), int(f.num()), int(f.num())
		h.Hash = f.num()
	})
	return h
}

func takeEntry(f *reader) lease.Entry {
	return lease.Entry{Index: f.num(), Term: f.num(), At: int64(f.num())}
}

// records reads so many of them, as far as they are well formed.
func records[T any](r *recordReader, count int, take func(*reader) *T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for range count {
			var item *T
			r.record(func(f *reader) { item = take(f) })
			if r.err != nil || !yield(item) {
				return
			}
		}
	}
}

func takeLease(f *reader) *lease.Lease {
	l := &lease.Lease{Name: f.str(), Waiters: int(f.num())}
	if held := f.flag(); !held {
		l.Cooldown = &lease.Cooldown{Token: f.num(), Since: f.num(), Delay: duration(f), At: int64(f.num())}
		return l
	}
	l.Grant = &lease.Grant{
		Token: f.num(), Term: f.num(), Renewal: f.num(), Renewals: f.num(),
		Holder: f.str(), RequestID: f.str(), Value: f.str(),
		TTL: duration(f), LockDelay: duration(f), Place: f.num(), Taken: f.flag(),
		GrantedAt: int64(f.num()), RenewedAt: int64(f.num()),
	}
	return l
}

func takeWaiter(f *reader) *lease.Waiter {
	return &lease.Waiter{
		Name: f.str(), Holder: f.str(), RequestID: f.str(), Place: f.num(), Value: f.str(),
		TTL: duration(f), LockDelay: duration(f), QueuedAt: int64(f.num()),
	}
}

func takeRegister(f *reader) *lease.Register {
	reg := &lease.Register{
		Name: f.str(), Value: f.str(),
		HighestToken: f.num(), Accepted: f.num(), Refused: f.num(),
	}
	writes := f.num()
	if writes > lease.WritesKept {
		f.bad = true
		return reg
	}
	for range writes {
		reg.Writes = append(reg.Writes, lease.RegisterWrite{
			Index: f.num(), At: int64(f.num()), Token: f.num(), Lease: f.str(), Verdict: lease.Verdict(f.str()),
		})
	}
	return reg
}

func takeEnded(f *reader) *lease.Ended {
	return &lease.Ended{
		Name: f.str(), Token: f.num(), Holder: f.str(), RequestID: f.str(),
		How: lease.How(f.str()), Reason: f.str(), Index: f.num(), At: int64(f.num()),
	}
}
