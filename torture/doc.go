// Package torture puts real processes to the test: it starts a cluster on this machine,
// lets the clients of package work at it while a schedule of faults is played, and has
// package check judge what came of it.
//
//	sets ── a seed ──▶ schedule ──▶ breaker ── kill, SIGSTOP, POST /v1/faults ──▶ nodes
//	work ── clients ─────────────────────────── HTTP ───────────────────────────▶ nodes
//	                                    witness ◀── logs, samples ────────────────── │
//	clients, witness, breaker ──▶ history.jsonl ──▶ check ──▶ verdict.json, report.html
//
// Its nouns:
//
//   - a node is one process, or those after it that go on from its folder;
//   - the breaker does to the nodes what the schedule says, and starts again what ends;
//   - the witness reads the log of each node before snapshots cut it off;
//   - an [Outcome] is what came of a run, with the report for people.
//
// Clients are goroutines of this process and not processes of their own. To be stopped
// is for a client the same as to sleep with all its connections: package work does that
// to them, and the evidence shows that they then believe what is no longer true. Nodes
// are stopped by SIGSTOP, for there the kernel and the timers matter.
//
// What a run cannot see: who leads on the wire (it has the word of the nodes for it),
// and when a renewal reached the leader. Package sim sees both.
package torture
