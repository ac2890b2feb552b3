package sets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"leasehold/faults"
)

// Set is a choice of faults.
type Set struct {
	Name  string
	About string // what goes wrong, in a few words
	draw  []func(*drawing)
}

// All sets but "none", the mixed one first.
func All() []Set { return slices.Clone(all) }

// None has no faults. A run with it proves nothing, and must come out as inconclusive.
var None = Set{Name: "none", About: "nothing goes wrong"}

// Named finds a set.
func Named(name string) (Set, error) {
	var names []string
	for _, s := range append(All(), None) {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Set{}, fmt.Errorf("there is no fault set %q; there are %s", name, strings.Join(names, ", "))
}

// How often something goes wrong, on average, and from when on.
const (
	first = 3 * time.Second
	every = 4 * time.Second
	// shortest is how long a fault lasts that would not be over by the end.
	shortest = 100 * time.Millisecond
)

// Schedule of a seed, for nodes with those ids. Faults may overlap. All of them are
// over by end.
func (s Set) Schedule(seed uint64, nodes []string, end time.Duration) faults.Schedule {
	if len(s.draw) == 0 {
		return nil
	}
	d := &drawing{rand: rand.New(rand.NewPCG(seed, 0xfa017)), nodes: nodes, end: end}
	// Each of them comes up before one comes up again.
	var order []int
	for d.at = first; d.at+shortest < d.end; d.at += d.between(every/2, 3*every/2) {
		if len(order) == 0 {
			order = d.rand.Perm(len(s.draw))
		}
		s.draw[order[0]](d)
		order = order[1:]
	}
	return d.schedule
}

// drawing is a schedule that is being drawn.
type drawing struct {
	rand     *rand.Rand
	nodes    []string
	at, end  time.Duration
	schedule faults.Schedule
}

// add adds a step that lasts for some time, but not beyond the end.
func (d *drawing) add(node string, f faults.Fault, low, high time.Duration) {
	f.DurationMillis = min(d.between(low, high), d.end-d.at).Milliseconds()
	d.schedule = append(d.schedule, faults.Step{AtMillis: d.at.Milliseconds(), Node: node, Fault: f})
}

// between draws a time in whole milliseconds.
func (d *drawing) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.rand.Int64N((high-low).Milliseconds()+1))*time.Millisecond
}

// node is one of them by its id.
func (d *drawing) node() string { return d.nodes[d.rand.IntN(len(d.nodes))] }

func (d *drawing) direction() faults.Direction {
	return []faults.Direction{faults.In, faults.Out}[d.rand.IntN(2)]
}

// everybody but one node: the other nodes and the clients.
func everybody() []string { return []string{"n1", "n2", "n3", "n4", "n5", faults.Clients} }
