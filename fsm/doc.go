// Package fsm joins the lease table to Raft: it is the raft.FSM that decodes an
// entry, hands it to the table, and keeps the result for whoever proposed it.
//
//	log entry ──DecodeCommand──▶ lease.Command ──Table.Apply──▶ lease.Result
//	                                                              │
//	         proposer (ApplyFuture.Response), Config.Observe ◀────┤
//	         readers of events (Machine.Events) ◀─────────────────┘
//
// Four nouns: the [Machine] is the state machine of one node; a command's
// encoding ([EncodeCommand]) is what a log entry carries; a snapshot's encoding
// ([WriteSnapshot]) is what replaces the log's beginning; an [EventPage] is a part
// of what the machine did lately, for those who follow it. Both encodings start
// with a version. An entry that this version does not know stops the node: a
// replica that skipped it would differ from the others and not know it.
//
// Raft calls Apply, Snapshot and Restore one at a time. No-op, configuration and
// barrier entries never reach the machine, so its applied index may stay behind
// Raft's commit index for ever; nothing may wait for the two to meet.
package fsm
