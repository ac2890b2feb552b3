package lease_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"leasehold/lease"
)

const benchLeases = 100_000

// filled returns a table with n leases and the next entry.
func filled(n int) (*lease.Table, lease.Entry) {
	table, e := &lease.Table{}, lease.Entry{Index: 1, Term: 1, At: 1_790_000_000_000}
	fill(table, &e, n)
	return table, e
}

// BenchmarkTable_AcquireRelease measures two entries beside 100,000 leases.
func BenchmarkTable_AcquireRelease(b *testing.B) {
	table, e := filled(benchLeases)
	b.ReportAllocs()
	for b.Loop() {
		token := e.Index
		table.Apply(e, lease.Acquire{Name: "jobs/nightly", Holder: "alice", RequestID: fmt.Sprint(token), TTL: time.Second})
		e.Index++
		if r := table.Apply(e, lease.Release{Name: "jobs/nightly", Holder: "alice", Token: token}); r.Err != nil {
			b.Fatal(r.Err)
		}
		e.Index++
	}
}

// BenchmarkTable_Renew measures one renewal among 100,000 leases.
func BenchmarkTable_Renew(b *testing.B) {
	table, e := filled(benchLeases)
	renewals := make([]lease.Renew, 0, benchLeases)
	for l := range table.Ascend("") {
		renewals = append(renewals, lease.Renew{Name: l.Name, Holder: l.Grant.Holder, Token: l.Grant.Token})
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if r := table.Apply(e, renewals[i*7919%benchLeases]); r.Err != nil {
			b.Fatal(r.Err)
		}
		i++
		e.Index++
	}
}

// BenchmarkTable_Renew_AfterSnapshot measures a renewal when each meets a fresh
// snapshot and so has to copy its path in the tree: the worst case.
func BenchmarkTable_Renew_AfterSnapshot(b *testing.B) {
	table, e := filled(benchLeases)
	l := table.Get(fillName(benchLeases / 2))
	b.ReportAllocs()
	for b.Loop() {
		table.Snapshot()
		table.Apply(e, lease.Renew{Name: l.Name, Holder: l.Grant.Holder, Token: l.Grant.Token})
		e.Index++
	}
}

// BenchmarkTable_Snapshot must not depend on the number of leases.
func BenchmarkTable_Snapshot(b *testing.B) {
	for _, n := range []int{0, 1_000, benchLeases} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table, _ := filled(n)
			b.ReportAllocs()
			for b.Loop() {
				table.Snapshot()
			}
		})
	}
}

// BenchmarkTable_Hash measures what a node pays to publish its hash.
func BenchmarkTable_Hash(b *testing.B) {
	table, _ := filled(benchLeases)
	b.ReportAllocs()
	for b.Loop() {
		table.Hash()
	}
}

// BenchmarkTable_Memory reports what a lease costs, strings included.
func BenchmarkTable_Memory(b *testing.B) {
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var perLease float64
	for b.Loop() {
		before := live()
		table, _ := filled(benchLeases)
		perLease = float64(live()-before) / benchLeases
		runtime.KeepAlive(table)
	}
	b.ReportMetric(perLease, "B/lease")
}
