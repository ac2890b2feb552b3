// Command torture-against holds another lock service against what leasehold's checker
// asks of leases: tokens that rise, one order of all calls, no lease that ends early or
// comes back from the dead.
//
//	go run ./torture-against --peer etcd  --endpoint 127.0.0.1:2379
//	go run ./torture-against --peer redis --endpoint 127.0.0.1:6379 [--forget 10s]
//
// Clients acquire, renew, fall asleep, release and let leases run out, and a reader
// looks on. What they saw is a history as that of leasehold torture, but without a log,
// so only what answers alone can show is checked. What is done to the peer meanwhile is
// up to you: kill it, pause it, cut it off. --forget has Redis lose its data once, as a
// failover to a replica does that has not got the last writes.
//
// Exit codes: 0 holds, 1 violated, 2 inconclusive, 3 no verdict.
//
// A [Peer] is the service under test; there is one file for each.
package main
