package check_test

import (
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"leasehold/fsm"
	"leasehold/lease"
	"leasehold/torture/history"
)

// simulation is a small cluster and its clients on a simulated clock: the real table,
// one entry at a time, behind a network that delays and loses. What it records
// is a right history by construction.
type simulation struct {
	rng *rand.Rand
	rec *history.Recorder
	now time.Duration
	due timers

	table       lease.Table
	index, term uint64
	follower    lease.Table
	log         []history.Entry // not yet applied by the follower
	waiting     map[history.Attempt][]*flight
	ids         int
	length      time.Duration
	pace        int // milliseconds between the actions of a client, at most
	snapshotAt  uint64
	start       *history.Start // the state at that index
	busy        bool           // many calls: less is lost, waited for and paused, and the network is quick
}

const (
	simLength  = 12 * time.Second
	simTimeout = 700 * time.Millisecond
)

var simNames = []string{"a", "b", "jobs/c", "jobs/d"}

// simulate runs clients for some seconds and returns what they saw.
func simulate(seed uint64) *history.History {
	w := &simulation{rng: rand.New(rand.NewPCG(seed, 7)), rec: history.NewRecorder(nil), term: 1, waiting: make(map[history.Attempt][]*flight), length: simLength}
	w.rec.Add(history.Run{Title: "simulated", Seed: seed})
	return w.run(6, 150)
}

// run lets so many clients act until the time is over.
func (w *simulation) run(clients, pace int) *history.History {
	w.pace = pace
	w.lead()
	for i := range clients {
		c := &simClient{w: w, name: fmt.Sprintf("c%d", i), tokens: map[string]uint64{}, ttls: map[string]time.Duration{}}
		w.after(w.between(0, 100), c.act)
	}
	w.after(w.between(2000, 4000), w.changeLeader)
	w.after(50*time.Millisecond, w.sample)
	w.after(500*time.Millisecond, w.probe)
	for w.due.Len() > 0 {
		next := heap.Pop(&w.due).(timer)
		w.now = next.at
		next.do()
	}
	w.catchUp(len(w.log))
	w.sampleNode("n1", &w.table)
	w.sampleNode("n2", &w.follower)
	w.rec.Add(history.End{At: w.now, LogComplete: true})
	return w.rec.History()
}

func (w *simulation) between(lo, hi int) time.Duration {
	return time.Duration(lo*1000+w.rng.IntN((hi-lo)*1000)) * time.Microsecond
}

func (w *simulation) chance(percent int) bool { return w.rng.IntN(100) < percent }

// trouble is a chance that is small in a busy run.
func (w *simulation) trouble(percent int) bool {
	if w.busy {
		return w.rng.IntN(3000) < percent
	}
	return w.chance(percent)
}

// hop is how long a message takes.
func (w *simulation) hop() time.Duration {
	if w.busy {
		return w.between(1, 4)
	}
	return w.between(1, 30)
}

func (w *simulation) after(d time.Duration, do func()) {
	w.ids++
	heap.Push(&w.due, timer{w.now + d, w.ids, do})
}

// over says whether clients are to stop. What is under way comes to its end.
func (w *simulation) over() bool { return w.now > w.length }

// apply commits a command and follows what it does: deadlines are set, waiters
// are answered.
func (w *simulation) apply(c lease.Command) lease.Result {
	w.index++
	e := history.Entry{Node: "n1", Index: w.index, Term: w.term, At: 1_700_000_000_000 + w.now.Milliseconds(), Kind: "command", Command: c}
	w.rec.Add(e)
	w.log = append(w.log, e)
	if w.chance(70) {
		w.catchUp(w.rng.IntN(len(w.log) + 1))
	}
	r := w.table.Apply(lease.Entry{Index: e.Index, Term: e.Term, At: e.At}, c)
	if e.Index == w.snapshotAt {
		var data bytes.Buffer
		if err := fsm.WriteSnapshot(&data, w.table.Snapshot()); err != nil {
			panic(err)
		}
		w.start = &history.Start{Node: "n1", Index: e.Index, Snapshot: data.Bytes()}
	}
	w.arm(r.Lease)
	for _, one := range r.Each {
		w.arm(one.Lease)
	}
	for _, ev := range r.Events {
		a := history.Attempt{Name: ev.Name, Holder: ev.Holder, RequestID: ev.RequestID}
		if (ev.Kind == lease.KindGranted && ev.Place != 0) || ev.Kind == lease.KindAbandoned {
			for _, f := range w.waiting[a] {
				f.settle(r)
			}
			delete(w.waiting, a)
		}
	}
	return r
}

func (w *simulation) catchUp(n int) {
	for _, e := range w.log[:n] {
		if e.Command != nil {
			w.follower.Apply(lease.Entry{Index: e.Index, Term: e.Term, At: e.At}, e.Command)
		}
	}
	w.log = w.log[n:]
}

