// Package sim simulates a whole cluster under many faults at once: real nodes with
// real Raft, the real HTTP API and the real client, on a network in memory, in the
// virtual time of a testing/synctest bubble. Five minutes of a cluster take some
// seconds, and a goroutine that hangs fails the run.
//
//	          seed
//	 ┌─────────┴──────────┐
//	 ▼                    ▼
//	Generate          work.Run: twelve clients, a reader, a prober, a herd
//	 │ schedule           │ requests
//	 ▼                    ▼
//	breaker ──faults──▶ n1 n2 n3 (n4 n5)   httpapi on cluster on fsm on lease
//	 │                    │
//	 │ when there was     ├─ about to cut off its log: it is read before ─┐
//	 │ no quorum          ├─ AppendEntries on the wire, renewals arriving ┤
//	 │                    └─ asked now and then: term, role, hashes ──────┤ watcher
//	 ▼                                                                    ▼
//	 └──────────────────▶ history.History ◀──── operations, beliefs ──────┘
//	                           │
//	                           ▼
//	                      check.Check ──▶ holds
//	                           │       ├▶ inconclusive: too little happened
//	                           │       └▶ violated ──▶ files ──▶ Shrink ──▶ fewer faults
//
// A run is in one state after another:
//
//	starting    all nodes start, and one is elected
//	disturbed   clients are at work; something goes wrong every four seconds or so,
//	            and several things at once
//	healed      for the last 15 s nothing is wrong any more, and clients are at work
//	settling    nobody asks; all nodes come to the same entry, logs are read to the end
//	judged      by all properties of package check, and by what package clustertest
//	            asks of any cluster when its test ends
//
// Five nouns: a [Config] is what makes a simulation, an [Outcome] what came of it,
// a [Verdict] what is to be thought of that; the breaker does what a schedule says,
// the watcher hears all witnesses but the clients.
//
// # What the seed decides, and what it does not
//
// The schedule, what clients do in which order, and every time that is drawn by
// chance in package work come from the seed alone. Not so which of two goroutines
// runs first that could both run, the order of a map, and the chance that Raft and
// package client have of their own, in their timeouts. So the same seed gives the
// same storm but not the same run. What fails once may take a few tries to fail
// again; the history of the run that failed is kept, and the search for a smaller
// schedule tries each candidate more than once.
//
// # What a bubble cannot show
//
// A pause is a node whose links stand still and whose lease clock does not move; its
// other timers go on. A crash loses nothing that the node had written: disks in memory
// have no torn tail. Calculations take no virtual time, so that nothing is ever slow
// unless a fault makes it so. The runs with real processes have all of that.
//
// # By hand
//
//	go test ./torture/sim -run TestSim -v -seeds 100 -minutes 5
//	go test ./torture/sim -run TestSim -v -seed 17
//	go test ./torture/sim -run TestSim -v -seed 17 -schedule FILE
package sim
