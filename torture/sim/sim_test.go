package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/torture/check"
)

var one = flag.Uint64("one", 1, "")

func TestCost(t *testing.T) {
	for seed := *one; seed < *one+2; seed++ {
		begun := time.Now()
		cfg := Config{Seed: seed, Nodes: 3 + 2*int(seed%2), Duration: time.Minute}
		cfg.Schedule = Generate(seed, NodeIDs(cfg.Nodes), cfg.Duration)
		out := Run(t, cfg)
		took := time.Since(begun)
		kinds := map[string]int{}
		h := out.History
		for _, op := range h.Operations {
			kinds[fmt.Sprint(op.Kind, " ", op.Outcome, " ", op.Code)]++
		}
		t.Log(took, len(h.Operations), out.Failures)
		for _, f := range h.Faults {
			if f.Client == "" {
				t.Log(f)
			}
		}
		for _, f := range out.Skipped {
			t.Log("skipped", f)
		}
		for _, k := range slices.Sorted(maps.Keys(kinds)) {
			t.Log(k, kinds[k])
		}
		inst := uint64(0)
		for _, s := range h.Samples {
			inst = max(inst, s.Installed)
		}
		log := h.Merge()
		params := check.DefaultParams()
		params.ClockMargin = 0.12
		cb := time.Now()
		rep := check.Check(h, params)
		t.Log("checked in", time.Since(cb))
		var b strings.Builder
		rep.Write(&b)
		t.Log(b.String())
		for _, c := range log.Conflicts {
			t.Logf("%+v", c)
		}
		t.Log("entries", len(h.Entries), len(log.Entries), "gaps", log.Gaps, "conflicts", len(log.Conflicts), "leaderships", len(h.Leaderships), "snapshots", out.Snapshots, "installed", inst, h.End)
	}
}
