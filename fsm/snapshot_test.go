package fsm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
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
		h.apply(h.draw(rnd))
	}
}

// draw draws a command by what the table holds.
func (h *history) draw(rnd *rand.Rand) lease.Command {
	name, what := fmt.Sprintf("jobs/%d", rnd.IntN(40)), rnd.IntN(14)
	held := h.table.Get(name)
	waiters := slices.Collect(h.table.WaitersOf(name))
	switch {
	case what == 0:
		h.next.Term++
		return lease.Lead{Node: "n2", Address: "n2:8000", ClusterID: "other"}
	case held == nil || what <= 3:
		return lease.Acquire{
			Name: name, Holder: fmt.Sprint("h", rnd.IntN(3)), RequestID: fmt.Sprint("r", rnd.IntN(1000)),
			TTL:       time.Duration(1+rnd.IntN(9000)) * time.Millisecond,
			Wait:      time.Duration(rnd.IntN(3)) * time.Second,
			LockDelay: time.Duration(rnd.IntN(2)*rnd.IntN(60_000)) * time.Millisecond,
			Value:     string(make([]byte, rnd.IntN(20))), Reclaim: what == 3,
		}
	case what == 4:
		return lease.Write{
			Register: fmt.Sprint("register/", rnd.IntN(3)), Value: string(make([]byte, rnd.IntN(20))),
			Token: uint64(rnd.IntN(int(h.next.Index))), Lease: []string{"", "", name}[rnd.IntN(3)],
		}
	case what == 5 && len(waiters) > 0:
		w := waiters[rnd.IntN(len(waiters))]
		return lease.Abandon{Name: name, Holder: w.Holder, RequestID: w.RequestID, Place: w.Place, Reason: lease.ClientGone}
	case held.Cooldown != nil:
		return lease.Reopen{Name: name, Token: held.Cooldown.Token}
	case what <= 7:
		return lease.Renew{Name: name, Holder: held.Grant.Holder, Token: held.Grant.Token}
	case what <= 9:
		return lease.Release{Name: name, Holder: held.Grant.Holder, Token: held.Grant.Token}
	case what == 10:
		return lease.Revoke{Name: name, Token: held.Grant.Token, Reason: fmt.Sprint("reason ", rnd.IntN(9))}
	default:
		return lease.Expire{Name: name, Token: held.Grant.Token, Renewal: held.Grant.Renewal, Term: h.next.Term}
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
	if x, y := slices.Collect(a.AllWaiters()), slices.Collect(b.AllWaiters()); !reflect.DeepEqual(x, y) {
		t.Fatalf("waiters %+v, want %+v", x, y)
	}
	if x, y := slices.Collect(a.AllRegisters()), slices.Collect(b.AllRegisters()); !reflect.DeepEqual(x, y) {
		t.Fatalf("registers %+v, want %+v", x, y)
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
	if h := whole.table.Snapshot().Header; h.Waiters < 5 || h.Registers < 3 || !hasCooling(&whole.table) {
		t.Fatalf("the state is too plain to prove much: %+v", h)
	}
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

func hasCooling(table *lease.Table) bool {
	for l := range table.Ascend("") {
		if l.State() == lease.Cooling {
			return true
		}
	}
	return false
}

// small is a snapshot with a record of every sort, for damage at every place: a
// held lease with and without waiters, one that is cooling, two registers, and
// grants that ended.
func small(t tester) []byte {
	h := history{}
	h.next.Term = 1
	h.apply(lease.Lead{Node: "n1", Address: "n1:8000", ClusterID: "c1"})
	h.apply(lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second, Value: "v"})
	h.apply(lease.Release{Name: "a", Holder: "h", Token: 2})
	h.apply(lease.Acquire{Name: "a", Holder: "h", RequestID: "r2", TTL: 300 * time.Millisecond, LockDelay: time.Second})
	h.apply(lease.Acquire{Name: "b", Holder: "other", RequestID: "r", TTL: time.Second})
	h.apply(lease.Acquire{Name: "a", Holder: "w1", RequestID: "r", TTL: time.Second, Wait: time.Second, LockDelay: time.Second, Value: "v"})
	h.apply(lease.Acquire{Name: "a", Holder: "w2", RequestID: "r", TTL: time.Second, Wait: time.Second})
	h.apply(lease.Acquire{Name: "d", Holder: "h", RequestID: "r", TTL: time.Second, LockDelay: 3 * time.Second})
	h.apply(lease.Acquire{Name: "d", Holder: "w1", RequestID: "r", TTL: time.Second, Wait: time.Second})
	h.apply(lease.Revoke{Name: "d", Token: 8, Reason: "stuck"})
	h.apply(lease.Write{Register: "x", Value: "v", Token: 4, Lease: "a"})
	h.apply(lease.Write{Register: "x", Value: "w", Token: 3})
	h.apply(lease.Write{Register: "y"})
	if s := h.table.Snapshot().Header; s.Leases != 3 || s.Waiters != 3 || s.Registers != 2 || s.EndedEver != 2 || !hasCooling(&h.table) {
		t.Fatalf("the small snapshot is not what it should be: %+v", s)
	}
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

// largest is a state whose records are as large as clients can make them, with a
// register that keeps as many writes as it can.
func largest(t tester) (*lease.Table, []byte) {
	name := func(c string) string { return strings.Repeat(c, lease.MaxNameLen) }
	holder, id := strings.Repeat("h", lease.MaxHolderLen), strings.Repeat("r", lease.MaxRequestIDLen)
	value := strings.Repeat("v", lease.MaxValueLen)
	h := history{}
	h.next = lease.Entry{Index: 1 << 60, Term: 1 << 60, At: 1 << 60}
	acquire := lease.Acquire{Name: name("a"), Holder: holder, RequestID: id, TTL: 1000 * time.Hour, Wait: lease.MaxWait, LockDelay: lease.MaxLockDelay, Value: value}
	token := h.apply(acquire).Lease.Grant.Token
	acquire.RequestID = id[1:]
	h.apply(acquire)
	for range lease.WritesKept {
		h.apply(lease.Write{Register: name("x"), Value: value, Token: token, Lease: name("a")})
	}
	acquire.Name = name("b")
	token = h.apply(acquire).Lease.Grant.Token
	h.apply(lease.Revoke{Name: name("b"), Token: token, Reason: strings.Repeat("w", lease.MaxReasonLen)})
	return &h.table, encode(t, &h.table)
}

// The largest records that clients can make are read again.
func TestSnapshot_RoundTrip_LargestRecords(t *testing.T) {
	want, data := largest(t)
	got, err := fsm.ReadSnapshot(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
}

// A register that keeps 16 writes is where a wrong count could be taken for the
// end of them. Whatever one bit is wrong, it is noticed.
func TestReadSnapshot_FlippedBit_FullRegister(t *testing.T) {
	h := history{}
	h.next.Term = 1
	for i := range uint64(lease.WritesKept) {
		h.apply(lease.Write{Register: "x", Token: i % 3})
	}
	whole := encode(t, &h.table)
	for i := range whole {
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 1 << bit
			if _, err := fsm.ReadSnapshot(bytes.NewReader(damaged)); err == nil {
				t.Errorf("bit %d of byte %d is wrong, and the snapshot is taken", bit, i)
			}
		}
	}
}

// A snapshot by another version, of the future or the past, is refused by its
// number.
func TestReadSnapshot_OtherVersion(t *testing.T) {
	for _, version := range []byte{0, 1, 3, 255} {
		data := small(t)
		data[len("leasehold snapshot")] = version
		_, err := fsm.ReadSnapshot(bytes.NewReader(data))
		if want := fmt.Sprintf("the snapshot has version %d, this version of leasehold knows 2", version); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A snapshot does not grow with the names that came and went, the acquires that
// were refused and the waiters that gave up; only the ring of ended grants stays,
// whose 1,024 records are there before as after.
func TestWriteSnapshot_FreedNamesCostNothing(t *testing.T) {
	names := 50_000
	if testing.Short() {
		names = 5000
	}
	h := history{}
	h.next = lease.Entry{Index: 1 << 20, Term: 1, At: 1 << 41} // so that numbers are as long before as after
	comeAndGo := func(from, to int) {
		for i := from; i < to; i++ {
			name, id := fmt.Sprintf("jobs/%08d", i), fmt.Sprintf("request-%08d", i)
			token := h.apply(lease.Acquire{Name: name, Holder: "alice", RequestID: id, TTL: time.Second, LockDelay: time.Second}).Lease.Grant.Token
			h.apply(lease.Acquire{Name: name, Holder: "bob", RequestID: id, TTL: time.Second})
			place := h.apply(lease.Acquire{Name: name, Holder: "carol", RequestID: id, TTL: time.Second, Wait: time.Second}).Waiter.Place
			h.apply(lease.Abandon{Name: name, Holder: "carol", RequestID: id, Place: place, Reason: lease.WaitOver})
			if i%2 == 0 {
				h.apply(lease.Release{Name: name, Holder: "alice", Token: token})
				continue
			}
			h.apply(lease.Expire{Name: name, Token: token, Renewal: token, Term: 1})
			h.apply(lease.Reopen{Name: name, Token: token})
		}
	}
	comeAndGo(0, lease.EndedKept)
	before := len(encode(t, &h.table))
	comeAndGo(lease.EndedKept, names)
	after := len(encode(t, &h.table))
	// The count of all ended grants may have become a byte longer, and the hash is
	// a number of any length.
	if after > before+16 {
		t.Errorf("the snapshot has grown from %d to %d bytes", before, after)
	}
	if s := h.table.Snapshot().Header; s.Leases != 0 || s.Waiters != 0 || s.EndedEver != uint64(names) {
		t.Errorf("what is left is %+v", s)
	}
}

// Bytes of any kind neither panic nor allocate without bound, and what is
// accepted is a state whose own snapshot is accepted too.
func FuzzReadSnapshot(f *testing.F) {
	f.Add(small(f))
	f.Add(encode(f, new(lease.Table)))
	f.Add([]byte("leasehold snapshot\x01"))
	f.Add([]byte("leasehold snapshot\x02"))
	_, large := largest(f)
	f.Add(large)
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
