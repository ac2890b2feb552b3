package check_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/lease"
	"leasehold/torture/check"
	"leasehold/torture/history"
)

// A real cluster that loses its leader twice, takes snapshots and installs one
// keeps all properties that its history can speak of.
func TestCheck_RealCluster_Holds(t *testing.T) {
	for seed := range uint64(3) {
		var h *history.History
		synctest.Test(t, func(t *testing.T) { h = realRun(t, seed) })
		p := check.DefaultParams()
		p.Require = []string{"P1", "P2", "P3", "P4", "P5", "P5b", "P6", "P7", "P8", "P9", "P10", "P12", "P13", "P14", "P15", "P16"}
		p.Need = check.Need{Operations: 500, Terms: 2, Expiries: 10, Stale: 5, Unknown: 1, Redirects: 1, Snapshots: 5}
		if report := check.Check(h, p); report.Verdict != check.Holds {
			t.Fatalf("seed %d:\n%s", seed, text(report))
		} else {
			t.Logf("seed %d: %s; %s", seed, report.Evidence, report.Of("P13").Note)
		}
	}
}

// realClient calls nodes as their API does.
type realClient struct {
	c     *clustertest.Cluster
	rec   *history.Recorder
	rng   *rand.Rand
	name  string
	start time.Time
	count int
}

func realRun(t *testing.T, seed uint64) *history.History {
	c := clustertest.New(t, 3, clustertest.Options{Configure: func(cfg *cluster.Config) {
		cfg.SnapshotThreshold, cfg.TrailingLogs, cfg.SnapshotInterval = 64, 16, 200*time.Millisecond
	}})
	c.Leader()
	rec, start := history.NewRecorder(nil), time.Now()
	rec.Add(history.Run{Title: "in a bubble", Seed: seed})
	ctx, stop := context.WithCancel(t.Context())
	var clients, watchers sync.WaitGroup
	for i := range 6 {
		r := &realClient{c: c, rec: rec, rng: rand.New(rand.NewPCG(seed, uint64(i))), name: fmt.Sprintf("c%d", i), start: start}
		clients.Go(func() { r.work(ctx) })
	}
	watchers.Go(func() { follow(ctx, c, rec, start) })
	for range 2 {
		time.Sleep(5 * time.Second)
		leader, from := c.Leader().ID(), time.Since(start)
		c.Crash(leader)
		time.Sleep(4 * time.Second)
		c.Start(leader)
		rec.Add(history.Fault{From: from, To: time.Since(start), Kind: "kill", Nodes: []string{leader}})
	}
	time.Sleep(8 * time.Second)
	stop()
	clients.Wait()
	watchers.Wait()
	last := &realClient{c: c, rec: rec, rng: rand.New(rand.NewPCG(seed, 99)), name: "last", start: start}
	last.call(t.Context(), history.Operation{Kind: history.Get, Name: "a"})
	for _, s := range collectors(c, rec) {
		if err := s.Collect(t.Context()); err != nil {
			t.Error(err)
		}
	}
	rec.Add(history.End{At: time.Since(start), LogComplete: true})
	return rec.History()
}

// collectors follow the log of each node that runs.
func collectors(c *clustertest.Cluster, rec *history.Recorder) map[string]*history.Collector {
	all := make(map[string]*history.Collector)
	for _, id := range []string{"n1", "n2", "n3"} {
		all[id] = &history.Collector{Node: id, To: rec, Fetch: func(_ context.Context, from uint64, limit int) (history.Page, error) {
			n := c.Node(id)
			if n == nil {
				return history.Page{}, errors.New("it does not run")
			}
			page := history.Page{Applied: n.Status().AppliedIndex}
			log, err := n.Log(from, limit)
			page.First = log.First
			for _, e := range log.Entries {
				page.Entries = append(page.Entries, history.Entry{Index: e.Index, Term: e.Term, At: e.At, Kind: e.Kind, Command: e.Command})
			}
			return page, err
		}}
	}
	return all
}

