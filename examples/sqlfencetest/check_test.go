package sqlfencetest

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"leasehold/fence"
	"leasehold/fence/sqlfence"
)

// TestCheck_Answers ensures what is admitted and what is refused, and with which
// error.
func TestCheck_Answers(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		db.mustExec(t, db.dialect.FenceTable(), db.dialect.FenceTable()) // the second time it is there
		for _, step := range []struct {
			resource string
			token    uint64
			cluster  string
			want     error
		}{
			{"a", 5, "", nil},
			{"a", 5, "", nil},
			{"a", 4, "", &fence.StaleError{Resource: "a", Token: 4, Highest: 5}},
			{"b", 4, "", nil},
			{"", 1, "", nil},
			{"ä \"'; --", 7, "", nil},
			{"ä \"'; --", 6, "", &fence.StaleError{Resource: "ä \"'; --", Token: 6, Highest: 7}},
			{"a", 0, "", fence.ErrToken},
			{"a", math.MaxInt64 + 1, "", &sqlfence.RangeError{Resource: "a", Token: math.MaxInt64 + 1}},
			{"a", math.MaxUint64, "", &sqlfence.RangeError{Resource: "a", Token: math.MaxUint64}},
			{"a", math.MaxInt64, "", nil},
			{"a", 6, "", &fence.StaleError{Resource: "a", Token: 6, Highest: math.MaxInt64}},
			{"b", 3, "c1", &fence.StaleError{Resource: "b", Token: 3, Highest: 4}},
			{"b", 4, "c1", nil}, // pins
			{"b", 5, "c1", nil},
			{"b", 9, "c2", &fence.ClusterError{Resource: "b", ClusterID: "c2", Pinned: "c1"}},
			{"b", 9, "", &fence.ClusterError{Resource: "b", Pinned: "c1"}},
			{"b", 4, "c1", &fence.StaleError{Resource: "b", Token: 4, Highest: 5}},
		} {
			f := sqlfence.Fence{Dialect: db.dialect, ClusterID: step.cluster}
			err := sqlfence.InTx(t.Context(), db.DB, nil, func(tx *sql.Tx) error {
				return f.Check(t.Context(), tx, step.resource, step.token)
			})
			if !errors.Is(err, step.want) && !reflect.DeepEqual(err, step.want) {
				t.Errorf("Check(%q, %d, cluster %q) = %v, want %v", step.resource, step.token, step.cluster, err, step.want)
			}
		}
		// As the docs say how to move to a new cluster.
		db.mustExec(t, `UPDATE fence SET token = 0, cluster_id = ''`)
		err := sqlfence.InTx(t.Context(), db.DB, nil, func(tx *sql.Tx) error {
			return sqlfence.Fence{Dialect: db.dialect, ClusterID: "c3"}.Check(t.Context(), tx, "b", 1)
		})
		if err != nil {
			t.Errorf("the first token of a new cluster: %v", err)
		}
	})
}

// TestCheck_RolledBack ensures that the mark and the data are one: a transaction
// that is rolled back raises no mark.
func TestCheck_RolledBack(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		db.mustExec(t, db.dialect.FenceTable())
		failed := errors.New("the write failed")
		err := sqlfence.InTx(t.Context(), db.DB, nil, func(tx *sql.Tx) error {
			if err := sqlfence.Check(t.Context(), tx, db.dialect, "a", 9); err != nil {
				return err
			}
			return failed
		})
		if err != failed {
			t.Fatalf("InTx = %v, want %v", err, failed)
		}
		if err := check(t, db, 5); err != nil {
			t.Errorf("Check of a lower token afterwards = %v, want nil", err)
		}
	})
}

func check(t *testing.T, db database, token uint64) error {
	return sqlfence.InTx(t.Context(), db.DB, nil, func(tx *sql.Tx) error {
		return sqlfence.Check(t.Context(), tx, db.dialect, "a", token)
	})
}

