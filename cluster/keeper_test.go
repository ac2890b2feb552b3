package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"leasehold/lease"
)

// bench holds a keeper, and plays Raft and the state machine for it: proposals
// are applied to a real table, one after the other, after a delay.
type bench struct {
	t      testing.TB
	keeper *keeper
	stop   func()
	fates  sync.WaitGroup // of proposals

	mu        sync.Mutex // guards what follows
	table     lease.Table
	next      lease.Entry
	delay     time.Duration // from proposal to outcome
	failing   bool          // proposals come to nothing
	proposed  []proposedExpire
	others    []proposedOther
	pending   int // proposals without an outcome
	maxInside int
}

type proposedExpire struct {
	lease.Expire
	at time.Time
}

type proposedOther struct {
	lease.Command
	at time.Time
}

const benchTerm = 3

// newBench makes a keeper that runs until the test ends. Call it in a bubble.
func newBench(t testing.TB) *bench {
	b := &bench{t: t, next: lease.Entry{Index: 100, Term: benchTerm}}
	ctx, cancel := context.WithCancel(context.Background())
	clock := newLeaseClock(nil)
	b.keeper = newKeeper(clock, b.propose)
	var running sync.WaitGroup
	b.stop = func() { cancel(); running.Wait(); b.fates.Wait() }
	t.Cleanup(b.stop)
	b.keeper.begin(benchTerm, b.table.Snapshot())
	running.Go(func() { clock.run(ctx) })
	running.Go(func() { b.keeper.run(ctx) })
	return b
}

func (b *bench) propose(c lease.Command, done func(bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := c.(lease.Expire); ok {
		b.proposed = append(b.proposed, proposedExpire{e, time.Now()})
	} else {
		b.others = append(b.others, proposedOther{c, time.Now()})
	}
	b.pending++
	b.maxInside = max(b.maxInside, b.pending)
	delay, failing := b.delay, b.failing
	b.fates.Go(func() {
		time.Sleep(delay)
		if !failing {
			b.apply(c)
		}
		b.mu.Lock()
		b.pending--
		b.mu.Unlock()
		done(!failing)
	})
}

// apply applies a command now, and lets the keeper see it.
func (b *bench) apply(c lease.Command) lease.Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next.Index++
	r := b.table.Apply(b.next, c)
	b.keeper.observe(r)
	return r
}

func (b *bench) acquire(name string, ttl time.Duration) *lease.Grant {
	b.t.Helper()
	r := b.apply(lease.Acquire{Name: name, Holder: "h", RequestID: fmt.Sprint(b.next.Index), TTL: ttl})
	if r.Err != nil {
		b.t.Fatalf("acquire %s: %v", name, r.Err)
	}
	return r.Lease.Grant
}

func (b *bench) renew(name string, g *lease.Grant, ttl time.Duration) error {
	return b.apply(lease.Renew{Name: name, Holder: g.Holder, Token: g.Token, TTL: ttl}).Err
}

// proposals returns when Expire entries for the name were proposed.
func (b *bench) proposals(name string) []time.Time {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	var times []time.Time
	for _, p := range b.proposed {
		if p.Name == name {
			times = append(times, p.at)
		}
	}
	return times
}

// once fails the test unless one Expire for the name was proposed, at that time.
func (b *bench) once(name string, want time.Time) {
	b.t.Helper()
	got := b.proposals(name)
	if len(got) != 1 || !got[0].Equal(want) {
		b.t.Errorf("the expiry of %s was proposed at %v, want once, at %v", name, got, want)
	}
}

// get returns the lease of that name, nil if it is free.
func (b *bench) get(name string) *lease.Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.table.Get(name)
}

func (b *bench) held(name string) bool { return b.get(name) != nil }

// A lease that is not renewed is expired when its TTL is over: no nanosecond
// earlier or later in a process that runs, and exactly once.
func TestKeeper_Deadline_Exact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ttls := map[string]time.Duration{"a": 1234 * time.Millisecond, "b": 100 * time.Millisecond, "c": 49 * time.Millisecond, "d": time.Hour}
		start := time.Now()
		for name, ttl := range ttls {
			b.acquire(name, ttl)
		}
		time.Sleep(2 * time.Hour)
		for name, ttl := range ttls {
			b.once(name, start.Add(ttl))
			if b.held(name) {
				t.Errorf("%s is still held", name)
			}
		}
	})
}

