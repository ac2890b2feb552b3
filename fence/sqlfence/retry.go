package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// ErrRetry: the database has stopped the transaction because of others at the
// same time. Nothing of it has happened. Roll back, and run it again from its
// beginning, reads included.
var ErrRetry = errors.New("the transaction has to be run again")

// retry marks an error as ErrRetry if it is one.
func retry(err error) error {
	if err == nil || errors.Is(err, ErrRetry) || !Retryable(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRetry, err)
}

// Retryable tells whether an error of a statement or of a commit means that the
// transaction did not happen and may succeed when it is run again. A connection
// that broke during a commit is not of that kind: nobody knows what happened.
//
// Drivers are known by what they share. Those for PostgreSQL (pgx, pq) tell the
// SQLSTATE: 40001, serialization_failure, and 40P01, deadlock_detected. Those for
// SQLite have different types and the texts of the library: SQLITE_BUSY and
// SQLITE_LOCKED.
func Retryable(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, ErrRetry) {
		return true
	}
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState() == "40001" || e.SQLState() == "40P01"
	}
	text := err.Error()
	return strings.Contains(text, "database is locked") || strings.Contains(text, "database table is locked")
}

// The pause between two runs of a transaction grows from the first to the second.
// It is drawn from 0 up to that, so that those that collided part ways.
const (
	firstPause   = time.Millisecond
	longestPause = 64 * time.Millisecond
)

// InTx runs do in a transaction and commits, or rolls back if do fails. While the
// outcome is [Retryable] it runs do again, in a new transaction, until ctx ends.
// So do may run several times, and must do nothing outside of its transaction.
//
// Errors: those of do and of the database. One of a commit whose connection broke
// leaves open whether the transaction has happened.
func InTx(ctx context.Context, db *sql.DB, options *sql.TxOptions, do func(*sql.Tx) error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := once(ctx, db, options, do)
		if !Retryable(err) {
			return err
		}
		select {
		case <-time.After(rand.N(pause)):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func once(ctx context.Context, db *sql.DB, options *sql.TxOptions, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}
