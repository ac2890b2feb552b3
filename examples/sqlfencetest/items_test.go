package sqlfencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/fence/sqlfence"
)

const hour = time.Hour

// batches makes a table of n items with the keys 1 to n.
func batches(t *testing.T, db database, n int) sqlfence.Items[int64] {
	db.mustExec(t, `CREATE TABLE batch (id bigint PRIMARY KEY)`, `CREATE TABLE result (batch bigint, worker text)`)
	db.mustExec(t, db.dialect.ItemColumns("batch", "id")...)
	for id := range n {
		db.mustExec(t, fmt.Sprintf(`INSERT INTO batch (id) VALUES (%d)`, id+1))
	}
	return sqlfence.Items[int64]{Dialect: db.dialect, Table: "batch", Key: "id"}
}

// runOut ends the time of a claim.
func (db database) runOut(t *testing.T, id int64) {
	past := "0"
	if db.dialect == sqlfence.PostgreSQL {
		past = "'epoch'"
	}
	db.mustExec(t, fmt.Sprintf(`UPDATE batch SET lease_until = %s WHERE id = %d AND lease_until IS NOT NULL`, past, id))
}

func keys[K any](items []sqlfence.Item[K]) (all []K) {
	for _, item := range items {
		all = append(all, item.Key)
	}
	return all
}

// TestItems_Claim ensures that a claim takes what is open, no more than its limit,
// and never what another has whose time has not run out.
func TestItems_Claim(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		items := batches(t, db, 5)
		claim := func(owner string, limit int, want ...int64) []sqlfence.Item[int64] {
			t.Helper()
			before := time.Now()
			got, err := items.Claim(t.Context(), db, owner, hour, limit)
			if err != nil {
				t.Fatal(err)
			}
			all := keys(got)
			slices.Sort(all)
			if !slices.Equal(all, want) {
				t.Errorf("%s got %v, want %v", owner, all, want)
			}
			for _, item := range got {
				if item.Until.Before(before.Add(hour)) || item.Until.After(time.Now().Add(hour)) {
					t.Errorf("Until is %v, claimed at %v for an hour", item.Until, before)
				}
			}
			return got
		}
		a := claim("a", 2, 1, 2)
		claim("b", 2, 3, 4)
		claim("c", 9, 5)
		claim("d", 9)
		if a[0].Fence != 1 {
			t.Errorf("the first claim has fence %d, want 1", a[0].Fence)
		}
		db.runOut(t, 2)
		if again := claim("d", 9, 2); again[0].Fence != 2 {
			t.Errorf("the second claim has fence %d, want 2", again[0].Fence)
		}
	})
}

// TestItems_Claim_TTL ensures that the time of a claim is that of the database, to
// the millisecond.
func TestItems_Claim_TTL(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		items := batches(t, db, 1)
		if _, err := items.Claim(t.Context(), db, "a", 90*time.Second, 1); err != nil {
			t.Fatal(err)
		}
		left := `SELECT CAST(lease_until - (julianday('now') - 2440587.5) * 86400000 AS integer) FROM batch`
		if db.dialect == sqlfence.PostgreSQL {
			left = `SELECT CAST(extract(epoch FROM lease_until - clock_timestamp()) * 1000 AS bigint) FROM batch`
		}
		if got := db.number(t, left); got > 90_000 || got < 60_000 {
			t.Errorf("%d ms are left of 90 s", got)
		}
	})
}

// TestItems_Extend_LateInTransaction ensures, with PostgreSQL, that the time of a claim
// counts from the statement, and not from a transaction that began long before it.
func TestItems_Extend_LateInTransaction(t *testing.T) {
	db := postgres(t)
	items := batches(t, db, 1)
	got, err := items.Claim(t.Context(), db, "a", hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	late := 0
	err = sqlfence.InTx(t.Context(), db.DB, nil, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(t.Context(), `SELECT pg_sleep(0.1)`); err != nil {
			return err
		}
		if _, err := items.Extend(t.Context(), tx, got[0], hour); err != nil {
			return err
		}
		return tx.QueryRowContext(t.Context(), `SELECT count(*) FROM batch WHERE lease_until >= now() + interval '1 hour 100 milliseconds'`).Scan(&late)
	})
	if err != nil || late != 1 {
		t.Errorf("the time counts from the begin of the transaction (%v)", err)
	}
}