// A renewal moves the deadline to a whole TTL from when it was applied.
func TestKeeper_Renew_MovesDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		g := b.acquire("a", time.Second)
		for range 20 {
			time.Sleep(999 * time.Millisecond)
			if err := b.renew("a", g, 0); err != nil {
				t.Fatal(err)
			}
		}
		renewed := time.Now()
		time.Sleep(10 * time.Second)
		b.once("a", renewed.Add(time.Second))
	})
}

// A renewal with another TTL counts from then on, be it shorter or longer.
func TestKeeper_Renew_OtherTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		shorter, longer := b.acquire("shorter", time.Minute), b.acquire("longer", time.Second)
		b.acquire("between", 10*time.Second)
		time.Sleep(900 * time.Millisecond)
		renewed := time.Now()
		if err := b.renew("shorter", shorter, 200*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := b.renew("longer", longer, time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		b.once("shorter", renewed.Add(200*time.Millisecond))
		b.once("longer", renewed.Add(time.Minute))
		b.once("between", renewed.Add(10*time.Second-900*time.Millisecond))
	})
}

// While a renewal is on its way its lease does not expire; when it has failed,
// the expiry follows at once.
func TestKeeper_RenewalInFlight_HoldsExpiryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		g := b.acquire("a", time.Second)
		start := time.Now()
		time.Sleep(900 * time.Millisecond)
		one, two := b.keeper.renewing(lease.Renewal{Name: "a", Token: g.Token}), b.keeper.renewing(lease.Renewal{Name: "a", Token: g.Token})
		time.Sleep(900 * time.Millisecond)
		one()
		time.Sleep(200 * time.Millisecond) // two is still on its way
		b.keeper.proposeIfDue("a")
		if got := b.proposals("a"); len(got) != 0 {
			t.Fatalf("expired at %v although a renewal was on its way", got)
		}
		two()
		b.once("a", start.Add(2*time.Second))
	})
}

// A renewal that was on its way when the deadline passed and then succeeds keeps
// the lease for a whole TTL more.
func TestKeeper_RenewalInFlight_Succeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		g := b.acquire("a", time.Second)
		time.Sleep(999 * time.Millisecond)
		known := b.keeper.renewing(lease.Renewal{Name: "a", Token: g.Token})
		time.Sleep(700 * time.Millisecond)
		if err := b.renew("a", g, 0); err != nil {
			t.Fatal(err)
		}
		renewed := time.Now()
		known()
		time.Sleep(10 * time.Second)
		b.once("a", renewed.Add(time.Second))
	})
}

// A renewal of a grant that is over neither holds back the grant that came
// after it, nor disturbs the keeper when its outcome is known.
func TestKeeper_RenewalInFlight_OfAnotherGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		old := b.acquire("a", time.Second)
		known := b.keeper.renewing(lease.Renewal{Name: "a", Token: old.Token})
		b.apply(lease.Release{Name: "a", Holder: "h", Token: old.Token})
		b.acquire("a", time.Second)
		start := time.Now()
		b.keeper.renewing(lease.Renewal{Name: "a", Token: old.Token}) // arrives now: a renewal with a dead token
		b.keeper.renewing(lease.Renewal{Name: "never held", Token: 1})()
		time.Sleep(1500 * time.Millisecond)
		b.once("a", start.Add(time.Second))
		known()
	})
}

// An expiry that did not get into the log is proposed again until it does.
func TestKeeper_FailedProposal_IsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.failing, b.delay = true, 7*time.Millisecond
		b.acquire("a", time.Second)
		start := time.Now()
		time.Sleep(2 * time.Second)
		tries := b.proposals("a")
		if want := int(time.Second / (proposalRetry + b.delay)); len(tries) < want || len(tries) > want+1 {
			t.Errorf("%d tries in a second, want about %d", len(tries), want)
		}
		for i, at := range tries {
			if want := start.Add(time.Second + time.Duration(i)*(proposalRetry+b.delay)); !at.Equal(want) {
				t.Errorf("try %d at %v, want %v", i+1, at, want)
			}
		}
		b.mu.Lock()
		b.failing = false
		b.mu.Unlock()
		time.Sleep(time.Second)
		if b.held("a") {
			t.Error("the lease is still held")
		}
		after := len(b.proposals("a"))
		time.Sleep(time.Second)
		if again := len(b.proposals("a")); again != after {
			t.Errorf("%d more proposals after one was applied", again-after)
		}
	})
}

