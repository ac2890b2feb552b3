package lease_test

import (
	"reflect"
	"slices"

	"leasehold/lease"
)

// checkAgrees compares a result, and the whole table after it, with the model.
func (m *model) checkAgrees(t tester, table *lease.Table, r lease.Result, want verdict) {
	t.Helper()
	m.checkVerdict(t, r, want)
	if l := table.Get(r.Name); l != r.Lease {
		t.Fatalf("index %d: the result shows lease %+v, the table has %+v", r.Entry.Index, r.Lease, l)
	}
	if r.Register != nil && r.Register != table.Register(r.Register.Name) {
		t.Fatalf("index %d: the result shows register %+v, the table has another", r.Entry.Index, r.Register)
	}
	if table.ClusterID() != m.cluster {
		t.Fatalf("cluster id %q, the model says %q", table.ClusterID(), m.cluster)
	}
	if table.Applied() != r.Entry {
		t.Fatalf("applied %+v after entry %+v", table.Applied(), r.Entry)
	}
	m.checkLeases(t, table)
	m.checkQueues(t, table)
	m.checkRegisters(t, table)
	m.checkEnded(t, table)
}

func (m *model) checkVerdict(t tester, r lease.Result, want verdict) {
	t.Helper()
	got := verdict{err: r.Err, replayed: r.Replayed, already: r.Already, events: kinds(r)}
	if r.Ended != nil {
		got.ended = r.Ended.Token
	}
	if r.Waiter != nil {
		got.place = r.Waiter.Place
	}
	if got != want {
		t.Fatalf("index %d: got %+v, the model says %+v", r.Entry.Index, got, want)
	}
}

func (m *model) checkLeases(t tester, table *lease.Table) {
	t.Helper()
	index := table.Applied().Index
	if n := len(m.held) + len(m.cooling); table.Len() != n || len(names(table)) != n {
		t.Fatalf("index %d: the table has %d leases, the model %d", index, table.Len(), n)
	}
	for name, g := range m.held {
		l := table.Get(name)
		if l.State() != lease.Held || l.Name != name || *l.Grant != g || l.Cooldown != nil || l.Waiters != len(m.queues[name]) {
			t.Fatalf("index %d: the table has %s as %+v, the model as %+v with %d waiters", index, name, l, g, len(m.queues[name]))
		}
	}
	for name, c := range m.cooling {
		l := table.Get(name)
		if l.State() != lease.Cooling || l.Name != name || *l.Cooldown != c || l.Grant != nil || l.Waiters != len(m.queues[name]) {
			t.Fatalf("index %d: the table has %s as %+v, the model as %+v with %d waiters", index, name, l, c, len(m.queues[name]))
		}
	}
}

func (m *model) checkQueues(t tester, table *lease.Table) {
	t.Helper()
	index, total := table.Applied().Index, 0
	for _, name := range modelNames {
		var got []lease.Waiter
		for w := range table.WaitersOf(name) {
			got = append(got, *w)
			if table.Waiting(w.Name, w.Holder, w.RequestID) != w {
				t.Fatalf("index %d: %+v is in the queue and is not found by its request", index, w)
			}
		}
		if want := m.queues[name]; !slices.Equal(got, want) {
			t.Fatalf("index %d: the queue of %s is %+v, the model says %+v", index, name, got, want)
		}
		total += len(got)
		if g, held := m.held[name]; held && table.Waiting(name, g.Holder, g.RequestID) != nil {
			t.Fatalf("index %d: the request that holds %s waits as well", index, name)
		}
	}
	if table.Waiters() != total {
		t.Fatalf("index %d: the table has %d waiters, the model %d", index, table.Waiters(), total)
	}
}

func (m *model) checkRegisters(t tester, table *lease.Table) {
	t.Helper()
	index := table.Applied().Index
	if table.Registers() != len(m.registers) {
		t.Fatalf("index %d: the table has %d registers, the model %d", index, table.Registers(), len(m.registers))
	}
	for name, want := range m.registers {
		want.Writes = want.Writes[max(0, len(want.Writes)-16):]
		if got := table.Register(name); got == nil || !reflect.DeepEqual(*got, want) {
			t.Fatalf("index %d: register %s is %+v, the model says %+v", index, name, got, want)
		}
	}
}

func (m *model) checkEnded(t tester, table *lease.Table) {
	t.Helper()
	index := table.Applied().Index
	kept := m.ended[max(0, len(m.ended)-1024):]
	last := map[string]*lease.Ended{}
	i := 0
	for e := range table.Ended() {
		if i >= len(kept) || *e != kept[i] {
			t.Fatalf("index %d: ended grant %d is %+v, the model has %d of them", index, i, e, len(kept))
		}
		last[e.Name] = e
		i++
	}
	if i != len(kept) {
		t.Fatalf("index %d: the table remembers %d ended grants, the model %d", index, i, len(kept))
	}
	for _, name := range modelNames {
		if got := table.LastEnded(name); got != last[name] {
			t.Fatalf("index %d: last end of %s is %+v, want %+v", index, name, got, last[name])
		}
	}
}