// arm sets the deadline of a lease. It holds only for this term.
func (w *simulation) arm(l *lease.Lease) {
	term := w.term
	switch l.State() {
	case lease.Held:
		g := l.Grant
		w.after(g.TTL+w.between(0, 40), func() {
			if live := w.table.Get(l.Name).Live(g.Token); live != nil && live.Renewal == g.Renewal && w.term == term {
				w.apply(lease.Expire{Name: l.Name, Token: g.Token, Renewal: g.Renewal, Term: term})
			}
		})
	case lease.Cooling:
		cool := l.Cooldown
		w.after(cool.Delay+w.between(0, 40), func() {
			if now := w.table.Get(l.Name); now.State() == lease.Cooling && now.Cooldown.Token == cool.Token && w.term == term {
				w.apply(lease.Reopen{Name: l.Name, Token: cool.Token})
			}
		})
	}
}

func (w *simulation) lead() {
	w.index++
	noop := history.Entry{Node: "n1", Index: w.index, Term: w.term, Kind: "noop"}
	w.rec.Add(noop)
	w.log = append(w.log, noop)
	w.rec.Add(history.Leadership{At: w.now, Node: w.leader(), Term: w.term})
	w.apply(lease.Lead{Node: w.leader(), Address: "127.0.0.1:1", ClusterID: "c"})
	for l := range w.table.Ascend("") {
		w.arm(l)
	}
}

func (w *simulation) leader() string { return fmt.Sprintf("n%d", w.term%3+1) }

// changeLeader also sends an expiry of the old term into the new one, where it
// must do nothing.
func (w *simulation) changeLeader() {
	w.term++
	w.lead()
	for l := range w.table.Ascend("") {
		if l.Grant != nil {
			w.apply(lease.Expire{Name: l.Name, Token: l.Grant.Token, Renewal: l.Grant.Renewal, Term: w.term - 1})
			break
		}
	}
	if !w.over() {
		w.after(w.between(2000, 4000), w.changeLeader)
	}
}

func (w *simulation) sample() {
	w.sampleNode("n1", &w.table)
	w.sampleNode("n2", &w.follower)
	if !w.over() {
		w.after(w.between(40, 120), w.sample)
	}
}

func (w *simulation) sampleNode(node string, t *lease.Table) {
	at := t.Applied().Index
	w.rec.Add(history.Sample{At: w.now, Node: node, Term: w.term, Role: "follower", Applied: at, Marks: []history.Mark{{Index: at, Hash: history.Hash(t.Hash())}}})
}

func (w *simulation) probe() {
	w.ids++
	name := fmt.Sprintf("probe/%d", w.ids)
	op := history.Operation{Client: "probe", Kind: history.Acquire, Name: name, Holder: "probe", RequestID: "p", TTL: 200 * time.Millisecond, Probe: true}
	w.call(op, true, func(history.Operation) {
		if !w.over() {
			w.after(w.between(300, 600), w.probe)
		}
	})
}

// flight is a call on its way.
type flight struct {
	w    *simulation
	op   history.Operation
	done func(history.Operation)
	lost bool // its answer does not come back
	over bool
}

// call sends a request over the network. Safe calls are not lost.
func (w *simulation) call(op history.Operation, safe bool, done func(history.Operation)) {
	op.Call = w.now
	f := &flight{w: w, op: op, done: done}
	if !safe && w.trouble(2) {
		f.op.Outcome = history.Nothing
		w.after(w.between(1, 20), func() { f.finish(f.op) })
		return
	}
	f.lost = !safe && w.trouble(3)
	w.after(simTimeout+op.Wait+2*time.Second, func() { f.giveUp() })
	if !safe && w.trouble(3) {
		return // the request is lost
	}
	delay := w.hop()
	if !safe && w.trouble(2) {
		delay = w.between(200, 500)
	}
	if repeatable := op.Kind == history.Renew || op.Kind == history.Release || op.Kind == history.Acquire && op.Wait == 0; repeatable && !safe && w.trouble(3) {
		f.op.Attempts = 2 // the first answer is lost, and the client asks again by itself
		w.after(delay/2, func() { w.apply(commandOf(f.op)) })
	}
	w.after(delay, func() { f.serve() })
}

func (f *flight) giveUp() {
	o := f.op
	o.Outcome = history.Unknown
	f.finish(o)
}

func (f *flight) finish(o history.Operation) {
	if f.over {
		return
	}
	f.over = true
	o.Return = f.w.now
	f.w.rec.Add(o)
	f.done(o)
}

// answer sends the answer back.
func (f *flight) answer(o history.Operation) {
	if f.lost {
		return
	}
	f.w.after(f.w.hop(), func() { f.finish(o) })
}

// settle answers a call that waited.
func (f *flight) settle(r lease.Result) {
	o := f.op
	o.Answer.Index, o.Answer.Term = r.Entry.Index, r.Entry.Term
	o.Outcome, o.Answer.Token = history.OK, 0
	if r.Waiter != nil {
		o.Outcome, o.Code = history.Refused, "wait_timeout"
	} else {
		o.Answer.Token, o.Answer.Holder = r.Lease.Grant.Token, r.Lease.Grant.Holder
	}
	f.answer(o)
}