// follow reads logs and samples nodes until the end.
func follow(ctx context.Context, c *clustertest.Cluster, rec *history.Recorder, start time.Time) {
	logs := collectors(c, rec)
	for ctx.Err() == nil {
		for _, id := range c.Running() {
			n := c.Node(id)
			if n == nil {
				continue
			}
			st := n.Status()
			rec.Add(history.Sample{
				At: time.Since(start), Node: id, Term: st.Term, Role: string(st.Role), Applied: st.AppliedIndex, Snapshot: st.SnapshotIndex,
				Marks: []history.Mark{{Index: st.AppliedIndex, Hash: history.Hash(st.StateHash)}},
			})
			_ = logs[id].Collect(ctx) // the next time is soon
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *realClient) work(ctx context.Context) {
	names := []string{"a", "b", "c"}
	tokens := make(map[string]uint64)
	for ctx.Err() == nil {
		time.Sleep(time.Duration(5+r.rng.IntN(60)) * time.Millisecond)
		name := names[r.rng.IntN(len(names))]
		o := history.Operation{Name: name, Holder: r.name, Token: tokens[name]}
		if o.Token == 0 {
			r.withoutLease(ctx, o, tokens)
			continue
		}
		switch pick := r.rng.IntN(10); {
		case pick < 4:
			o.Kind = history.Renew
		case pick < 6:
			o.Kind = history.Release
		case pick < 8:
			o.Kind, o.Register, o.Value, o.Guard = history.Write, "r/"+name, new(fmt.Sprint(r.rng.IntN(1000))), name
			o.Name, o.Holder = "", ""
		default:
			time.Sleep(time.Duration(r.rng.IntN(1500)) * time.Millisecond)
			continue
		}
		if got := r.call(ctx, o); o.Kind == history.Release || got.Outcome == history.Refused {
			delete(tokens, name)
		}
	}
}

func (r *realClient) withoutLease(ctx context.Context, o history.Operation, tokens map[string]uint64) {
	r.count++
	switch pick := r.rng.IntN(20); {
	case pick < 2:
		o.Kind = history.Get
	case pick < 4:
		o.Kind = history.StaleGet
	case pick == 4:
		o.Name, o.Probe = fmt.Sprintf("probe/%s/%d", r.name, r.count), true
		fallthrough
	default:
		o.Kind, o.TTL, o.RequestID = history.Acquire, time.Duration(300+r.rng.IntN(700))*time.Millisecond, fmt.Sprint(r.count)
		if !o.Probe && r.rng.IntN(2) == 0 {
			o.Wait = time.Duration(r.rng.IntN(2000)) * time.Millisecond
		}
	}
	got := r.call(ctx, o)
	for try := 0; got.Kind == history.Acquire && got.Outcome == history.Unknown && try < 3; try++ {
		time.Sleep(300 * time.Millisecond)
		o.Token = 0
		got = r.call(ctx, o)
	}
	if got.Kind == history.Acquire && got.Outcome == history.OK {
		tokens[o.Name] = got.Answer.Token
	}
}

// call asks one node after another until one does not send it on.
func (r *realClient) call(ctx context.Context, o history.Operation) history.Operation {
	o.Client, o.Call, o.Outcome = r.name, time.Since(r.start), history.Nothing
	ids := r.c.Running()
	r.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	asked := ids[0]
	n := r.c.Node(asked)
	if n != nil {
		err := r.ask(ctx, n, asked, &o)
		if to, ok := errors.AsType[*cluster.NotLeader](err); ok && o.Outcome == history.Nothing {
			for _, id := range ids {
				if n := r.c.Node(id); n != nil && to.Leader.ID == id {
					o.Redirects = 1
					r.ask(ctx, n, id, &o)
				}
			}
		}
	}
	o.Return = time.Since(r.start)
	r.rec.Add(o)
	return o
}

// ask asks one node and fills in what it said.
func (r *realClient) ask(ctx context.Context, n *cluster.Node, id string, o *history.Operation) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Wait+2500*time.Millisecond)
	defer cancel()
	if o.Kind == history.Get || o.Kind == history.StaleGet {
		return r.read(ctx, n, id, o)
	}
	var out cluster.Outcome
	var err error
	switch c := commandOf(*o).(type) {
	case lease.Acquire:
		out, err = n.Acquire(ctx, c)
	case lease.Renew:
		out, err = n.Renew(ctx, c)
	case lease.Release:
		out, err = n.Release(ctx, c)
	case lease.Write:
		out, err = n.Write(ctx, c)
	}
	refusal, isRefusal := errors.AsType[*cluster.Refusal](err)
	_, isUnknown := errors.AsType[*cluster.Unknown](err)
	_, isQueued := errors.AsType[*cluster.Queued](err)
	switch {
	case err == nil:
		o.Outcome = history.OK
	case isRefusal:
		o.Outcome, out = history.Refused, refusal.Outcome
		if o.Code = simCodes[out.Result.Err]; errors.Is(err, cluster.ErrWaitTimeout) {
			o.Code = "wait_timeout"
		}
	case isUnknown, isQueued, errors.Is(err, context.DeadlineExceeded):
		o.Outcome = history.Unknown
	default:
		return err
	}
	res := out.Result
	o.Answer = history.Answer{Node: id, Index: res.Entry.Index, Term: res.Entry.Term}
	if o.Outcome == history.OK {
		o.Answer.Replayed, o.Answer.Already = res.Replayed, res.Already
		if g := res.Lease; g.State() == lease.Held && (o.Kind == history.Acquire || o.Kind == history.Renew) {
			o.Answer.Token, o.Answer.Holder, o.Answer.RemainingMillis = g.Grant.Token, g.Grant.Holder, new(out.Remaining.Milliseconds())
		}
	}
	if out.Answered != nil {
		out.Answered(true)
	}
	return err
}

func (r *realClient) read(ctx context.Context, n *cluster.Node, id string, o *history.Operation) error {
	consistency := cluster.Linearizable
	if o.Kind == history.StaleGet {
		consistency, o.Session, o.Answer.Stale = cluster.Stale, fmt.Sprintf("%s to %s %p", r.name, id, n), true // a node that starts again is another connection
	}
	view, read, err := n.Lease(ctx, o.Name, consistency)
	if err != nil {
		return err
	}
	o.Outcome = history.OK
	o.Answer.Node, o.Answer.Index, o.Answer.State = id, read.Index, string(view.Lease.State())
	if g := view.Lease; g.State() == lease.Held {
		o.Answer.Token, o.Answer.Holder = g.Grant.Token, g.Grant.Holder
	}
	return nil
}
