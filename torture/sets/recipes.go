package sets

import (
	"slices"
	"time"

	"leasehold/faults"
)

// ms and s are durations in the recipes.
const (
	ms = time.Millisecond
	s  = time.Second
)

// on is a recipe: that fault on that node, for a time between two bounds. An empty
// node is any one of them.
func on(node string, f faults.Fault, low, high time.Duration) func(*drawing) {
	return func(d *drawing) {
		of := node
		if of == "" {
			of = d.node()
		}
		d.add(of, f, low, high)
	}
}

// kind is a fault without more to say.
func kind(k faults.Kind) faults.Fault { return faults.Fault{Kind: k} }

var (
	kill = []func(*drawing){
		on(faults.Leader, kind(faults.Kill), 200*ms, 5*s),
		on(faults.Follower, kind(faults.Kill), 2*s, 8*s),
		on(faults.Minority, kind(faults.Kill), 500*ms, 8*s),
		on(faults.Leader, kind(faults.Stop), 200*ms, 3*s),
		on(faults.Leader, kind(faults.Kill), 3*s, 8*s),
	}
	blackout = []func(*drawing){
		on(faults.Majority, kind(faults.Kill), 2*s, 5*s),
		on(faults.All, kind(faults.Kill), 200*ms, 3*s),
		on(faults.Majority, kind(faults.Kill), 200*ms, 2*s),
		on(faults.All, kind(faults.Stop), 200*ms, 2*s),
	}
	// One to three of the longest TTLs, and shorter than an election.
	pause = []func(*drawing){
		on(faults.Leader, kind(faults.Pause), 2*s, 6*s),
		on(faults.Leader, kind(faults.Pause), 300*ms, 900*ms),
		on(faults.Follower, kind(faults.Pause), 2*s, 6*s),
		on(faults.Minority, kind(faults.Pause), s, 6*s),
		on(faults.All, kind(faults.Pause), 300*ms, 3*s),
	}
	isolate = []func(*drawing){
		on(faults.Leader, kind(faults.Cut), s, 6*s),
		on(faults.Leader, faults.Fault{Kind: faults.Cut, Peers: everybody()}, s, 6*s),
		on(faults.Follower, kind(faults.Cut), s, 6*s),
		on(faults.Leader, kind(faults.Cut), 200*ms, s),
	}
	split  = []func(*drawing){halves, ring, halves}
	oneWay = []func(*drawing){
		on(faults.Leader, faults.Fault{Kind: faults.Cut, Direction: faults.In}, s, 6*s),
		on(faults.Leader, faults.Fault{Kind: faults.Cut, Direction: faults.Out}, s, 6*s),
		func(d *drawing) {
			d.add(faults.Follower, faults.Fault{Kind: faults.Cut, Direction: d.direction()}, s, 6*s)
		},
		func(d *drawing) {
			d.add(faults.Leader, faults.Fault{Kind: faults.Cut, Direction: d.direction(), Peers: []string{faults.Clients}}, 500*ms, 3*s)
		},
	}
	slowLinks = []func(*drawing){
		delay(faults.Leader), delay(""), loss(faults.Leader), loss(""),
		on(faults.Leader, faults.Fault{Kind: faults.Delay, DelayMillis: 50, JitterMillis: 400, Peers: []string{faults.Clients}}, 2*s, 6*s),
	}
	jam = []func(*drawing){
		on(faults.Leader, kind(faults.Jam), 300*ms, 3*s),
		on("", kind(faults.Jam), 300*ms, 3*s),
		on(faults.Leader, faults.Fault{Kind: faults.Jam, Peers: []string{faults.Clients}}, 500*ms, 3*s),
		func(d *drawing) {
			d.add(faults.Leader, faults.Fault{Kind: faults.Jam, Direction: d.direction(), Peers: everybody()}, 300*ms, 3*s)
		},
	}
	replies = []func(*drawing){
		dropReplies(""), dropReplies("/v1/acquire"), dropReplies(""), dropReplies("/v1/release"),
		on(faults.Leader, faults.Fault{Kind: faults.Cut, Direction: faults.Out, Peers: []string{faults.Clients}}, 300*ms, 3*s),
	}
	disk = []func(*drawing){
		on(faults.Leader, faults.Fault{Kind: faults.SlowFsync, DelayMillis: 50}, 2*s, 6*s),
		on(faults.Leader, faults.Fault{Kind: faults.SlowFsync, DelayMillis: 300}, s, 4*s),
		on(faults.All, faults.Fault{Kind: faults.SlowFsync, DelayMillis: 20}, 2*s, 6*s),
		on(faults.Leader, kind(faults.DiskFull), 100*ms, 3*s),
		on("", kind(faults.DiskFull), 100*ms, 5*s),
	}
	clock = []func(*drawing){
		on(faults.All, faults.Fault{Kind: faults.ClockRate, Percent: 90}, 3*s, 10*s),
		on(faults.All, faults.Fault{Kind: faults.ClockRate, Percent: 110}, 3*s, 10*s),
		on(faults.Leader, kind(faults.ClockStall), 300*ms, 4*s),
		on(faults.All, faults.Fault{Kind: faults.WallShift, ShiftMillis: time.Hour.Milliseconds()}, 2*s, 10*s),
		on(faults.Leader, faults.Fault{Kind: faults.WallShift, ShiftMillis: -time.Hour.Milliseconds()}, 2*s, 10*s),
	}
)

