package fsm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"leasehold/fsm"
	"leasehold/lease"
)

// history applies commands to a table at rising indexes.
type history struct {
	table lease.Table
	next  lease.Entry
}

func (h *history) apply(c lease.Command) lease.Result {
	h.next.Index++
	h.next.At += 7
	return h.table.Apply(h.next, c)
}

// grow applies n random commands, most of which succeed.
func (h *history) grow(rnd *rand.Rand, n int) {
	if h.next.Index == 0 {
		h.next.Term = 1
		h.apply(lease.Lead{Node: "n1", Address: "n1:8000", ClusterID: "c"})
	}
	for range n {
		name := fmt.Sprintf("jobs/%d", rnd.IntN(40))
		held := h.table.Get(name)
		switch what := rnd.IntN(10); {
		case what == 0:
			h.next.Term++
			h.apply(lease.Lead{Node: "n2", Address: "n2:8000", ClusterID: "other"})
		case held == nil || what == 1:
			h.apply(lease.Acquire{
				Name: name, Holder: fmt.Sprint("h", rnd.IntN(3)), RequestID: fmt.Sprint("r", rnd.IntN(1000)),
				TTL: time.Duration(1+rnd.IntN(9000)) * time.Millisecond, Value: string(make([]byte, rnd.IntN(20))), Reclaim: what == 2,
			})
		case what < 5:
			h.apply(lease.Renew{Name: name, Holder: held.Grant.Holder, Token: held.Grant.Token})
		case what < 8:
			h.apply(lease.Release{Name: name, Holder: held.Grant.Holder, Token: held.Grant.Token})
		default:
			h.apply(lease.Expire{Name: name, Token: held.Grant.Token, Renewal: held.Grant.Renewal, Term: h.next.Term})
		}
	}
}

func encode(t tester, table *lease.Table) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := fsm.WriteSnapshot(&out, table.Snapshot()); err != nil {
		t.Fatalf("write: %v", err)
	}
	return out.Bytes()
}

// tester is what both *testing.T and *rapid.T offer.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// same fails the test unless both tables hold the same, record by record.
func same(t tester, got, want *lease.Table) {
	t.Helper()
	a, b := got.Snapshot(), want.Snapshot()
	if a.Header != b.Header {
		t.Fatalf("header %+v, want %+v", a.Header, b.Header)
	}
	if x, y := slices.Collect(a.All()), slices.Collect(b.All()); !reflect.DeepEqual(x, y) {
		t.Fatalf("leases %+v, want %+v", x, y)
	}
	if x, y := slices.Collect(a.Ended()), slices.Collect(b.Ended()); !reflect.DeepEqual(x, y) {
		t.Fatalf("ended %+v, want %+v", x, y)
	}
}

// What is restored from a snapshot is the state, and from there on the same
// commands lead to the same states and bytes.
func TestSnapshot_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h history
		seed := rapid.Uint64().Draw(t, "seed")
		h.grow(rand.New(rand.NewPCG(seed, 0)), rapid.IntRange(0, 300).Draw(t, "commands"))
		data := encode(t, &h.table)
		restored, err := fsm.ReadSnapshot(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		same(t, restored, &h.table)

		other := &history{table: *restored, next: h.next}
		h.grow(rand.New(rand.NewPCG(seed, 1)), 50)
		other.grow(rand.New(rand.NewPCG(seed, 1)), 50)
		same(t, &other.table, &h.table)
		if !bytes.Equal(encode(t, &other.table), encode(t, &h.table)) {
			t.Fatalf("equal states have different bytes")
		}
	})
}

// A full ring of ended grants survives a snapshot, and so does the place in it
// where the next one goes.
func TestSnapshot_RoundTrip_FullRing(t *testing.T) {
	var h history
	h.next.Term = 1
	churn := func(h *history, n int) {
		for range n {
			token := h.apply(lease.Acquire{Name: "a", Holder: "h", RequestID: fmt.Sprint(h.next.Index), TTL: time.Second}).Lease.Grant.Token
			h.apply(lease.Release{Name: "a", Holder: "h", Token: token})
		}
	}
	for _, n := range []int{lease.EndedKept - 1, 1, 1, lease.EndedKept/2 + 3} {
		churn(&h, n)
		restored, err := fsm.ReadSnapshot(bytes.NewReader(encode(t, &h.table)))
		if err != nil {
			t.Fatal(err)
		}
		other := &history{table: *restored, next: h.next}
		churn(&h, 5)
		churn(other, 5)
		same(t, &other.table, &h.table)
	}
}

