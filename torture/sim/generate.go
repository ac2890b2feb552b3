package sim

import (
	"math/rand/v2"
	"time"

	"leasehold/faults"
)

// How often something goes wrong, on average, and from when on.
const (
	firstFault = 3 * time.Second
	everyFault = 4 * time.Second
)

// generator draws a schedule.
type generator struct {
	rand  *rand.Rand
	nodes []string
	all   faults.Schedule
	at    time.Duration
	end   time.Duration // by when everything is to be healed
}

// Generate draws the schedule of a seed. Faults overlap, and all of them are over
// some time before the end.
func Generate(seed uint64, nodes []string, duration time.Duration) faults.Schedule {
	g := &generator{rand: rand.New(rand.NewPCG(seed, 0xfa017)), nodes: nodes, end: duration - healed}
	for g.at = firstFault; g.at < g.end; g.at += g.between(everyFault/4, 7*everyFault/4) {
		draw := recipes[g.rand.IntN(len(recipes))]
		draw(g)
	}
	return g.all
}

// recipes are drawn with the same chance each.
var recipes = []func(*generator){
	// Processes.
	func(g *generator) {
		g.add(faults.Leader, faults.Fault{Kind: faults.Kill}, 200*time.Millisecond, 5*time.Second)
	},
	func(g *generator) {
		g.add(faults.Follower, faults.Fault{Kind: faults.Kill}, 200*time.Millisecond, 10*time.Second)
	},
	func(g *generator) {
		g.add(faults.Minority, faults.Fault{Kind: faults.Kill}, 200*time.Millisecond, 10*time.Second)
	},
	func(g *generator) {
		g.add(faults.Majority, faults.Fault{Kind: faults.Kill}, 100*time.Millisecond, 3*time.Second)
	},
	func(g *generator) {
		g.add(faults.All, faults.Fault{Kind: faults.Kill}, 100*time.Millisecond, 2*time.Second)
	},
	func(g *generator) {
		g.add(faults.Leader, faults.Fault{Kind: faults.Stop}, 200*time.Millisecond, 3*time.Second)
	},
	func(g *generator) {
		g.add(g.node(), faults.Fault{Kind: faults.Stop}, 200*time.Millisecond, 6*time.Second)
	},
	func(g *generator) {
		g.add(faults.Leader, faults.Fault{Kind: faults.Pause}, 400*time.Millisecond, 6*time.Second)
	},
	func(g *generator) {
		g.add(g.node(), faults.Fault{Kind: faults.Pause}, 400*time.Millisecond, 6*time.Second)
	},
	// Links between nodes.
	func(g *generator) {
		g.add(faults.Leader, faults.Fault{Kind: faults.Cut}, 300*time.Millisecond, 6*time.Second)
	},
	func(g *generator) {
		g.add(faults.Leader, faults.Fault{Kind: faults.Cut, Peers: g.everybody()}, 300*time.Millisecond, 6*time.Second)
	},
	func(g *generator) {
		g.add(faults.Leader, faults.Fault{Kind: faults.Cut, Direction: g.direction()}, 300*time.Millisecond, 6*time.Second)
	},
	func(g *generator) {
		g.add(g.node(), faults.Fault{Kind: faults.Cut, Direction: g.direction()}, 300*time.Millisecond, 6*time.Second)
	},
	halves, ring, crowns, crowns, crowns,
	func(g *generator) {
		g.add(g.node(), faults.Fault{Kind: faults.Jam}, 200*time.Millisecond, 3*time.Second)
	},
	func(g *generator) { g.add(faults.Leader, g.delay(), 500*time.Millisecond, 6*time.Second) },
	func(g *generator) { g.add(g.node(), g.delay(), 500*time.Millisecond, 6*time.Second) },
	func(g *generator) {
		g.add(g.node(), faults.Fault{Kind: faults.Loss, Percent: 5 + g.rand.Int64N(40)}, 500*time.Millisecond, 6*time.Second)
	},
	// Clients.
	func(g *generator) {
		g.add(faults.Leader, faults.Fault{Kind: faults.Cut, Peers: []string{faults.Clients}, Direction: g.direction()}, 300*time.Millisecond, 3*time.Second)
	},
	dropReplies, dropReplies,
	// Disks and clocks.
	func(g *generator) {
		g.add(g.node(), faults.Fault{Kind: faults.SlowFsync, DelayMillis: 5 + g.rand.Int64N(200)}, time.Second, 6*time.Second)
	},
	func(g *generator) {
		g.add(g.node(), faults.Fault{Kind: faults.DiskFull}, 100*time.Millisecond, 3*time.Second)
	},
	func(g *generator) {
		percent := []int64{90, 110}[g.rand.IntN(2)]
		g.add(g.node(), faults.Fault{Kind: faults.ClockRate, Percent: percent}, 2*time.Second, 20*time.Second)
	},
	func(g *generator) {
		g.add(g.node(), faults.Fault{Kind: faults.ClockStall}, 300*time.Millisecond, 4*time.Second)
	},
	func(g *generator) {
		hour := []int64{-3_600_000, 3_600_000}[g.rand.IntN(2)]
		g.add(g.node(), faults.Fault{Kind: faults.WallShift, ShiftMillis: hour}, time.Second, 20*time.Second)
	},
}