var all = []Set{
	{"mixed", "one of all the others at a time", slices.Concat(kill, blackout, pause, isolate, split, oneWay, slowLinks, jam, replies, disk, clock)},
	{"kill", "the leader, a follower or a minority is killed or stopped, and restarted", kill},
	{"blackout", "a majority or all nodes are killed at once", blackout},
	{"pause", "nodes are stopped by SIGSTOP, for longer and for less than an election takes", pause},
	{"isolate", "the leader, or a follower, is cut off from the other nodes, or from clients too", isolate},
	{"split", "a minority is cut off from the rest; majorities that overlap", split},
	{"one-way", "what a node sends is cut, or what it receives", oneWay},
	{"slow-links", "what is sent arrives late, in jumps, or again and again not at all", slowLinks},
	{"jam", "what is sent is kept back and comes all at once", jam},
	{"replies", "requests are carried out and their answers lost", replies},
	{"disk", "disks are slow, or full", disk},
	{"clock", "lease clocks run 10 % wrong or stand still, wall clocks are an hour wrong", clock},
}

func delay(node string) func(*drawing) {
	return func(d *drawing) {
		on(node, faults.Fault{Kind: faults.Delay, DelayMillis: 5 + d.rand.Int64N(100), JitterMillis: 1 + d.rand.Int64N(100)}, 2*s, 6*s)(d)
	}
}

func loss(node string) func(*drawing) {
	return func(d *drawing) {
		on(node, faults.Fault{Kind: faults.Loss, Percent: 5 + d.rand.Int64N(40)}, 2*s, 6*s)(d)
	}
}

// dropReplies loses answers of the leader, which is where the others send clients.
func dropReplies(path string) func(*drawing) {
	return func(d *drawing) {
		d.add(faults.Leader, faults.Fault{Kind: faults.DropReply, Count: 2 + d.rand.Int64N(12), Path: path}, s, 4*s)
	}
}

// halves cuts as many nodes as the rest can do without off from that rest.
func halves(d *drawing) {
	order := d.rand.Perm(len(d.nodes))
	few := (len(d.nodes) - 1) / 2
	var rest []string
	for _, i := range order[few:] {
		rest = append(rest, d.nodes[i])
	}
	lasts := d.between(s, 6*s)
	for _, i := range order[:few] {
		d.add(d.nodes[i], faults.Fault{Kind: faults.Cut, Peers: rest}, lasts, lasts)
	}
}

// ring makes majorities that overlap: each of five nodes reaches its two neighbours,
// and no two reach the same nodes. Three nodes have one link cut instead.
func ring(d *drawing) {
	lasts := d.between(s, 6*s)
	n, cuts := len(d.nodes), len(d.nodes)
	if n < 5 {
		cuts = 1
	}
	start := d.rand.IntN(n)
	for i := range cuts {
		d.add(d.nodes[(start+i)%n], faults.Fault{Kind: faults.Cut, Peers: []string{d.nodes[(start+i+2)%n]}}, lasts, lasts)
	}
}
