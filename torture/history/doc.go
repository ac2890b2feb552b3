// Package history is what is known of one run of a cluster under test: what its
// clients did and saw, the log that the cluster agreed on, and what was done to
// it. Package check judges it.
//
//	clients      what they asked, when, and what they were told ── Operation
//	             how long they thought they held a lease ───────── Belief
//	nodes        the log that is committed ─────────────────────── Entry, Start
//	             what they say of themselves, now and then ─────── Sample
//	the wire     who led in which term ─────────────────────────── Leadership
//	the leader   which renewals came in time ───────────────────── Arrival
//	the schedule what was broken from when to when ─────────────── Fault
//
//	all of them ──▶ Recorder ──▶ one JSON object a line ──▶ Read ──▶ History
//
// # Time
//
// There is one clock in a history: monotonic, the same for all clients, counted
// from the start of the run. The cluster knows nothing of it. Clocks of nodes
// do not occur: what a node did is placed in time only by the operations and the
// samples around it.
//
// # The log
//
// A log is the best witness there is, but it has to be heard in time: snapshots
// cut off its beginning, in tests after a few dozen entries. So a [Collector]
// follows the log of each node during the run. It takes only what the node had
// applied before its log was read: beyond that a log may hold entries which are
// yet to be replaced. If the beginning is lost on all nodes, a [Start] gives the
// state to go on from.
//
// Peers such as etcd or Redis have no log that we could read. Their histories
// have no entries, and those properties that need them are not checked.
package history
