package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"

	"leasehold/fence/sqlfence"
)

// store is the database of the workers.
type store struct {
	*sql.DB
	dialect sqlfence.Dialect
	remove  func() error // deletes what was made
}

// A batch is pending as long as it has no booking. The journal is what must not be
// written twice in the database itself: one line for each batch that was pushed.
var tables = []string{
	`CREATE TABLE batch (id bigint PRIMARY KEY, booking bigint)`,
	`CREATE TABLE journal (batch bigint NOT NULL, booking bigint NOT NULL, worker text NOT NULL)`,
}

// openStore makes an empty database: in a new schema of a PostgreSQL server, or,
// without an address, in a temporary SQLite file.
func openStore(ctx context.Context, postgres string) (*store, error) {
	open := openSQLite
	if postgres != "" {
		open = func() (*store, error) { return openPostgres(ctx, postgres) }
	}
	s, err := open()
	if err != nil {
		return nil, err
	}
	for _, statement := range append(tables, s.dialect.FenceTable()) {
		if _, err := s.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func openSQLite() (*store, error) {
	folder, err := os.MkdirTemp("", "batch-sync-")
	if err != nil {
		return nil, err
	}
	remove := func() error { return os.RemoveAll(folder) }
	// SQLite has one writer at a time, so one connection is enough, and others wait for
	// it without polling. Nothing is flushed: the file is deleted at the end.
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(folder, "data.db")+
		"?_txlock=immediate&_pragma=journal_mode(memory)&_pragma=synchronous(off)")
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	db.SetMaxOpenConns(1)
	return &store{db, sqlfence.SQLite, remove}, nil
}

func openPostgres(ctx context.Context, url string) (*store, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	schema := "batch_sync_" + strings.ToLower(rand.Text())
	config.RuntimeParams["search_path"] = schema
	// A holder that is stopped within a transaction must not stop its successor for
	// as long as it likes.
	config.RuntimeParams["idle_in_transaction_session_timeout"] = "5s"
	db := stdlib.OpenDB(*config)
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	remove := func() error {
		again := stdlib.OpenDB(*config)
		defer again.Close()
		_, err := again.Exec("DROP SCHEMA " + schema + " CASCADE")
		return err
	}
	return &store{db, sqlfence.PostgreSQL, remove}, nil
}

func (s *store) close() error { return errors.Join(s.Close(), s.remove()) }

// add makes new batches, which have just arrived.
func (s *store) add(ctx context.Context, first, last int) error {
	return sqlfence.InTx(ctx, s.DB, nil, func(tx *sql.Tx) error {
		for id := first; id <= last; id++ {
			if _, err := tx.ExecContext(ctx, `INSERT INTO batch (id) VALUES ($1)`, int64(id)); err != nil {
				return err
			}
		}
		return nil
	})
}

// pending lists the batches that are to be pushed. q is a database or a transaction.
func pending(ctx context.Context, q sqlfence.Querier) ([]int64, error) {
	rows, err := q.QueryContext(ctx, `SELECT id FROM batch WHERE booking IS NULL ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var batches []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		batches = append(batches, id)
	}
	return batches, rows.Err()
}

// mark notes that a batch was pushed.
func mark(ctx context.Context, tx *sql.Tx, batch, booking int64, worker string) error {
	if _, err := tx.ExecContext(ctx, `UPDATE batch SET booking = $1 WHERE id = $2`, booking, batch); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO journal VALUES ($1, $2, $3)`, batch, booking, worker)
	return err
}

// markedTwice counts the batches that are in the journal more than once.
func (s *store) markedTwice(ctx context.Context) (n int, err error) {
	err = s.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT batch FROM journal GROUP BY batch HAVING count(*) > 1) AS twice`).Scan(&n)
	return n, err
}
