package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"

	"leasehold/fence/sqlfence"
)

// Entry of the journal. Total is the sum of all amounts up to it.
type Entry struct {
	Sequence int64  `json:"sequence"`
	Key      string `json:"key"` // of the request
	Amount   int64  `json:"amount"`
	Total    int64  `json:"total"`
	Token    uint64 `json:"token"` // of the grant under which it was written
	Leader   string `json:"leader"`
}

// errKey: the key belongs to a request that was another one.
var errKey = errors.New("this idempotency key was used for another amount")

// grant is what the journal needs to know of a lease.
type grant struct {
	token     uint64
	clusterID string
}

// journal is an SQLite file that only ever grows. All copies open it.
type journal struct {
	db       *sql.DB
	resource string // whose mark fences it
	unfenced bool   // to see what goes wrong
}

func (s copySettings) openJournal(ctx context.Context) (*journal, error) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(s.data, "journal.db")+
		"?_txlock=immediate&_pragma=busy_timeout(1000)&_pragma=journal_mode(wal)")
	if err != nil {
		return nil, err
	}
	j := &journal{db, s.lease, s.unfenced}
	for _, statement := range []string{sqlfence.SQLite.FenceTable(), `CREATE TABLE IF NOT EXISTS journal (
  sequence integer PRIMARY KEY AUTOINCREMENT,
  key text UNIQUE NOT NULL,
  amount integer NOT NULL,
  total integer NOT NULL,
  token integer NOT NULL,
  leader text NOT NULL
)`} {
		err := sqlfence.InTx(ctx, db, nil, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, statement)
			return err
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("create the journal: %w", err), db.Close())
		}
	}
	return j, nil
}

func (j *journal) close() error { return j.db.Close() }

// takeOver gives the total. The check raises the mark to our token, so that from here
// on all that led before us are refused, and the total stays ours to change.
func (j *journal) takeOver(ctx context.Context, g grant) (total int64, err error) {
	err = j.fenced(ctx, g, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT coalesce((SELECT total FROM journal ORDER BY sequence DESC LIMIT 1), 0)`).Scan(&total)
	})
	return total, err
}

// confirm tells whether nobody has taken over so far.
func (j *journal) confirm(ctx context.Context, g grant) error {
	return j.fenced(ctx, g, func(*sql.Tx) error { return nil })
}

// add appends an entry with the next total, unless its key is there: then it gives
// the entry that was made of the first one with this key.
func (j *journal) add(ctx context.Context, g grant, e Entry) (added Entry, repeated bool, err error) {
	err = j.fenced(ctx, g, func(tx *sql.Tx) error {
		added = e
		added.Token = g.token
		err := tx.QueryRowContext(ctx, `SELECT sequence, amount, total, token, leader FROM journal WHERE key = ?`, e.Key).
			Scan(&added.Sequence, &added.Amount, &added.Total, &added.Token, &added.Leader)
		switch {
		case err == nil && added.Amount != e.Amount:
			return errKey
		case !errors.Is(err, sql.ErrNoRows):
			repeated = err == nil
			return err
		}
		repeated = false
		return tx.QueryRowContext(ctx, `INSERT INTO journal (key, amount, total, token, leader) VALUES (?, ?, ?, ?, ?) RETURNING sequence`,
			e.Key, e.Amount, e.Total, int64(g.token), e.Leader).Scan(&added.Sequence)
	})
	return added, repeated, err
}

// fenced runs do in one transaction with the check of the token.
func (j *journal) fenced(ctx context.Context, g grant, do func(*sql.Tx) error) error {
	marks := sqlfence.Fence{Dialect: sqlfence.SQLite, ClusterID: g.clusterID}
	return sqlfence.InTx(ctx, j.db, nil, func(tx *sql.Tx) error {
		if !j.unfenced {
			if err := marks.Check(ctx, tx, j.resource, g.token); err != nil {
				return err
			}
		}
		return do(tx)
	})
}

// entries reads the whole journal.
func (j *journal) entries(ctx context.Context) (all []Entry, err error) {
	rows, err := j.db.QueryContext(ctx, `SELECT sequence, key, amount, total, token, leader FROM journal ORDER BY sequence`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e Entry
		if err := rows.Scan(&e.Sequence, &e.Key, &e.Amount, &e.Total, &e.Token, &e.Leader); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, rows.Err()
}

// writable tells whether somebody could write now, or soon. A demonstration asks lest
// it pause the one that does: with SQLite that would stop all others.
func (j *journal) writable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	tx, err := j.db.BeginTx(ctx, nil) // waits for the one that writes
	if err != nil {
		return false
	}
	return tx.Rollback() == nil
}
