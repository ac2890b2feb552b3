package sqlfencetest

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/fence"
	"leasehold/fence/sqlfence"
)

// writers at the same time.
const writers = 8

var transactions = flag.Int("transactions", 1000, "how many transactions the writers make on each database")

// documents is what the writers write, and a history that the database itself
// keeps of it: its order is the order in which the row was written.
func documents(t *testing.T, db database) {
	db.mustExec(t, db.dialect.FenceTable(),
		`CREATE TABLE document (resource text PRIMARY KEY, token bigint NOT NULL)`)
	for r := range resources {
		db.mustExec(t, fmt.Sprintf(`INSERT INTO document VALUES ('r%d', 0)`, r))
	}
	if db.dialect == sqlfence.SQLite {
		db.mustExec(t,
			`CREATE TABLE history (seq integer PRIMARY KEY AUTOINCREMENT, resource text, token bigint)`,
			`CREATE TRIGGER remember AFTER UPDATE ON document BEGIN
			   INSERT INTO history (resource, token) VALUES (new.resource, new.token);
			 END`)
		return
	}
	db.mustExec(t,
		`CREATE TABLE history (seq bigserial PRIMARY KEY, resource text, token bigint)`,
		`CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		   INSERT INTO history (resource, token) VALUES (new.resource, new.token);
		   RETURN NULL;
		 END $$`,
		`CREATE TRIGGER remember AFTER UPDATE ON document FOR EACH ROW EXECUTE FUNCTION remember()`)
}

const resources = 4

// staleWrites counts the writes in the history that came after one with a higher
// token.
func staleWrites(t *testing.T, db database) int {
	return db.number(t, `SELECT count(*) FROM (
	  SELECT token, max(token) OVER (PARTITION BY resource ORDER BY seq
	    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest FROM history) AS h
	  WHERE token < highest`)
}

// outcome counts what became of the transactions.
type outcome struct{ accepted, refused atomic.Int64 }

// compete lets the writers make n transactions on a few resources, with tokens
// that rise in the long run and are random within a window.
func compete(t *testing.T, n int, write func(resource string, token uint64) error) *outcome {
	t.Helper()
	var o outcome
	var drawn atomic.Int64
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for {
				i := drawn.Add(1)
				if i > int64(n) {
					return
				}
				token := uint64(i) + rand.Uint64N(32)
				switch err := write(fmt.Sprint("r", rand.IntN(resources)), token); {
				case err == nil:
					o.accepted.Add(1)
				case errors.Is(err, fence.ErrStale):
					o.refused.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return &o
}

// TestCheck_NeverStale ensures that of many transactions at the same time none
// writes after one with a higher token, on every isolation level.
func TestCheck_NeverStale(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		levels := []sql.IsolationLevel{sql.LevelDefault}
		if db.dialect == sqlfence.PostgreSQL {
			levels = append(levels, sql.LevelRepeatableRead, sql.LevelSerializable)
		}
		documents(t, db)
		for _, level := range levels {
			t.Run(level.String(), func(t *testing.T) {
				db.mustExec(t, `DELETE FROM history`, `DELETE FROM fence`)
				neverStale(t, db, level)
			})
		}
	})
}

func neverStale(t *testing.T, db database, level sql.IsolationLevel) {
	var runs atomic.Int64
	start := time.Now()
	o := compete(t, *transactions, func(resource string, token uint64) error {
		return sqlfence.InTx(t.Context(), db.DB, &sql.TxOptions{Isolation: level}, func(tx *sql.Tx) error {
			runs.Add(1)
			if err := sqlfence.Check(t.Context(), tx, db.dialect, resource, token); err != nil {
				return err
			}
			_, err := tx.ExecContext(t.Context(), `UPDATE document SET token = $1 WHERE resource = $2`, int64(token), resource)
			return err
		})
	})
	t.Logf("%d accepted, %d refused, %d repeated, in %v", o.accepted.Load(), o.refused.Load(),
		runs.Load()-int64(*transactions), time.Since(start).Round(time.Millisecond))
	if stale := staleWrites(t, db); stale > 0 {
		t.Errorf("%d stale writes, want none", stale)
	}
	if got := db.number(t, `SELECT count(*) FROM history`); int64(got) != o.accepted.Load() {
		t.Errorf("%d writes in the history, %d were accepted", got, o.accepted.Load())
	}
	if got := db.number(t, `SELECT count(*) FROM document JOIN fence USING (resource) WHERE document.token = fence.token`); got != resources {
		t.Errorf("%d resources have the mark of their last write, want %d", got, resources)
	}
	least := int64(*transactions / 10)
	if o.accepted.Load() < least || o.refused.Load() < least {
		t.Error("too one-sided to show anything")
	}
}

// TestCheckThenWrite_IsStale ensures that the test above would see stale
// writes: the usual way, to read the token, to compare, and then to write, makes some.
func TestCheckThenWrite_IsStale(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		documents(t, db)
		compete(t, 2000, func(resource string, token uint64) error {
			var highest uint64
			err := db.QueryRowContext(t.Context(), `SELECT token FROM document WHERE resource = $1`, resource).Scan(&highest)
			if err != nil {
				return err
			}
			if token < highest {
				return fence.ErrStale
			}
			return sqlfence.InTx(t.Context(), db.DB, nil, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), `UPDATE document SET token = $1 WHERE resource = $2`, int64(token), resource)
				return err
			})
		})
		stale := staleWrites(t, db)
		t.Logf("%d stale writes", stale)
		if stale == 0 {
			t.Error("no stale write: inconclusive")
		}
	})
}

// TestInTx_Repeats ensures that a transaction that collided is run again as a
// whole, and that the end of the context ends that.
func TestInTx_Repeats(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		documents(t, db)
		runs := 0
		err := sqlfence.InTx(t.Context(), db.DB, nil, func(tx *sql.Tx) error {
			runs++
			if _, err := tx.ExecContext(t.Context(), `UPDATE document SET token = token + 1`); err != nil {
				return err
			}
			if runs < 3 {
				return fmt.Errorf("as if: %w", sqlfence.ErrRetry)
			}
			return nil
		})
		if sum := db.number(t, `SELECT sum(token) FROM document`); err != nil || runs != 3 || sum != resources {
			t.Errorf("%v after %d runs, sum %d; want nil, 3, %d", err, runs, sum, resources)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = sqlfence.InTx(ctx, db.DB, nil, func(*sql.Tx) error { cancel(); return sqlfence.ErrRetry })
		if !errors.Is(err, context.Canceled) || !errors.Is(err, sqlfence.ErrRetry) {
			t.Errorf("after the context had ended: %v", err)
		}
	})
}