// A renewal that is applied while expiries fail ends their repetition.
func TestKeeper_FailedProposal_UntilMoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.failing, b.delay = true, 20*time.Millisecond
		g := b.acquire("a", time.Second)
		time.Sleep(time.Second + 10*time.Millisecond) // one is on its way
		if err := b.renew("a", g, 0); err != nil {
			t.Fatal(err)
		}
		renewed := time.Now()
		tried := len(b.proposals("a"))
		b.mu.Lock()
		b.failing = false
		b.mu.Unlock()
		time.Sleep(time.Second - time.Nanosecond)
		if got := len(b.proposals("a")); got != tried {
			t.Errorf("%d proposals before the new deadline", got-tried)
		}
		time.Sleep(time.Nanosecond)
		if got := b.proposals("a"); len(got) != tried+1 || !got[tried].Equal(renewed.Add(time.Second)) {
			t.Errorf("proposed at %v, want the last at %v", got[tried:], renewed.Add(time.Second))
		}
	})
}

// An Expire that the log overtook by a renewal is moot, and does not make the
// keeper forget the renewal's deadline.
func TestKeeper_MootExpiry_KeepsNewerDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.delay = 300 * time.Millisecond
		g := b.acquire("a", time.Second)
		time.Sleep(1100 * time.Millisecond) // its Expire is on its way
		if err := b.renew("a", g, 0); err != nil {
			t.Fatal(err)
		}
		renewed := time.Now()
		time.Sleep(900 * time.Millisecond)
		if !b.held("a") {
			t.Fatal("the Expire took effect behind the renewal")
		}
		if b.keeper.remaining(b.get("a")) != 100*time.Millisecond {
			t.Error("the keeper has lost the deadline")
		}
		time.Sleep(10 * time.Second)
		if got := b.proposals("a"); len(got) != 2 || !got[1].Equal(renewed.Add(time.Second)) {
			t.Errorf("proposed at %v, want the second at %v", got, renewed.Add(time.Second))
		}
		if b.held("a") {
			t.Error("the lease never ends")
		}
	})
}

// Whoever comes after the deadline has the Expire proposed, once, before going
// on; before the deadline nothing is proposed.
func TestKeeper_ProposeIfDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.stop() // the keeper itself does nothing from here on
		b.delay = 10 * time.Millisecond
		b.acquire("a", 50*time.Millisecond)
		b.keeper.proposeIfDue("a")
		b.keeper.proposeIfDue("unheard of")
		time.Sleep(50*time.Millisecond - 1)
		b.keeper.proposeIfDue("a")
		if len(b.proposed) != 0 {
			t.Fatalf("proposed %v before the deadline", b.proposed)
		}
		time.Sleep(1 * time.Nanosecond)
		for range 5 {
			b.keeper.proposeIfDue("a")
			if len(b.proposed) != 1 {
				t.Fatalf("%d proposals when it returned, want 1", len(b.proposed))
			}
		}
		time.Sleep(20 * time.Millisecond)
		if b.held("a") {
			t.Error("the lease is still held")
		}
	})
}

// When the keeper is itself just about to propose the Expire, an acquire waits
// until that has been done, or it would get into the log first and be refused.
func TestKeeper_ProposeIfDue_WaitsForTheProposalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		var k *keeper
		var mu sync.Mutex
		note := func(what string) { mu.Lock(); defer mu.Unlock(); order = append(order, what) }
		k = newKeeper(newLeaseClock(nil), func(c lease.Command, done func(bool)) {
			time.Sleep(10 * time.Millisecond) // Raft's queue is full
			note("expire")
			go done(true)
		})
		k.begin(1, new(lease.Table).Snapshot())
		k.observe(lease.Result{Name: "a", Lease: &lease.Lease{Name: "a", Grant: &lease.Grant{Token: 5, Renewal: 5, TTL: 50 * time.Millisecond}}})
		time.Sleep(50 * time.Millisecond)
		go k.proposeDue(t.Context())
		synctest.Wait() // it is in propose now
		k.proposeIfDue("a")
		note("acquire")
		if !slices.Equal(order, []string{"expire", "acquire"}) {
			t.Errorf("the order is %v", order)
		}
		synctest.Wait()
	})
}

