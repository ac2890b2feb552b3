// Package check judges the history of a run: did the cluster keep its promises
// while it was being hurt? It knows about time, so it also tells whether a lease
// ended too early or too late.
//
//	              ┌─ Merge ── log ── replay ──▶ what each entry came to, and
//	              │                            what each lease was at each index
//	history ──────┤                              │            │
//	              │                              ▼            ▼
//	              ├─ operations ─────────────▶ join         rules: the same again by
//	              │     │                        │          a second, smaller account
//	              │     └─▶ placement ─────┐     │            │
//	              │         of indexes     ▼     ▼            ▼
//	              └─ samples, faults ───▶ properties P1 … P17, each ok, violated,
//	                                        │       inconclusive or not checked
//	                         evidence ──▶   ▼
//	                                      verdict: holds 0 · violated 1 · inconclusive 2
//
// Four nouns:
//
//   - a [Property] is one promise with its check. A file is about one of them, or
//     about a few that are alike;
//   - a [Violation] says in one sentence what went wrong, and shows the few
//     operations and entries that prove it;
//   - the [Evidence] counts what shows that the run was hard enough;
//   - the [Report] has all of it, and the verdict.
//
// # Two witnesses
//
// The log is the better witness: it knows what became of calls whose outcome no
// client learned, and when leases ended. But it comes from the system under test. So
// what can be told from the answers alone is told from them too (P3, P4, P5b,
// P6, P8 to P11, P16), and a history without a log, such as one of etcd or Redis,
// can still be judged by these. Such a peer must give tokens that rise with its
// grants; an adapter for one that has none numbers them itself.
//
// Also the replay could be wrong, for it uses the state machine of the cluster.
// Where it is compiled with the same mistake, both agree. The rules therefore hold
// each step against an account of their own (rules.go).
//
// # Time
//
// The clocks of nodes are not read. An entry is placed between calls and answers
// of clients (placement.go), always to the disadvantage of the check: what it
// finds too early or too late is so, and what it misses is at most as long as the
// answers on both sides took. Clocks may run apart by [Params].ClockMargin.
//
// # Porcupine
//
// P5 and P5b search for a linear order with Porcupine, each lease by itself. With
// the log everything is known and the search is straight. Without it, a lease may
// run out at any moment: the model finds it over when somebody has seen that,
// and so needs no guesses (model.go). A request with an unknown outcome that no
// answer tells of may have been granted at any time after its call; refusals
// that it could explain are not held against the cluster.
// A search that is not over in time is inconclusive, and that is no "holds".
// It needs real time: do not call [Check] inside of a synctest bubble.
//
// # What is not checked
//
//   - lists of leases, events, and what is known of a request id;
//   - how long leases and queues were held up within a time of faults: the clock of
//     P9 begins when the last fault is over;
//   - P17 without instrumentation inside of the leader, and P2 on the wire
//     without a hook there;
//   - linearizability of registers among each other: P14 holds their answers
//     against the log, P6 checks the order of tokens;
//   - that clients believe rightly. Belief is measured, not judged.
package check
