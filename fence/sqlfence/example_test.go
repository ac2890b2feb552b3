package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"time"

	"leasehold/fence"
	"leasehold/fence/sqlfence"
)

// The token of the lease and the id of its cluster come with the grant. The check
// is the first statement of the transaction that writes.
func ExampleFence_Check() {
	var (
		ctx       = context.Background()
		db        *sql.DB // opened with the driver of your choice
		token     uint64  // of the grant
		clusterID string  // of the grant
	)
	marks := sqlfence.Fence{Dialect: sqlfence.PostgreSQL, ClusterID: clusterID}
	err := sqlfence.InTx(ctx, db, nil, func(tx *sql.Tx) error {
		if err := marks.Check(ctx, tx, "reports/today", token); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE report SET text = $1 WHERE day = $2", "…", time.Now())
		return err
	})
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		log.Print("stop: another has taken over with token ", stale.Highest)
	}
}

// A worker takes rows of a table, one after the other. No lease server is needed.
func ExampleItems() {
	var (
		ctx = context.Background()
		db  *sql.DB // opened with the driver of your choice
	)
	batches := sqlfence.Items[int64]{Dialect: sqlfence.PostgreSQL, Table: "batch", Key: "id"}
	claimed, err := batches.Claim(ctx, db, "worker-1", time.Minute, 1)
	if err != nil || len(claimed) == 0 {
		return
	}
	batch := claimed[0]
	result := "…" // of work that stops at batch.Until
	err = sqlfence.InTx(ctx, db, nil, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO result VALUES ($1, $2)", batch.Key, result); err != nil {
			return err
		}
		return batches.Complete(ctx, tx, batch)
	})
	if errors.Is(err, sqlfence.ErrItemLost) {
		log.Print("another has claimed it; nothing was written: ", err)
	}
}
