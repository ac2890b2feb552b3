package sim

import (
	"fmt"
	"testing"
	"time"
)

func TestCost(t *testing.T) {
	for seed := range uint64(2) {
		begun := time.Now()
		out := Run(t, Config{Seed: seed, Nodes: 3 + 2*int(seed%2), Duration: time.Minute})
		took := time.Since(begun)
		kinds := map[string]int{}
		for _, op := range out.History.Operations {
			kinds[fmt.Sprint(op.Kind, " ", op.Outcome, " ", op.Code)]++
		}
		t.Log(took, len(out.History.Operations), out.Failures)
		for k, n := range kinds {
			t.Log(k, n)
		}
	}
}