// dropReplies loses answers of the leader, which is where the others send clients.
func dropReplies(g *generator) {
	g.add(faults.Leader, faults.Fault{Kind: faults.DropReply, Count: 1 + g.rand.Int64N(12)}, time.Second, 4*time.Second)
}

// halves cuts as many nodes as the rest can do without off from that rest.
func halves(g *generator) {
	order := g.rand.Perm(len(g.nodes))
	few, rest := order[:(len(g.nodes)-1)/2], order[(len(g.nodes)-1)/2:]
	var peers []string
	for _, i := range rest {
		peers = append(peers, g.nodes[i])
	}
	lasts := g.between(300*time.Millisecond, 6*time.Second)
	for _, i := range few {
		g.add(g.nodes[i], faults.Fault{Kind: faults.Cut, Peers: peers}, lasts, lasts)
	}
}

// ring makes majorities that overlap: each of five nodes reaches its two neighbours,
// and no two reach the same nodes. Three nodes have one link cut instead.
func ring(g *generator) {
	lasts := g.between(500*time.Millisecond, 6*time.Second)
	n, cuts := len(g.nodes), len(g.nodes)
	if n < 5 {
		cuts = 1
	}
	for i := range cuts {
		g.add(g.nodes[i], faults.Fault{Kind: faults.Cut, Peers: []string{g.nodes[(i+2)%n]}}, lasts, lasts)
	}
}

// crowns makes a leader that goes on for a moment beside its successor. What others
// say reaches it late, and after a second nobody hears it any more: their last
// acknowledgements come while they already elect another, and so does the news of it.
func crowns(g *generator) {
	const before = time.Second
	late := faults.Fault{Kind: faults.Delay, Direction: faults.In, DelayMillis: 300 + g.rand.Int64N(130)}
	lasts := g.between(1500*time.Millisecond, 3*time.Second)
	g.add(faults.Leader, late, before+lasts, before+lasts)
	g.at += before
	g.add(faults.Leader, faults.Fault{Kind: faults.Cut, Direction: faults.Out}, lasts, lasts)
}

// add adds a step, which lasts for some time but not beyond the end.
func (g *generator) add(node string, f faults.Fault, low, high time.Duration) {
	f.DurationMillis = max(min(g.between(low, high), g.end-g.at).Milliseconds(), 1)
	g.all = append(g.all, faults.Step{AtMillis: g.at.Milliseconds(), Node: node, Fault: f})
}

func (g *generator) between(low, high time.Duration) time.Duration {
	return low + time.Duration(g.rand.Int64N((high-low).Milliseconds()+1))*time.Millisecond
}

// node is one of them, or more often whichever leads then.
func (g *generator) node() string {
	if g.rand.IntN(2) == 0 {
		return faults.Leader
	}
	return g.nodes[g.rand.IntN(len(g.nodes))]
}

func (g *generator) direction() faults.Direction {
	return []faults.Direction{faults.In, faults.Out}[g.rand.IntN(2)]
}

func (g *generator) delay() faults.Fault {
	return faults.Fault{Kind: faults.Delay, DelayMillis: 5 + g.rand.Int64N(100), JitterMillis: 1 + g.rand.Int64N(100)}
}

// everybody are all nodes and the clients.
func (g *generator) everybody() []string { return everybody(g.nodes) }

func everybody(nodes []string) []string {
	return append(append([]string{}, nodes...), faults.Clients)
}
