package sqlfencetest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"

	"leasehold/fence/sqlfence"
)

// database is a fresh, empty database that is there for one test.
type database struct {
	*sql.DB
	dialect sqlfence.Dialect
}

// onEach runs a test on each database.
func onEach(t *testing.T, test func(t *testing.T, db database)) {
	t.Run("SQLite", func(t *testing.T) { test(t, sqlite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, postgres(t)) })
}

// sqlite opens a file. Transactions begin as writers and wait for each other. The
// file is not flushed: no test pulls the plug.
func sqlite(t *testing.T) database {
	path := filepath.Join(t.TempDir(), "test.db")
	return open(t, sqlfence.SQLite, "sqlite3", "file:"+path+
		"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
}

// postgres makes a database in the server that the tests share.
func postgres(t *testing.T) database {
	server := startedPostgres(t)
	name := fmt.Sprintf("test%d", server.databases.Add(1))
	admin := open(t, sqlfence.PostgreSQL, "pgx", server.dsn("postgres"))
	admin.mustExec(t, "CREATE DATABASE "+name)
	return open(t, sqlfence.PostgreSQL, "pgx", server.dsn(name))
}

func open(t *testing.T, d sqlfence.Dialect, driver, dsn string) database {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(writers)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return database{db, d}
}

func (db database) mustExec(t *testing.T, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%v, in\n%s", err, statement)
		}
	}
}

// number runs a query for one number.
func (db database) number(t *testing.T, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%v, in\n%s", err, query)
	}
	return n
}
