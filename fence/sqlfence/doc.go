// Package sqlfence refuses stale writers in a database, inside of the transaction
// that writes. It works on database/sql with PostgreSQL (9.5 or newer) and SQLite
// (3.35 or newer), and brings no driver.
//
//	transaction with token 33           row of the resource        transaction with token 34
//	BEGIN                               token 33                   BEGIN
//	Check 33: update and lock the row ─▶ 33 ≥ 33, locked
//	                                        │ ◀─────────────────── Check 34: waits for the lock
//	UPDATE report …                         │                        │
//	COMMIT ────────────────────────────▶ unlocked                    │
//	                                     34 ≥ 33, locked ──────────▶ │
//	BEGIN                                   │                      UPDATE report …
//	Check 33: waits for the lock ─────────▶ │ ◀─────────────────── COMMIT
//	  StaleError{33, 34} ◀───────────────── 33 < 34
//	ROLLBACK
//
// The check is an update of the row of its resource, so the row stays locked until
// the transaction ends, and what the transaction writes is seen together with the
// mark or not at all. Between check and commit nobody else gets in. That is the
// difference to a SELECT of the token followed by a write.
//
// Three nouns:
//
//   - a [Fence] checks tokens of leases against the table of marks
//     ([Dialect.FenceTable] creates it);
//   - an [Item] is a row of a table of work that somebody has claimed ([Items]),
//     with a fence of its own, for work that needs no lease at all;
//   - a [Dialect] says which database it is.
//
// # Isolation levels
//
// What a check does when another transaction has the same resource:
//
//	PostgreSQL, READ COMMITTED    waits for the other to end, then compares with what
//	                              it has committed. Nothing fails.
//	PostgreSQL, REPEATABLE READ   waits. If the other has committed: [ErrRetry], whatever
//	and SERIALIZABLE              the tokens are, since this transaction may have read what
//	                              is out of date by then.
//	SQLite                        has one writer at a time. The check makes the transaction
//	                              the writer, after waiting for busy_timeout; then: [ErrRetry].
//
// With SQLite begin such transactions as writers (BEGIN IMMEDIATE; most drivers
// call it _txlock=immediate) and set a busy_timeout. One that begins as a reader
// and then checks is refused with [ErrRetry] at once, if anybody has written since
// it read. Let the check be the first statement.
//
// # A holder that is paused within its transaction
//
// It keeps the row locked, and its successor waits. Nothing wrong is written, but
// nothing at all either. So bound how long a transaction may idle: PostgreSQL ends it after
// idle_in_transaction_session_timeout, a setting of the role or the connection
// (5s is plenty for a transaction that only writes). SQLite has no such
// thing: a process that is stopped while it is the writer stops all others until it
// goes on or ends.
//
// # Errors
//
// [InTx] runs a transaction again after ErrRetry. The same errors can come from
// the caller's own statements and from COMMIT; [Retryable] knows them there too.
package sqlfence