// However many leases run out together, proposalsInFlight are on their way at
// most, and all of them end.
func TestKeeper_Storm_BoundedInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.delay = 5 * time.Millisecond
		const leases = 5000
		for i := range leases {
			b.acquire(fmt.Sprint("l/", i), time.Second)
		}
		time.Sleep(5 * time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.maxInside != proposalsInFlight {
			t.Errorf("%d expiries were on their way at once, want %d", b.maxInside, proposalsInFlight)
		}
		if b.table.Len() != 0 || len(b.proposed) != leases {
			t.Errorf("%d leases are left after %d proposals, want 0 and %d", b.table.Len(), len(b.proposed), leases)
		}
	})
}

// So it is with lock delays that end together, and with waiters whose clients do
// not come back to a new leader: each is dealt with by one entry, in bounds.
func TestKeeper_Storm_OtherKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		const each = 3000
		for i := range each {
			cooling, waited := fmt.Sprint("c/", i), fmt.Sprint("w/", i)
			b.apply(lease.Acquire{Name: cooling, Holder: "h", RequestID: "r", TTL: time.Hour, LockDelay: 2 * time.Second})
			b.apply(lease.Revoke{Name: cooling, Token: b.next.Index, Reason: "test"})
			b.acquire(waited, time.Hour)
			b.apply(lease.Acquire{Name: waited, Holder: "gone", RequestID: "r", TTL: time.Hour, Wait: time.Minute})
		}
		b.stop()

		ctx, cancel := context.WithCancel(t.Context())
		clock := newLeaseClock(nil)
		b.keeper = newKeeper(clock, b.propose)
		b.delay, b.maxInside, b.others = 5*time.Millisecond, 0, nil
		begun := time.Now()
		b.keeper.begin(benchTerm, b.table.Snapshot())
		var running sync.WaitGroup
		running.Go(func() { clock.run(ctx) })
		running.Go(func() { b.keeper.run(ctx) })
		time.Sleep(20 * time.Second)
		cancel()
		running.Wait()
		b.fates.Wait()

		if b.maxInside != proposalsInFlight {
			t.Errorf("%d were on their way at once, want %d", b.maxInside, proposalsInFlight)
		}
		if b.table.Len() != each || b.table.Waiters() != 0 || len(b.proposed) != 0 {
			t.Errorf("%d leases and %d waiters are left, %d expiries were proposed", b.table.Len(), b.table.Waiters(), len(b.proposed))
		}
		kinds := map[string]int{}
		for _, p := range b.others {
			kind, due := fmt.Sprintf("%T", p.Command), waitGrace
			if kind == "lease.Reopen" {
				due = 2 * time.Second
			}
			if after := p.at.Sub(begun); after < due || after > due+time.Second {
				t.Fatalf("%+v was proposed after %v, want %v", p.Command, after, due)
			}
			kinds[kind]++
		}
		if kinds["lease.Reopen"] != each || kinds["lease.Abandon"] != each || len(kinds) != 2 {
			t.Errorf("proposed were %v, want %d of each", kinds, each)
		}
	})
}

// A keeper ends with its leadership also when a storm of expiries fails again
// and again, because Raft takes no more proposals.
func TestKeeper_Run_EndsInAStormOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(newLeaseClock(nil), func(_ lease.Command, done func(bool)) {
			time.Sleep(time.Millisecond) // the CPU time of a try, so to speak
			done(false)
		})
		k.begin(1, new(lease.Table).Snapshot())
		for i := range uint64(100) { // 100 tries take longer than proposalRetry
			name := fmt.Sprint(i)
			k.observe(lease.Result{Name: name, Lease: &lease.Lease{Name: name, Grant: &lease.Grant{Token: i + 1, Renewal: i + 1, TTL: time.Millisecond}}})
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); k.run(ctx) }()
		time.Sleep(time.Second)
		cancel()
		select {
		case <-ended:
		case <-time.After(time.Second):
			t.Fatal("the keeper still runs a second after its leadership ended")
		}
	})
}

