// Package work is what clients do to a cluster under test: they hold leases and
// renew them, fight over them, queue, count in registers, renew in batches, lead,
// read, and ask whether the cluster serves at all. Some of them fall asleep in the
// middle, and act on what they believed before.
//
//	role ──▶ client.Client, client.API ──▶ recorder ──▶ gate ──▶ network
//	  │                                       │
//	  └── beliefs, pauses ──▶ history ◀───────┘ one operation for each exchange
//
// Three nouns:
//
//   - a [Player] is one client: a name, a source of chance, a network of its own;
//   - a role is what a player does until the run is over: [Roles] names them;
//   - an exchange is one HTTP request with its answer. It, and not the call of
//     package client, is recorded as an operation: what the client retries, hedges or
//     follows in the background is an operation too, and each makes one entry of the
//     log at most. Only probes are recorded as whole calls.
//
// The package knows nothing of simulations and of processes. What it needs is a way
// to dial; chance comes from the seed alone, one source for each role of a player.
//
// A pause of a client stands for a process that is stopped: its connections stand
// still, in both directions, and the role sleeps. The timers of package client go
// on, so what is tested by it is not the client's own timekeeping, but what the
// cluster and the registers make of a holder that comes back too late.
package work
