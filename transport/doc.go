// Package transport gives a node its one address, for everything: Raft between
// the nodes, the questions that nodes ask each other, and HTTP for clients. The
// leader's Raft address is then its URL, and there is one port to remember.
//
//	                              first byte
//	                    ┌─ not 0x00 ───────────────────▶ HTTP()   a net.Listener
//	listener ─▶ accept ─┤
//	                    └─ 0x00: preamble ┬─ "raft" ───▶ Raft()   a raft.StreamLayer
//	                       Admit decides  └─ "probe" ──▶ answered here, see Probe
//
// Four nouns:
//
//   - a [Transport] owns the listener and every connection made through it;
//   - a [Hello] is what a node says of itself, in the preamble and in answers;
//   - a [Probe] is a connection on which another node is asked for its Hello
//     again and again;
//   - a [Network] is what lies below: [TCP], or a [Memory] in tests.
//
// # Protocol between nodes
//
// The dialler sends a preamble and waits for the answer before it sends
// anything else. Both have one form:
//
//	 0      1      2      3      4         5               6      7      8
//	┌──────┬──────┬──────┬──────┬─────────┬───────────────┬─────────────┬────────┐
//	│ 0x00   'L'    'S'    'H'  │ version │ kind          │ length      │ body   │
//	│ magic                     │ 1       │ see below     │ big-endian  │ JSON   │
//	└───────────────────────────┴─────────┴───────────────┴─────────────┴────────┘
//
//	preamble  kind 1 raft, 2 probe     body: the dialler's Hello
//	answer    kind 1 ok                body: the receiver's Hello
//	          kind 2 refused           body: {"text": why, "from": Hello}
//
// Neither HTTP nor TLS can begin with 0x00, so one byte decides, and it is the
// only one that has to be put back for the HTTP server. Two bytes of length
// bound every body to 64 KiB before anything is allocated. The form and the
// place of the version are the same in every version, so that nodes which do
// not understand each other can still say so.
//
// After an ok, a raft connection carries the bytes of raft.NetworkTransport. On
// a probe connection the dialler sends questions of one byte, '?', and each is
// answered by a frame of kind ok with a Hello that was sampled after the
// question had come in:
//
//	dialler    preamble ─────▶         '?' ─────▶          '?' ─────▶
//	receiver             ◀───── Hello      ◀───── Hello        ◀───── Hello
//
// # Limits
//
// A connection has 10 seconds to say what it is: the first byte for HTTP, the
// whole preamble for a node. At most 1,024 connections may be in that state;
// one more closes the oldest of them. Peers are not authenticated: whoever
// reaches the port and knows the cluster id can speak Raft.
package transport
