package main

import (
	"context"
	"database/sql"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"

	"leasehold/fence/sqlfence"
)

// records is what outlives every replica and every lease: which slots were begun by
// whom, and the results.
type records struct {
	db      *sql.DB
	dialect sqlfence.Dialect
	job     string
}

// grant is what the records need to know of a lease.
type grant struct {
	token     uint64
	clusterID string
}

func (s settings) openRecords() (*records, error) {
	r := &records{dialect: sqlfence.PostgreSQL, job: s.job}
	driver, source := "pgx", s.postgres
	if source == "" {
		r.dialect, driver = sqlfence.SQLite, "sqlite3"
		source = "file:" + s.sqlite + "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)"
	}
	var err error
	r.db, err = sql.Open(driver, source)
	return r, err
}

func (r *records) close() error { return r.db.Close() }

// create makes the tables.
func (r *records) create(ctx context.Context) error {
	for _, statement := range []string{
		r.dialect.FenceTable(),
		`CREATE TABLE IF NOT EXISTS attempt (
  job text, slot text, token bigint, replica text NOT NULL,
  PRIMARY KEY (job, slot, token)
)`,
		`CREATE TABLE IF NOT EXISTS result (
  job text, slot text, token bigint NOT NULL, replica text NOT NULL, value text NOT NULL,
  PRIMARY KEY (job, slot)
)`,
	} {
		if _, err := r.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// takeOver gives the last slot that has a result, a zero one if none has. All before
// it have one too, since they are worked through in order. The check raises the mark
// of the job to our token, so that whoever held the lease before us can write nothing
// more: what we read here stays true until we change it.
func (r *records) takeOver(ctx context.Context, g grant) (latest slot, err error) {
	err = r.fenced(ctx, g, func(tx *sql.Tx) error {
		var text sql.NullString
		err := tx.QueryRowContext(ctx, `SELECT max(slot) FROM result WHERE job = $1`, r.job).Scan(&text)
		if err != nil || !text.Valid {
			return err
		}
		latest, err = parseSlot(text.String)
		return err
	})
	return latest, err
}

// begin records an attempt.
func (r *records) begin(ctx context.Context, g grant, s slot, replica string) error {
	return r.fenced(ctx, g, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO attempt (job, slot, token, replica) VALUES ($1, $2, $3, $4)`,
			r.job, s.String(), int64(g.token), replica)
		return err
	})
}

// finish records the result of a slot.
func (r *records) finish(ctx context.Context, g grant, s slot, replica, value string) error {
	return r.fenced(ctx, g, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO result (job, slot, token, replica, value) VALUES ($1, $2, $3, $4, $5)`,
			r.job, s.String(), int64(g.token), replica, value)
		return err
	})
}

// fenced runs do in one transaction with the check of the token, which comes first:
// what was read before it could be out of date.
func (r *records) fenced(ctx context.Context, g grant, do func(*sql.Tx) error) error {
	marks := sqlfence.Fence{Dialect: r.dialect, ClusterID: g.clusterID}
	return sqlfence.InTx(ctx, r.db, nil, func(tx *sql.Tx) error {
		if err := marks.Check(ctx, tx, leaseName(r.job), g.token); err != nil {
			return err
		}
		return do(tx)
	})
}

// outcome is what the records say of a slot.
type outcome struct {
	slot     slot
	attempts int
	latest   uint64 // token of the last attempt
	results  int
	token    uint64 // of the result
	replica  string // that has finished it
}

// outcome reads what became of a slot.
func (r *records) outcome(ctx context.Context, s slot) (outcome, error) {
	o := outcome{slot: s}
	err := r.db.QueryRowContext(ctx, `SELECT count(*), coalesce(max(token), 0)
FROM attempt WHERE job = $1 AND slot = $2`, r.job, s.String()).Scan(&o.attempts, &o.latest)
	if err != nil {
		return o, err
	}
	err = r.db.QueryRowContext(ctx, `SELECT count(*), coalesce(max(token), 0), coalesce(max(replica), '')
FROM result WHERE job = $1 AND slot = $2`, r.job, s.String()).Scan(&o.results, &o.token, &o.replica)
	return o, err
}
