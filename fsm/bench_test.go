package fsm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"

	"leasehold/fsm"
	"leasehold/lease"
)

// BenchmarkEncoding compares this package's encoding of the two commands that
// make up most of any log with the two that a Go program would otherwise use:
// JSON, and the msgpack library that comes with Raft. The bytes per entry stand
// beside the times, since every one of them is written to disk on every node.
func BenchmarkEncoding(b *testing.B) {
	acquire := lease.Acquire{
		Name: "jobs/nightly-report", Holder: "worker-17.example.net-4711", RequestID: "0f3a9c1be2d74c55",
		TTL: 10 * time.Second, Value: "10.1.2.3:8443",
	}
	renew := lease.Renew{Name: acquire.Name, Holder: acquire.Holder, Token: 48_211_907}
	b.Run("acquire", func(b *testing.B) { benchmarkEncodings(b, acquire) })
	b.Run("renew", func(b *testing.B) { benchmarkEncodings(b, renew) })
}

func benchmarkEncodings[T lease.Command](b *testing.B, command T) {
	handle := &codec.MsgpackHandle{}
	encodings := []struct {
		name   string
		encode func() []byte
		decode func([]byte) error
	}{
		{
			"leasehold",
			func() []byte { return fsm.EncodeCommand(command) },
			func(data []byte) error { _, err := fsm.DecodeCommand(data); return err },
		},
		{
			"json",
			func() []byte { data, _ := json.Marshal(command); return data },
			func(data []byte) error { var c T; return json.Unmarshal(data, &c) },
		},
		{
			"msgpack",
			func() []byte {
				var out bytes.Buffer
				codec.NewEncoder(&out, handle).Encode(command)
				return out.Bytes()
			},
			func(data []byte) error { var c T; return codec.NewDecoderBytes(data, handle).Decode(&c) },
		},
	}
	for _, e := range encodings {
		data := e.encode()
		b.Run(e.name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.encode()
			}
			b.ReportMetric(float64(len(data)), "bytes/entry")
		})
		b.Run(e.name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := e.decode(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSnapshot measures what a snapshot of a large table costs, off Raft's
// thread: writing it, and restoring it on a follower.
func BenchmarkSnapshot(b *testing.B) {
	var h history
	h.next.Term = 1
	const leases = 100_000
	for i := range leases {
		h.apply(lease.Acquire{Name: "jobs/" + time.Duration(i).String(), Holder: "worker-17-4711", RequestID: "0f3a9c1be2d74c55", TTL: time.Second})
	}
	data := encode(b, &h.table)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			encode(b, &h.table)
		}
		b.ReportMetric(float64(len(data))/leases, "bytes/lease")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, err := fsm.ReadSnapshot(bytes.NewReader(data)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMachine_RenewMany measures what a node does for an entry of many renewals
// among 10,000 leases, per renewal.
func BenchmarkMachine_RenewMany(b *testing.B) {
	const leases = 10_000
	m := fsm.New(fsm.Config{Fail: func(err error) { b.Fatal(err) }})
	index := uint64(0)
	apply := func(c lease.Command) {
		index++
		m.Apply(&raft.Log{Index: index, Term: 1, Data: fsm.EncodeCommand(c), AppendedAt: time.UnixMilli(1)})
	}
	for i := range leases {
		apply(lease.Acquire{Name: fmt.Sprint("jobs/", i), Holder: "worker-17-4711", RequestID: fmt.Sprint(i), TTL: time.Second})
	}
	var entries []lease.RenewMany
	for i := 0; i < leases; i += lease.MaxRenewals {
		many := lease.RenewMany{Holder: "worker-17-4711"}
		for j := i; j < min(i+lease.MaxRenewals, leases); j++ {
			many.Renewals = append(many.Renewals, lease.Renewal{Name: fmt.Sprint("jobs/", j), Token: uint64(j + 1)})
		}
		entries = append(entries, many)
	}
	b.ReportAllocs()
	renewals := 0
	for i := 0; b.Loop(); i++ {
		many := entries[i%len(entries)]
		apply(many)
		renewals += len(many.Renewals)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(renewals), "ns/renewal")
}