// At the start of a term every lease has its whole TTL again, in whichever order
// the state and the entries after it reach the keeper.
func TestKeeper_Begin_FullTTL_WhileEntriesAreApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		const leases = 5000
		grants := make([]*lease.Grant, leases)
		for i := range leases {
			grants[i] = b.acquire(fmt.Sprint("l/", i), time.Minute)
		}
		time.Sleep(59 * time.Second) // in the old term nearly all is over
		b.stop()

		ctx, cancel := context.WithCancel(t.Context())
		clock := newLeaseClock(nil)
		b.keeper = newKeeper(clock, b.propose)
		b.proposed = nil
		state := b.table.Snapshot()
		begun := time.Now()
		var running sync.WaitGroup
		running.Go(func() { b.keeper.begin(benchTerm, state) })
		rnd := rand.New(rand.NewPCG(1, 2))
		released := map[int]bool{}
		running.Go(func() {
			for range 1000 { // as Raft's thread does meanwhile
				i := rnd.IntN(leases)
				if released[i] {
					continue
				}
				if rnd.IntN(2) == 0 {
					released[i] = true
					b.apply(lease.Release{Name: fmt.Sprint("l/", i), Holder: "h", Token: grants[i].Token})
				} else if err := b.renew(fmt.Sprint("l/", i), grants[i], 30*time.Second); err != nil {
					t.Error(err)
				}
			}
		})
		running.Wait()
		running.Go(func() { clock.run(ctx) })
		running.Go(func() { b.keeper.run(ctx) })
		time.Sleep(2 * time.Minute)
		cancel()
		running.Wait()

		for _, p := range b.proposed {
			i := slices.IndexFunc(grants, func(g *lease.Grant) bool { return g.Token == p.Token })
			ttl := time.Minute
			if p.Renewal != p.Token {
				ttl = 30 * time.Second
			}
			if got := p.at.Sub(begun); got != ttl {
				t.Errorf("%s (released: %v) is expired %v after the term began, want %v", p.Name, released[i], got, ttl)
			}
		}
		if left := b.table.Len(); left != 0 {
			t.Errorf("%d leases were never expired", left)
		}
	})
}

// What was applied on the way to a term, before its first entry, has its full TTL
// from the beginning of the term as well.
func TestKeeper_Begin_RestartsWhatWasAppliedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(newLeaseClock(nil), nil)
		var table lease.Table
		k.observe(table.Apply(lease.Entry{Index: 7, Term: 1}, lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second}))
		time.Sleep(70 * time.Millisecond) // the entries after it
		k.begin(2, table.Snapshot())
		if got := k.remaining(table.Get("a")); got != time.Second {
			t.Errorf("%v remain at the beginning of the term, want the full TTL", got)
		}
	})
}

// A pause of the whole process costs the leases clockMaxStep at most: their
// holders, whose renewals wait in the socket, come first.
func TestKeeper_Pause_DoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.stop() // nothing of the process runs
		b.acquire("a", time.Second)
		time.Sleep(time.Hour)
		if sleep := b.keeper.proposeDue(t.Context()); len(b.proposed) != 0 || sleep > keeperMaxSleep {
			t.Errorf("after the pause %d expiries were proposed; it sleeps %v", len(b.proposed), sleep)
		}
		if got, want := b.keeper.remaining(b.get("a")), time.Second-clockMaxStep; got != want {
			t.Errorf("%v remain, want %v", got, want)
		}
	})
}

