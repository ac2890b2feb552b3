package sim

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"leasehold/faults"
)

// The same seed gives the same schedule, and others give others.
func TestGenerate_BySeed(t *testing.T) {
	nodes := NodeIDs(5)
	one := Generate(7, nodes, 5*time.Minute)
	if again := Generate(7, nodes, 5*time.Minute); !reflect.DeepEqual(one, again) {
		t.Error("a seed gives two schedules")
	}
	if other := Generate(8, nodes, 5*time.Minute); reflect.DeepEqual(one, other) {
		t.Error("two seeds give the same schedule")
	}
}

// What is generated can be done and written down, is over before the end, is dense,
// and sooner or later has every kind of fault.
func TestGenerate_Valid(t *testing.T) {
	const duration = 5 * time.Minute
	seen := make(map[faults.Kind]int)
	for seed := range uint64(50) {
		nodes := NodeIDs(3 + 2*int(seed%2))
		s := Generate(seed, nodes, duration)
		if most := int((duration - healed) / everyFault); len(s) < most/2 {
			t.Errorf("seed %d: %d steps", seed, len(s))
		}
		for i, step := range s {
			if err := step.Validate(); err != nil {
				t.Errorf("seed %d: %v: %v", seed, step, err)
			}
			if i > 0 && step.At() < s[i-1].At() {
				t.Errorf("seed %d: step %d is out of order", seed, i)
			}
			if end := step.At() + step.Duration(); end > duration-healed+time.Millisecond || step.DurationMillis == 0 {
				t.Errorf("seed %d: %v lasts until %v", seed, step, end)
			}
			if _, err := faults.Resolve(step.Node, nodes[0], nodes); err != nil {
				t.Errorf("seed %d: %v: %v", seed, step, err)
			}
			seen[step.Kind]++
		}
	}
	for _, kind := range faults.Kinds() {
		if seen[kind] == 0 {
			t.Errorf("%s never happens", kind)
		}
	}
}

// Of many steps those few are found that matter, together or one of them.
func TestShrink(t *testing.T) {
	always := func() bool { return true }
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := make(faults.Schedule, 40+r.IntN(40))
		for i := range s {
			s[i].AtMillis = int64(i)
		}
		var matter []int64
		for range 1 + r.IntN(3) {
			if at := r.Int64N(int64(len(s))); !slices.Contains(matter, at) {
				matter = append(matter, at)
			}
		}
		slices.Sort(matter)
		asked := 0
		small := Shrink(s, always, func(candidate faults.Schedule) bool {
			asked++
			return !slices.ContainsFunc(matter, func(at int64) bool {
				return !slices.ContainsFunc(candidate, func(step faults.Step) bool { return step.AtMillis == at })
			})
		})
		var got []int64
		for _, step := range small {
			got = append(got, step.AtMillis)
		}
		if !slices.Equal(got, matter) {
			t.Errorf("seed %d: of %d steps %v are left, want %v", seed, len(s), got, matter)
		}
		if asked > 3*len(s) {
			t.Errorf("seed %d: %d questions for %d steps", seed, asked, len(s))
		}
	}
}

// When there is no time, or nothing can go, the schedule stays as it is.
func TestShrink_Ends(t *testing.T) {
	s := Generate(1, NodeIDs(3), time.Minute)
	if got := Shrink(s, func() bool { return false }, func(faults.Schedule) bool { return true }); !reflect.DeepEqual(got, s) {
		t.Errorf("without time %d of %d steps are left", len(got), len(s))
	}
	if got := Shrink(s, func() bool { return true }, func(faults.Schedule) bool { return false }); !reflect.DeepEqual(got, s) {
		t.Errorf("although nothing can go %d of %d steps are left", len(got), len(s))
	}
}

// A time without a quorum is found where faults add up to one, and nowhere else.
func TestQuorumless(t *testing.T) {
	down := func(from, to int, node string) outage {
		return outage{time.Duration(from) * time.Second, time.Duration(to) * time.Second, node, faults.Fault{Kind: faults.Kill}}
	}
	cut := func(from, to int, node string, d faults.Direction, peers ...string) outage {
		return outage{time.Duration(from) * time.Second, time.Duration(to) * time.Second, node, faults.Fault{Kind: faults.Cut, Peers: peers, Direction: d}}
	}
	for _, test := range []struct {
		name    string
		nodes   int
		outages []outage
		want    []int // from and to of each, in seconds
	}{
		{name: "nothing", nodes: 3},
		{"one down", 3, []outage{down(1, 9, "n1")}, nil},
		{"two down, one after the other", 3, []outage{down(1, 5, "n1"), down(5, 9, "n2")}, nil},
		{"two down for a while", 3, []outage{down(1, 6, "n1"), down(4, 9, "n2")}, []int{4, 6}},
		{"two of five", 5, []outage{down(1, 6, "n1"), down(4, 9, "n2")}, nil},
		{"one down and one cut off", 3, []outage{down(1, 6, "n1"), cut(2, 5, "n3", faults.Both)}, []int{2, 5}},
		{"one way is enough", 3, []outage{down(1, 6, "n1"), cut(2, 5, "n3", faults.In, "n2")}, []int{2, 5}},
		{"a link that nobody needs", 3, []outage{down(1, 6, "n1"), cut(2, 5, "n3", faults.In, "n1")}, nil},
		{"a ring of majorities has some", 5, []outage{
			cut(1, 9, "n1", faults.Both, "n3"), cut(1, 9, "n2", faults.Both, "n4"), cut(1, 9, "n3", faults.Both, "n5"),
			cut(1, 9, "n4", faults.Both, "n1"), cut(1, 9, "n5", faults.Both, "n2"),
		}, nil},
		{"clients are cut off as well", 3, []outage{down(1, 6, "n1"), down(1, 6, "n2"), cut(3, 9, "n3", faults.Both, faults.Clients)}, []int{1, 3}},
		{"clients of one that is down", 3, []outage{down(1, 9, "n1"), down(1, 9, "n2"), down(1, 9, "n3")}, []int{1, 9}},
		{"too short", 3, []outage{down(1, 6, "n1"), {5900 * time.Millisecond, 9 * time.Second, "n2", faults.Fault{Kind: faults.Kill}}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []int
			for _, f := range quorumless(NodeIDs(test.nodes), test.outages) {
				if !f.NoQuorum {
					t.Errorf("%+v is none", f)
				}
				got = append(got, int((f.From-settle)/time.Second), int(f.To/time.Second))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// A simulation without faults proves nothing, and says so.
func TestSim_WithoutFaults_Inconclusive(t *testing.T) {
	c := Config{Seed: 1, Nodes: 3, Duration: time.Minute}
	v := Judge(Run(t, c))
	if got := v.Report.Verdict.String(); got != "inconclusive" || len(v.Missing) == 0 {
		t.Errorf("the verdict is %s, missing are %q, violated %q", got, v.Missing, v.Violated())
	}
	t.Logf("missing: %q", v.Missing)
}