// Equal states have equal bytes, whichever way they were reached: by the log
// alone, or by a snapshot and the rest of the log, or by names that came and
// went in another order of the tree's growth.
func TestWriteSnapshot_DeterministicBytes(t *testing.T) {
	var whole history
	rnd := rand.New(rand.NewPCG(3, 4))
	whole.grow(rnd, 400)
	want := encode(t, &whole.table)
	for cut := range 20 {
		var h history
		rnd := rand.New(rand.NewPCG(3, 4))
		h.grow(rnd, cut*20)
		restored, err := fsm.ReadSnapshot(bytes.NewReader(encode(t, &h.table)))
		if err != nil {
			t.Fatal(err)
		}
		rest := &history{table: *restored, next: h.next}
		rest.grow(rnd, 400-cut*20)
		if got := encode(t, &rest.table); !bytes.Equal(got, want) {
			t.Errorf("by a snapshot after %d commands the bytes differ", cut*20)
		}
	}
	if !bytes.Equal(encode(t, &whole.table), want) {
		t.Error("writing twice gives different bytes")
	}
}

// small is a snapshot with a lease and an ended grant, for damage at every place.
func small(t tester) []byte {
	h := history{}
	h.next.Term = 1
	h.apply(lease.Lead{Node: "n1", Address: "n1:8000", ClusterID: "c1"})
	h.apply(lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second, Value: "v"})
	h.apply(lease.Release{Name: "a", Holder: "h", Token: 2})
	h.apply(lease.Acquire{Name: "a", Holder: "h", RequestID: "r2", TTL: 300 * time.Millisecond})
	h.apply(lease.Acquire{Name: "b", Holder: "other", RequestID: "r", TTL: time.Second})
	return encode(t, &h.table)
}

// A snapshot that is cut short or goes on is an error, at every length.
func TestReadSnapshot_CutOrExtended(t *testing.T) {
	whole := small(t)
	for size := range whole {
		if _, err := fsm.ReadSnapshot(bytes.NewReader(whole[:size])); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a snapshot", size, len(whole))
		}
	}
	if _, err := fsm.ReadSnapshot(bytes.NewReader(append(bytes.Clone(whole), 0))); err == nil {
		t.Error("a snapshot that goes on after its end is accepted")
	}
}

// A snapshot in which any one bit is wrong is an error, never another state.
func TestReadSnapshot_FlippedBit(t *testing.T) {
	whole := small(t)
	for i := range whole {
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 1 << bit
			if table, err := fsm.ReadSnapshot(bytes.NewReader(damaged)); err == nil {
				t.Errorf("with bit %d of byte %d wrong it is taken for %+v", bit, i, table.Snapshot().Header)
			}
		}
	}
}

// A snapshot by a version of the future is refused by its number.
func TestReadSnapshot_OtherVersion(t *testing.T) {
	data := small(t)
	data[len("leasehold snapshot")] = 2
	_, err := fsm.ReadSnapshot(bytes.NewReader(data))
	if want := "the snapshot has version 2, this version of leasehold knows 1"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Bytes of any kind neither panic nor allocate without bound, and what is
// accepted is a state whose own snapshot is accepted too.
func FuzzReadSnapshot(f *testing.F) {
	f.Add(small(f))
	f.Add(encode(f, new(lease.Table)))
	f.Add([]byte("leasehold snapshot\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := fsm.ReadSnapshot(bytes.NewReader(data))
		if err != nil {
			return
		}
		again, err := fsm.ReadSnapshot(bytes.NewReader(encode(t, table)))
		if err != nil {
			t.Fatal(err)
		}
		same(t, again, table)
	})
}
