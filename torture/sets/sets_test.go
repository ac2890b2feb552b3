package sets_test

import (
	"reflect"
	"testing"
	"time"

	"leasehold/faults"
	"leasehold/torture/sets"
)

var five = []string{"n1", "n2", "n3", "n4", "n5"}

// The same seed draws the same schedule, another one another; every step can be played,
// and is over by the end.
func TestSet_Schedule(t *testing.T) {
	const end = 45 * time.Second
	if n := len(sets.All()); n != 12 {
		t.Errorf("there are %d sets, want 12", n)
	}
	for _, set := range sets.All() {
		for _, nodes := range [][]string{five[:3], five} {
			for seed := range uint64(50) {
				s := set.Schedule(seed, nodes, end)
				if !reflect.DeepEqual(s, set.Schedule(seed, nodes, end)) {
					t.Fatalf("%s: seed %d draws two schedules", set.Name, seed)
				}
				if seed > 0 && reflect.DeepEqual(s, set.Schedule(seed-1, nodes, end)) {
					t.Errorf("%s: seeds %d and %d draw the same schedule", set.Name, seed-1, seed)
				}
				if len(s) < 5 {
					t.Errorf("%s: seed %d draws only %d steps", set.Name, seed, len(s))
				}
				checkSteps(t, set.Name, s, nodes, end)
			}
		}
	}
}

func checkSteps(t *testing.T, name string, s faults.Schedule, nodes []string, end time.Duration) {
	t.Helper()
	for _, step := range s {
		if err := step.Validate(); err != nil {
			t.Errorf("%s: %+v: %v", name, step, err)
		}
		if _, err := faults.Resolve(step.Node, nodes[0], nodes); err != nil {
			t.Errorf("%s: %+v: %v", name, step, err)
		}
		if step.At()+step.Duration() > end {
			t.Errorf("%s: %+v is not over by %v", name, step, end)
		}
	}
}

// A set that nobody knows is refused, and the one without faults is empty.
func TestNamed(t *testing.T) {
	if _, err := sets.Named("nonsense"); err == nil {
		t.Error("nonsense is a set")
	}
	none, err := sets.Named("none")
	if err != nil || len(none.Schedule(1, five, time.Minute)) != 0 {
		t.Errorf("none has faults, or is not known: %v", err)
	}
}