// Against a model that knows only when each grant was last renewed: no Expire is
// proposed early, none late, none twice, and every silent lease ends, whatever
// the mix of acquires, renewals in flight, releases and failing proposals.
func TestKeeper_Model(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) modelStep {
			return modelStep{
				what: rapid.IntRange(0, 6).Draw(t, "what"),
				name: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "name")),
				ttl:  time.Duration(rapid.IntRange(1, 40).Draw(t, "ttl")) * 10 * time.Millisecond,
				wait: time.Duration(rapid.IntRange(0, 25).Draw(t, "wait")) * 10 * time.Millisecond,
			}
		}), 1, 60).Draw(rt, "steps")
		finding := ""
		synctest.Test(t, func(t *testing.T) { finding = runModel(t, steps) })
		if finding != "" { // outside of the bubble, where rapid can shrink it
			rt.Fatal(finding)
		}
	})
}

type modelStep struct {
	what      int
	name      string
	ttl, wait time.Duration
}

// runModel plays the steps and returns what is wrong, empty if nothing is.
func runModel(t *testing.T, steps []modelStep) string {
	b := newBench(t)
	b.delay = 3 * time.Millisecond
	due := make(map[uint64]time.Time)      // by renewal
	inFlight := make(map[string][]func())  // renewals
	released := make(map[uint64]time.Time) // by token: since when no renewal is on its way
	note := func(r lease.Result) {
		if r.Err == nil && r.Lease != nil {
			due[r.Lease.Grant.Renewal] = time.Now().Add(r.Lease.Grant.TTL)
		}
	}
	settle := func(name string) {
		for _, known := range inFlight[name] {
			known()
		}
		if held := b.get(name); held != nil && len(inFlight[name]) > 0 {
			released[held.Grant.Token] = time.Now()
		}
		delete(inFlight, name)
	}
	for i, s := range steps {
		synctest.Wait()
		held := b.get(s.name)
		switch {
		case s.what == 0 || held == nil:
			settle(s.name)
			b.keeper.proposeIfDue(s.name)
			note(b.apply(lease.Acquire{Name: s.name, Holder: "h", RequestID: fmt.Sprint(i), TTL: s.ttl}))
		case s.what == 1:
			note(b.apply(lease.Renew{Name: s.name, Holder: "h", Token: held.Grant.Token}))
		case s.what == 2:
			note(b.apply(lease.Renew{Name: s.name, Holder: "h", Token: held.Grant.Token, TTL: s.ttl}))
		case s.what == 3:
			b.apply(lease.Release{Name: s.name, Holder: "h", Token: held.Grant.Token})
			settle(s.name)
		case s.what == 4:
			inFlight[s.name] = append(inFlight[s.name], b.keeper.renewing(lease.Renewal{Name: s.name, Token: held.Grant.Token}))
		case s.what == 5:
			settle(s.name)
		case s.what == 6:
			b.mu.Lock()
			b.failing = !b.failing
			b.mu.Unlock()
		}
		time.Sleep(s.wait)
	}
	synctest.Wait()
	for name := range inFlight {
		settle(name)
	}
	b.mu.Lock()
	b.failing = false
	b.mu.Unlock()
	time.Sleep(2 * time.Second)
	b.stop()

	if left := b.table.Len(); left != 0 {
		return fmt.Sprintf("%d leases never ended", left)
	}
	if len(b.keeper.byID) != 0 || b.keeper.queue.Len() != 0 || b.keeper.inFlight != 0 {
		return fmt.Sprintf("the keeper still holds %d names, %d deadlines, %d expiries", len(b.keeper.byID), b.keeper.queue.Len(), b.keeper.inFlight)
	}
	last := make(map[uint64]time.Time)
	for _, p := range b.proposed {
		deadline, known := due[p.Renewal]
		if !known {
			return fmt.Sprintf("%+v speaks of a renewal that never was", p)
		}
		if p.at.Before(deadline) {
			return fmt.Sprintf("%+v was proposed %v early", p, deadline.Sub(p.at))
		}
		if again, twice := last[p.Renewal]; twice && p.at.Sub(again) < b.delay {
			return fmt.Sprintf("%+v was proposed twice within %v", p, p.at.Sub(again))
		}
		if _, twice := last[p.Renewal]; !twice {
			if free := released[p.Token]; free.After(deadline) {
				deadline = free
			}
			// A moment of trying again may still be due from an older failure.
			if late := p.at.Sub(deadline); late > proposalRetry {
				return fmt.Sprintf("%+v was first proposed %v late", p, late)
			}
		}
		last[p.Renewal] = p.at
	}
	return ""
}
