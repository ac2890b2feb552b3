package sqlfence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"leasehold/fence"
	"leasehold/fence/sqlfence"
)

// stateError is as the errors of drivers for PostgreSQL are.
type stateError string

func (e stateError) Error() string    { return "driver: " + string(e) }
func (e stateError) SQLState() string { return string(e) }

var (
	accepted = exchange{rows: [][]driver.Value{{int64(7)}}}
	refused  = exchange{}
	ok       = exchange{}
)

// TestCheck_Answers ensures what each answer of the database becomes.
func TestCheck_Answers(t *testing.T) {
	broken := errors.New("connection reset")
	for _, test := range []struct {
		name    string
		cluster string
		answers []exchange
		is      error
		says    string
	}{
		{"accepted", "", []exchange{accepted}, nil, ""},
		{"stale", "", []exchange{refused, {rows: [][]driver.Value{{int64(9), ""}}}}, fence.ErrStale, "seen token 9, this is 7"},
		{"stale, pinned", "c1", []exchange{refused, {rows: [][]driver.Value{{int64(9), "c1"}}}}, fence.ErrStale, "seen token 9"},
		{"another cluster", "c2", []exchange{refused, {rows: [][]driver.Value{{int64(5), "c1"}}}}, fence.ErrCluster, `this one is from "c2"`},
		{"no cluster", "", []exchange{refused, {rows: [][]driver.Value{{int64(5), "c1"}}}}, fence.ErrCluster, "does not say"},
		{"serialization failure", "", []exchange{{err: stateError("40001")}}, sqlfence.ErrRetry, "40001"},
		{"deadlock", "", []exchange{{err: stateError("40P01")}}, sqlfence.ErrRetry, "40P01"},
		{"busy", "", []exchange{{err: errors.New("sqlite3: database is locked")}}, sqlfence.ErrRetry, "locked"},
		{"table locked", "", []exchange{{err: errors.New("database table is locked: fence")}}, sqlfence.ErrRetry, "locked"},
		{"failure while looking", "", []exchange{refused, {err: stateError("40001")}}, sqlfence.ErrRetry, "40001"},
		{"broken", "", []exchange{{err: broken}}, broken, ""},
		{"mark gone", "", []exchange{refused, refused}, sql.ErrNoRows, "cannot be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			db, _ := play(t, append([]exchange{ok}, test.answers...)...)
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			err = sqlfence.Fence{Dialect: sqlfence.PostgreSQL, ClusterID: test.cluster}.Check(t.Context(), tx, "a", 7)
			if !errors.Is(err, test.is) || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("Check = %v, want %v that says %q", err, test.is, test.says)
			}
			if got, want := errors.Is(err, sqlfence.ErrRetry), test.is == sqlfence.ErrRetry; got != want {
				t.Errorf("is it ErrRetry: %v, want %v", got, want)
			}
		})
	}
}

// TestCheck_Asks ensures that both dialects number their arguments as their
// databases read them, and that the largest token goes through unchanged.
func TestCheck_Asks(t *testing.T) {
	for d, place := range map[sqlfence.Dialect]string{sqlfence.PostgreSQL: "$", sqlfence.SQLite: "?"} {
		db, s := play(t, ok, accepted)
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if err := sqlfence.Check(t.Context(), tx, d, "a", sqlfence.MaxToken); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		call := s.asked[1]
		if want := fmt.Sprintf("VALUES (%[1]s1, %[1]s2, %[1]s3,", place); !strings.Contains(call.query, want) {
			t.Errorf("%v asks %s\nwant %s", d, call.query, want)
		}
		if got := call.args[1].Value; got != int64(math.MaxInt64) {
			t.Errorf("the token is sent as %v", got)
		}
	}
}

