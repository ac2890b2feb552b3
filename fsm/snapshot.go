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
//	"leasehold snapshot" version │ header │ leases by name │ ended, oldest first
//
// where the header and every record are a uvarint length and that many bytes.
// The order is part of the format: equal states have equal bytes. Restoring
// recomputes the state hash and compares it with the header's, so a snapshot
// that was cut short or changed on disk is never taken for the state.
const (
	snapshotMagic   = "leasehold snapshot"
	snapshotVersion = 1
	// maxRecord is far above the largest lease: it bounds what a corrupt length
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
	ended := min(header.EndedEver, lease.EndedKept)
	table, err := lease.Restore(header, r.leases(header.Leases), r.ended(ended))
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
		g := l.Grant
		w.str(l.Name)
		w.num(g.Token)
		w.num(g.Term)
		w.num(g.Renewal)
		w.num(g.Renewals)
		w.str(g.Holder)
		w.str(g.RequestID)
		w.str(g.Value)
		w.num(millis(g.TTL))
		w.num(uint64(g.GrantedAt))
		w.num(uint64(g.RenewedAt))
	})
}

func (w *recordWriter) ended(e *lease.Ended) {
	w.record(func(w *writer) {
		w.str(e.Name)
		w.num(e.Token)
		w.str(e.Holder)
		w.str(e.RequestID)
		w.str(string(e.How))
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
		h.Leases = int(f.num())
		h.Hash = f.num()
	})
	return h
}

func takeEntry(f *reader) lease.Entry {
	return lease.Entry{Index: f.num(), Term: f.num(), At: int64(f.num())}
}

func (r *recordReader) leases(count int) iter.Seq[*lease.Lease] {
	return func(yield func(*lease.Lease) bool) {
		for range count {
			l := &lease.Lease{Grant: new(lease.Grant)}
			r.record(func(f *reader) {
				g := l.Grant
				l.Name = f.str()
				g.Token, g.Term, g.Renewal, g.Renewals = f.num(), f.num(), f.num(), f.num()
				g.Holder, g.RequestID, g.Value = f.str(), f.str(), f.str()
				g.TTL = duration(f)
				g.GrantedAt, g.RenewedAt = int64(f.num()), int64(f.num())
			})
			if r.err != nil || !yield(l) {
				return
			}
		}
	}
}

func (r *recordReader) ended(count uint64) iter.Seq[*lease.Ended] {
	return func(yield func(*lease.Ended) bool) {
		for range count {
			e := new(lease.Ended)
			r.record(func(f *reader) {
				e.Name, e.Token = f.str(), f.num()
				e.Holder, e.RequestID, e.How = f.str(), f.str(), lease.How(f.str())
				e.Index, e.At = f.num(), int64(f.num())
			})
			if r.err != nil || !yield(e) {
				return
			}
		}
	}
}