var simCodes = map[error]string{
	lease.ErrHeld: "held", lease.ErrCooling: "cooling", lease.ErrNotHolder: "not_holder", lease.ErrLost: "lease_lost",
	lease.ErrRequestEnded: "request_ended", lease.ErrStaleToken: "stale_token", lease.ErrNotLive: "stale_token",
}

// serve is what the leader does with the request.
func (f *flight) serve() {
	w, o := f.w, f.op
	switch o.Kind {
	case history.Get, history.StaleGet:
		t := &w.table
		if o.Kind == history.StaleGet {
			t = &w.follower
			o.Answer.Stale = true
		}
		l := t.Get(o.Name)
		o.Outcome, o.Answer.Index, o.Answer.State = history.OK, t.Applied().Index, string(l.State())
		if l.State() == lease.Held {
			o.Answer.Token, o.Answer.Holder = l.Grant.Token, l.Grant.Holder
		}
		f.answer(o)
		return
	case history.ReadValue:
		o.Outcome, o.Answer.Index, o.Answer.Value = history.OK, w.table.Applied().Index, new("")
		if reg := w.table.Register(o.Register); reg != nil {
			o.Answer.Value, o.Answer.HighestToken = &reg.Value, reg.HighestToken
		}
		f.answer(o)
		return
	case history.Renew, history.RenewMany:
		w.arrived(o)
	}
	r := w.apply(commandOf(o))
	if len(r.Each) > 0 {
		r = r.Each[0]
	}
	o.Answer.Index, o.Answer.Term, o.Outcome = r.Entry.Index, r.Entry.Term, history.OK
	switch {
	case r.Err != nil:
		o.Outcome, o.Code = history.Refused, simCodes[r.Err]
		if o.Code == "" {
			panic(errors.Join(errors.New("no code for"), r.Err))
		}
	case r.Waiter != nil:
		f.wait(r)
		return
	case o.Kind == history.Acquire:
		o.Answer.Token, o.Answer.Holder, o.Answer.Replayed = r.Lease.Grant.Token, r.Lease.Grant.Holder, r.Replayed
		o.Answer.RemainingMillis = new(int64(1))
	case r.Ended != nil:
		o.Answer.Already, o.Answer.EndedIndex = r.Already, r.Ended.Index
	case o.Kind == history.Write:
		o.Answer.HighestToken = r.Register.HighestToken
	default:
		o.Answer.Token = o.Token
	}
	f.answer(o)
}

// arrived is what instrumentation would say of a renewal.
func (w *simulation) arrived(o history.Operation) {
	if w.table.Get(o.Name).Live(o.Token) != nil {
		w.rec.Add(history.Arrival{At: w.now, Node: w.leader(), Term: w.term, Name: o.Name, Token: o.Token, Left: time.Millisecond, Index: w.index + 1})
	}
}

// wait keeps the call in the queue until its turn or the end of its wait.
func (f *flight) wait(r lease.Result) {
	w, a, place := f.w, f.op.Attempt(), r.Waiter.Place
	w.waiting[a] = append(w.waiting[a], f)
	if f.lost { // the client goes away: its place is given up, or its grant given back
		w.after(w.between(1, 1+int(f.op.Wait.Milliseconds())), func() {
			f.giveUp()
			w.apply(lease.Abandon{Name: a.Name, Holder: a.Holder, RequestID: a.RequestID, Place: place, Reason: lease.ClientGone})
		})
	}
	w.after(f.op.Wait, func() {
		if waiter := w.table.Waiting(a.Name, a.Holder, a.RequestID); waiter != nil && waiter.Place == place {
			w.apply(lease.Abandon{Name: a.Name, Holder: a.Holder, RequestID: a.RequestID, Place: place, Reason: lease.WaitOver})
		}
	})
}

func commandOf(o history.Operation) lease.Command {
	switch o.Kind {
	case history.Acquire:
		return lease.Acquire{Name: o.Name, Holder: o.Holder, RequestID: o.RequestID, TTL: o.TTL, Wait: o.Wait, LockDelay: o.LockDelay, Reclaim: o.Reclaim}
	case history.Renew:
		return lease.Renew{Name: o.Name, Holder: o.Holder, Token: o.Token, TTL: o.TTL, Value: o.Value}
	case history.RenewMany:
		return lease.RenewMany{Holder: o.Holder, Renewals: []lease.Renewal{{Name: o.Name, Token: o.Token}}}
	case history.Release:
		return lease.Release{Name: o.Name, Holder: o.Holder, Token: o.Token}
	case history.Revoke:
		return lease.Revoke{Name: o.Name, Token: o.Token, Reason: o.Reason}
	}
	return lease.Write{Register: o.Register, Value: *o.Value, Token: o.Token, Lease: o.Guard}
}

type timer struct {
	at  time.Duration
	seq int
	do  func()
}

// timers is a heap of them.
type timers []timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	if t[i].at != t[j].at {
		return t[i].at < t[j].at
	}
	return t[i].seq < t[j].seq
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)   { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}
