package sqlfencetest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"leasehold/fence/sqlfence"
)

// openExample opens an SQLite file whose transactions begin as writers.
func openExample() (db *sql.DB, remove func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	db, err = sql.Open("sqlite3", "file:"+filepath.Join(dir, "data.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		panic(err)
	}
	return db, func() { db.Close(); os.RemoveAll(dir) }
}

func must(db *sql.DB, statements ...string) {
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			panic(err)
		}
	}
}

// Alice is paused, bob takes over, alice wakes up.
func Example_check() {
	db, remove := openExample()
	defer remove()
	ctx := context.Background()
	must(db, sqlfence.SQLite.FenceTable(), `CREATE TABLE report (text)`, `INSERT INTO report VALUES ('')`)

	write := func(token uint64, text string) error {
		return sqlfence.InTx(ctx, db, nil, func(tx *sql.Tx) error {
			if err := sqlfence.Check(ctx, tx, sqlfence.SQLite, "reports/today", token); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `UPDATE report SET text = ?`, text)
			return err
		})
	}
	fmt.Println(write(33, "by alice"))
	fmt.Println(write(34, "by bob"))
	fmt.Println(write(33, "by alice, who was paused"))

	var text string
	err := db.QueryRow(`SELECT text FROM report`).Scan(&text)
	fmt.Println(text, err)
	// Output:
	// <nil>
	// <nil>
	// stale token: "reports/today" has seen token 34, this is 33
	// by bob <nil>
}

// Two workers share a table of batches. The time of the first one's claim runs out.
func Example_items() {
	db, remove := openExample()
	defer remove()
	ctx := context.Background()
	must(db, `CREATE TABLE batch (id integer PRIMARY KEY)`, `INSERT INTO batch VALUES (1)`)
	must(db, sqlfence.SQLite.ItemColumns("batch", "id")...)

	batches := sqlfence.Items[int64]{Dialect: sqlfence.SQLite, Table: "batch", Key: "id"}
	first, err := batches.Claim(ctx, db, "alice", time.Minute, 1)
	fmt.Println("alice:", len(first), err)
	none, err := batches.Claim(ctx, db, "bob", time.Minute, 1)
	fmt.Println("bob:", len(none), err)

	must(db, `UPDATE batch SET lease_until = 0`) // a minute later
	second, err := batches.Claim(ctx, db, "bob", time.Minute, 1)
	fmt.Println("bob:", len(second), err)

	fmt.Println("alice:", batches.Complete(ctx, db, first[0]))
	fmt.Println("bob:", batches.Complete(ctx, db, second[0]))
	// Output:
	// alice: 1 <nil>
	// bob: 0 <nil>
	// bob: 1 <nil>
	// alice: the claim is over: batch 1 was claimed with fence 1, and now has fence 2, of "bob"
	// bob: <nil>
}