// TestCheck_Refuses ensures that what cannot be right never gets to the database.
func TestCheck_Refuses(t *testing.T) {
	for _, test := range []struct {
		dialect sqlfence.Dialect
		token   uint64
		says    string
	}{
		{sqlfence.PostgreSQL, 0, "tokens begin at 1"},
		{sqlfence.PostgreSQL, math.MaxInt64 + 1, "the token 9223372036854775808 of \"a\" does not fit into a bigint"},
		{sqlfence.SQLite, math.MaxUint64, "does not fit"},
		{0, 7, "Dialect(0) is not a dialect"},
		{3, 7, "Dialect(3) is not a dialect"},
	} {
		db, s := play(t, ok)
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		err = sqlfence.Check(t.Context(), tx, test.dialect, "a", test.token)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v, token %d: %v, want %q", test.dialect, test.token, err, test.says)
		}
		if err := tx.Rollback(); err != nil || len(s.asked) != 2 {
			t.Errorf("the database was asked %v, %v", s.asked, err)
		}
	}
	if _, ok := errors.AsType[*sqlfence.RangeError](error(&sqlfence.RangeError{})); !ok {
		t.Error("a RangeError is found by its type")
	}
}

// TestInTx ensures when a transaction is run again, and how it ends.
func TestInTx(t *testing.T) {
	lost, conflict := errors.New("connection reset"), exchange{err: stateError("40001")}
	for _, test := range []struct {
		name    string
		answers []exchange
		want    error
		asked   string
	}{
		{"committed", []exchange{ok, accepted, ok}, nil, "BEGIN check COMMIT"},
		{"conflict in the check", []exchange{ok, conflict, ok, accepted, ok}, nil, "BEGIN check ROLLBACK BEGIN check COMMIT"},
		{"conflict in the commit", []exchange{ok, accepted, conflict, ok, accepted, ok}, nil, "BEGIN check COMMIT BEGIN check COMMIT"},
		{"conflict in the begin", []exchange{conflict, conflict, ok, accepted, ok}, nil, "BEGIN BEGIN BEGIN check COMMIT"},
		// Whether it has happened is not known, so it must not be run again.
		{"commit lost", []exchange{ok, accepted, {err: lost}}, lost, "BEGIN check COMMIT"},
		{"stale", []exchange{ok, refused, {rows: [][]driver.Value{{int64(9), ""}}}}, fence.ErrStale, "BEGIN check look ROLLBACK"},
	} {
		t.Run(test.name, func(t *testing.T) {
			db, s := play(t, test.answers...)
			err := sqlfence.InTx(t.Context(), db, nil, func(tx *sql.Tx) error {
				return sqlfence.Check(t.Context(), tx, sqlfence.SQLite, "a", 7)
			})
			if !errors.Is(err, test.want) {
				t.Errorf("InTx = %v, want %v", err, test.want)
			}
			var asked []string
			for _, call := range s.asked {
				word, _, _ := strings.Cut(call.query, " ")
				if name := map[string]string{"INSERT": "check", "SELECT": "look"}[word]; name != "" {
					word = name
				}
				asked = append(asked, word)
			}
			if got := strings.Join(asked, " "); got != test.asked {
				t.Errorf("asked %s, want %s", got, test.asked)
			}
		})
	}
}

// TestInTx_ContextEnds ensures that a transaction that never gets through ends
// with its context, and says what kept it.
func TestInTx_ContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make([]exchange, 1000)
		for i := range answers {
			answers[i] = exchange{err: errors.New("database is locked")}
		}
		s := &script{answers: answers}
		db := sql.OpenDB(connector{s})
		defer db.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 1e9)
		defer cancel()
		err := sqlfence.InTx(ctx, db, nil, func(*sql.Tx) error { return nil })
		if !errors.Is(err, context.DeadlineExceeded) || !sqlfence.Retryable(err) {
			t.Errorf("InTx = %v, want both the deadline and what kept it", err)
		}
		if len(s.asked) < 10 || len(s.asked) > 200 {
			t.Errorf("%d runs in a second", len(s.asked))
		}
	})
}

// TestDialect_FenceTable ensures that the statements differ where the databases do.
func TestDialect_FenceTable(t *testing.T) {
	for d, word := range map[sqlfence.Dialect]string{sqlfence.PostgreSQL: "timestamptz", sqlfence.SQLite: "text NOT NULL  "} {
		if !strings.Contains(d.FenceTable(), "updated_at "+word) {
			t.Errorf("%v: %s", d, d.FenceTable())
		}
	}
}
