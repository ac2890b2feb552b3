package torture

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"leasehold/faults"
	"leasehold/torture/check"
	"leasehold/torture/history"
	"leasehold/torture/work"
)

// Outcome is what came of a run.
type Outcome struct {
	Config   Config
	History  *history.History
	Report   check.Report
	Applied  faults.Schedule // what was done, with the nodes that were found
	Skipped  []string        // what could not be done, and why
	LateCPU  time.Duration   // the longest that this machine let a process wait
	LateDisk time.Duration   // the longest that it took a write to reach the disk
	Notes    []string        // what else a reader has to know

	params check.Params
	drawn  []string // files that Porcupine drew
}

// Run makes a run and judges it. What is known of it is in the folder of cfg then. An
// error is a failure of the tool, or the end of ctx; violations are none.
func Run(ctx context.Context, cfg Config) (*Outcome, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg}
	if err := r.open(); err != nil {
		return nil, err
	}
	defer r.file.Close()
	if err := r.do(ctx); err != nil {
		return nil, err
	}
	out := r.judge()
	return out, out.write()
}

// run is one that goes on.
type run struct {
	cfg      Config
	file     *os.File // of the history
	recorder *history.Recorder
	log      *work.Log
	cluster  *cluster
	witness  *witness
	breaker  *breaker
	machine  *machine
	notes    []string
}

// open makes the folder.
func (r *run) open() error {
	if err := os.MkdirAll(r.cfg.Out, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(r.cfg.Out)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("folder %s is not empty", r.cfg.Out)
	}
	r.file, err = os.Create(filepath.Join(r.cfg.Out, historyFile))
	r.recorder = history.NewRecorder(r.file)
	return err
}

// do is the run itself. When it returns no process of it is left.
func (r *run) do(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.cluster, err = prepare(ctx, &r.cfg); err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Join(r.cfg.Out, "data"))
	defer r.cluster.close()
	if err := r.cluster.open(ctx); err != nil {
		return cause(ctx, err)
	}
	r.log = work.NewLog(r.recorder)
	r.log.Add(history.Run{Title: r.cfg.title(), Seed: r.cfg.Seed, Version: r.cfg.Version, Command: r.cfg.Command})
	r.witness = newWitness(r.cluster, r.log)
	r.breaker = newBreaker(r.cluster, r.witness, r.log)
	r.machine = newMachine(r.cfg.Out)
	schedule, err := r.cfg.schedule(r.cluster.ids())
	if err != nil {
		return err
	}
	return r.play(ctx, cancel, schedule)
}

// play lets clients, faults and witnesses loose on the cluster.
func (r *run) play(ctx context.Context, cancel context.CancelCauseFunc, schedule faults.Schedule) error {
	var beside, breaks sync.WaitGroup
	defer r.breaker.guard.Wait()
	defer beside.Wait()
	defer cancel(errStopped)
	for _, n := range r.cluster.nodes {
		r.breaker.supervise(ctx, n)
	}
	beside.Go(func() { r.witness.watch(ctx) })
	beside.Go(func() { r.machine.watch(ctx) })
	beside.Go(func() { newProgress(r).tell(ctx) })
	beside.Go(func() {
		select {
		case <-r.breaker.failed:
			cancel(r.breaker.err)
		case <-ctx.Done():
		}
	})
	breaks.Go(func() { r.breaker.play(ctx, schedule) })
	err := work.Run(ctx, r.work())
	breaks.Wait()
	if err == nil && ctx.Err() == nil {
		r.settle(ctx)
	}
	return cause(ctx, err)
}

// cause is why ctx has ended, or err if it has not.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (r *run) work() work.Config {
	w := work.DefaultConfig()
	w.Servers, w.Seed, w.Log, w.Until = r.cluster.addresses(), r.cfg.Seed, r.log, r.cfg.Duration
	w.Dial = func(string) work.Dial { return new(net.Dialer).DialContext }
	return w
}

// settle brings all nodes to the same entry and reads what has not been read of their
// logs. Without it nothing can be said of answers that the log does not have.
func (r *run) settle(ctx context.Context) {
	const atMost = 20 * time.Second
	err := r.cluster.until(ctx, atMost, "the same entry on all nodes", settled)
	if err == nil {
		err = r.witness.finish(ctx)
	}
	if err != nil {
		r.notes = append(r.notes, "the end of the log was not read: "+err.Error())
	}
	r.log.Add(history.End{At: r.log.Now(), LogComplete: err == nil})
}

// judge checks the history.
func (r *run) judge() *Outcome {
	out := &Outcome{Config: r.cfg, History: r.recorder.History(), Applied: r.breaker.applied, Skipped: r.breaker.skipped, Notes: r.notes}
	out.LateCPU, out.LateDisk = r.machine.late()
	slices.SortStableFunc(out.Applied, func(a, b faults.Step) int { return cmp.Compare(a.AtMillis, b.AtMillis) })
	if err := r.recorder.Err(); err != nil {
		out.Notes = append(out.Notes, "the history was not written to its end: "+err.Error())
	}
	out.params = params(out.Applied, r.cfg.Nodes, r.cfg.Duration, out.LateCPU+out.LateDisk, r.cfg.BlackBox)
	out.Report = check.Check(out.History, out.params)
	return out
}