// TestCheck_Waits ensures, with PostgreSQL, that a check waits for the end of a
// transaction that has checked the same resource, be it the first one of all or
// not, and what it says then on each isolation level.
func TestCheck_Waits(t *testing.T) {
	db := postgres(t)
	db.mustExec(t, db.dialect.FenceTable())
	stale := &fence.StaleError{Resource: "a", Token: 4, Highest: 5}
	for _, test := range []struct {
		name   string
		level  sql.IsolationLevel
		token  uint64 // of the one that waits; the other has 5
		commit bool
		want   error
	}{
		{"newer", sql.LevelReadCommitted, 6, true, nil},
		{"equal", sql.LevelReadCommitted, 5, true, nil},
		{"older", sql.LevelReadCommitted, 4, true, stale},
		{"older, rolled back", sql.LevelReadCommitted, 4, false, nil},
		{"newer, repeatable read", sql.LevelRepeatableRead, 6, true, sqlfence.ErrRetry},
		{"equal, repeatable read", sql.LevelRepeatableRead, 5, true, sqlfence.ErrRetry},
		{"older, repeatable read", sql.LevelRepeatableRead, 4, true, sqlfence.ErrRetry},
		{"older, repeatable read, rolled back", sql.LevelRepeatableRead, 4, false, nil},
		{"newer, serializable", sql.LevelSerializable, 6, true, sqlfence.ErrRetry},
		{"older, serializable", sql.LevelSerializable, 4, true, sqlfence.ErrRetry},
		{"older, serializable, rolled back", sql.LevelSerializable, 4, false, nil},
	} {
		for _, first := range []bool{true, false} {
			name := test.name
			if first {
				name += ", first of all"
			}
			t.Run(name, func(t *testing.T) {
				db.mustExec(t, `DELETE FROM fence`)
				if !first {
					db.mustExec(t, `INSERT INTO fence VALUES ('a', 1, '', now())`)
				}
				err := behind(t, db, test.level, test.token, test.commit)
				if !errors.Is(err, test.want) && !reflect.DeepEqual(err, test.want) {
					t.Errorf("Check = %v, want %v", err, test.want)
				}
			})
		}
	}
}

// behind checks a token while another transaction has checked 5 for the same
// resource, ends that one once the check is seen to wait, and gives the result.
func behind(t *testing.T, db database, level sql.IsolationLevel, token uint64, commit bool) error {
	t.Helper()
	ahead, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ahead.Rollback()
	if err := sqlfence.Check(t.Context(), ahead, db.dialect, "a", 5); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	result := make(chan error, 1)
	go func() { result <- sqlfence.Check(t.Context(), tx, db.dialect, "a", token) }()
	db.waitFor(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	if commit {
		err = ahead.Commit()
	} else {
		err = ahead.Rollback()
	}
	if err != nil {
		t.Fatal(err)
	}
	return <-result
}

// TestCheck_PausedHolder ensures, with PostgreSQL, that a holder that is paused
// between its check and its commit keeps its successor waiting no longer than
// the server's setting allows, and that its own commit fails then.
func TestCheck_PausedHolder(t *testing.T) {
	db := postgres(t)
	db.mustExec(t, db.dialect.FenceTable())
	paused, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer paused.Rollback()
	if _, err := paused.ExecContext(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = '200ms'`); err != nil {
		t.Fatal(err)
	}
	if err := sqlfence.Check(t.Context(), paused, db.dialect, "a", 5); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = sqlfence.InTx(ctx, db.DB, nil, func(tx *sql.Tx) error {
		return sqlfence.Check(ctx, tx, db.dialect, "a", 6)
	})
	if err != nil {
		t.Errorf("the successor: %v", err)
	}
	if err := paused.Commit(); err == nil || sqlfence.Retryable(err) {
		t.Errorf("the commit of the paused one = %v, want an error that is not for running again", err)
	}
	if highest := db.number(t, `SELECT token FROM fence`); highest != 6 {
		t.Errorf("the mark is %d, want 6", highest)
	}
}

// waitFor repeats a query until it gives a number other than 0.
func (db database) waitFor(t *testing.T, query string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); db.number(t, query) == 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("still 0: %s", query)
		}
	}
}

// TestCheck_SQLite_Busy ensures, with SQLite, that a check that cannot become the
// writer says ErrRetry: because another is, and because the transaction has read
// what is out of date.
func TestCheck_SQLite_Busy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, sqlfence.SQLite, "sqlite3", "file:"+path+"?_txlock=deferred&_pragma=busy_timeout(0)&_pragma=journal_mode(wal)")
	db.mustExec(t, db.dialect.FenceTable(), `INSERT INTO fence VALUES ('a', 1, '', '')`)
	begin := func() *sql.Tx {
		tx, err := db.BeginTx(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		return tx
	}
	writer, second, reader := begin(), begin(), begin()
	var n int
	if err := reader.QueryRow(`SELECT count(*) FROM fence`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if err := sqlfence.Check(t.Context(), writer, db.dialect, "a", 5); err != nil {
		t.Fatal(err)
	}
	if err := sqlfence.Check(t.Context(), second, db.dialect, "a", 6); !errors.Is(err, sqlfence.ErrRetry) {
		t.Errorf("beside a writer: %v, want ErrRetry", err)
	}
	if err := writer.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := sqlfence.Check(t.Context(), reader, db.dialect, "a", 6); !errors.Is(err, sqlfence.ErrRetry) {
		t.Errorf("after reading what is out of date: %v, want ErrRetry", err)
	}
	if err := check(t, db, 6); err != nil {
		t.Errorf("in a new transaction: %v", err)
	}
}

// TestCheck_NoTable ensures that an error of the database comes through as it is.
func TestCheck_NoTable(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		if err := check(t, db, 5); err == nil || sqlfence.Retryable(err) || errors.Is(err, fence.ErrStale) {
			t.Errorf("without the table: %v", err)
		}
	})
}