// TestItems_Fence ensures that only the latest claim completes, extends or gives
// back an item, and that a refusal says what became of it.
func TestItems_Fence(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		items := batches(t, db, 1)
		claim := func(owner string) sqlfence.Item[int64] {
			t.Helper()
			got, err := items.Claim(t.Context(), db, owner, hour, 1)
			if err != nil || len(got) != 1 {
				t.Fatalf("%s claimed %v, %v", owner, got, err)
			}
			return got[0]
		}
		refused := func(what string, err error, want sqlfence.ItemError) {
			t.Helper()
			got, ok := errors.AsType[*sqlfence.ItemError](err)
			if !ok || !errors.Is(err, sqlfence.ErrItemLost) || !reflect.DeepEqual(*got, want) {
				t.Errorf("%s: %v, want %v", what, err, &want)
			}
		}
		ctx := t.Context()

		a := claim("a")
		db.runOut(t, 1)
		a, err := items.Extend(ctx, db, a, hour) // late, but nobody has come
		if err != nil {
			t.Fatal(err)
		}
		if none, err := items.Claim(ctx, db, "b", hour, 1); err != nil || len(none) != 0 {
			t.Fatalf("after it was extended: %v, %v", none, err)
		}
		db.runOut(t, 1)
		b := claim("b")
		overtaken := sqlfence.ItemError{Table: "batch", Key: int64(1), Fence: 1, Now: 2, Owner: "b"}
		refused("complete, overtaken", items.Complete(ctx, db, a), overtaken)
		refused("release, overtaken", items.Release(ctx, db, a), overtaken)
		_, err = items.Extend(ctx, db, a, hour)
		refused("extend, overtaken", err, overtaken)

		if err := items.Release(ctx, db, b); err != nil {
			t.Fatal(err)
		}
		refused("complete, given back", items.Complete(ctx, db, b),
			sqlfence.ItemError{Table: "batch", Key: int64(1), Fence: 2, Now: 2, Owner: "b"})
		c := claim("c")
		db.runOut(t, 1)
		if err := items.Complete(ctx, db, c); err != nil { // late, but nobody has come
			t.Fatal(err)
		}
		refused("complete again", items.Complete(ctx, db, c),
			sqlfence.ItemError{Table: "batch", Key: int64(1), Fence: 3, Now: 3, Owner: "c", Done: true})
		if none, err := items.Claim(ctx, db, "d", hour, 1); err != nil || len(none) != 0 {
			t.Errorf("of what is completed %v was claimed, %v", none, err)
		}
		db.mustExec(t, `DELETE FROM batch`)
		refused("complete, deleted", items.Complete(ctx, db, c), sqlfence.ItemError{Table: "batch", Key: int64(1), Fence: 3})
	})
}

// TestItems_Names ensures that tables and columns may have any name, and that keys may
// be texts.
func TestItems_Names(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		schema := map[sqlfence.Dialect]string{sqlfence.SQLite: "main.", sqlfence.PostgreSQL: "public."}[db.dialect]
		items := sqlfence.Items[string]{Dialect: db.dialect, Table: schema + "order", Key: `the "key" $1 ?2`}
		db.mustExec(t, `CREATE TABLE "order" ("the ""key"" $1 ?2" text PRIMARY KEY)`)
		db.mustExec(t, db.dialect.ItemColumns("order", items.Key)...)
		db.mustExec(t, `INSERT INTO "order" ("the ""key"" $1 ?2") VALUES ('x')`)
		got, err := items.Claim(t.Context(), db, "a", hour, 1)
		if err != nil || len(got) != 1 || got[0].Key != "x" {
			t.Fatalf("claimed %v, %v", got, err)
		}
		if _, err := items.Extend(t.Context(), db, got[0], hour); err != nil {
			t.Error(err)
		}
		if err := items.Complete(t.Context(), db, got[0]); err != nil {
			t.Error(err)
		}
	})
}

// TestItems_Claim_SkipsLocked ensures, with PostgreSQL, that a claim does not wait
// for one that is not yet committed, nor for a completion.
func TestItems_Claim_SkipsLocked(t *testing.T) {
	db := postgres(t)
	items := batches(t, db, 3)
	mine, err := items.Claim(t.Context(), db, "a", hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := items.Claim(t.Context(), tx, "b", hour, 1); err != nil {
		t.Fatal(err)
	}
	if err := items.Complete(t.Context(), tx, mine[0]); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got, err := items.Claim(ctx, db, "c", hour, 3)
	if err != nil || !slices.Equal(keys(got), []int64{3}) {
		t.Errorf("beside an open transaction: %v, %v; want 3", got, err)
	}
}

// TestItems_OneResultEach ensures that every item gets exactly one result, though
// workers lose claims in the middle and try to complete them all the same.
func TestItems_OneResultEach(t *testing.T) {
	const n = 300
	onEach(t, func(t *testing.T, db database) {
		items := batches(t, db, n)
		var lost atomic.Int64
		complete := func(worker string, item sqlfence.Item[int64]) error {
			return sqlfence.InTx(t.Context(), db.DB, nil, func(tx *sql.Tx) error {
				if _, err := tx.ExecContext(t.Context(), `INSERT INTO result VALUES ($1, $2)`, item.Key, worker); err != nil {
					return err
				}
				return items.Complete(t.Context(), tx, item)
			})
		}
		var all sync.WaitGroup
		for w := range writers {
			worker := fmt.Sprint("w", w)
			all.Go(func() {
				var paused []sqlfence.Item[int64] // claims of which this worker does not know that their time is over
				for {
					got, err := items.Claim(t.Context(), db, worker, hour, 1+rand.IntN(4))
					if err != nil {
						t.Error(err)
						return
					}
					if len(got) == 0 {
						break
					}
					for _, item := range got {
						if rand.IntN(4) == 0 {
							db.runOut(t, item.Key)
							paused = append(paused, item)
						} else if err := complete(worker, item); err != nil {
							t.Error(err)
						}
					}
				}
				for _, item := range paused {
					if err := complete(worker, item); errors.Is(err, sqlfence.ErrItemLost) {
						lost.Add(1)
					} else if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		t.Logf("%d claims were lost and refused", lost.Load())
		if lost.Load() == 0 {
			t.Error("no claim was lost: inconclusive")
		}
		if results := db.number(t, `SELECT count(*) FROM result`); results != n {
			t.Errorf("%d results for %d items", results, n)
		}
		if distinct := db.number(t, `SELECT count(DISTINCT batch) FROM result`); distinct != n {
			t.Errorf("%d of %d items have a result", distinct, n)
		}
	})
}
