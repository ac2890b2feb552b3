package sqlfence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
)

// exchange is one call that a test expects of the driver, and its answer.
type exchange struct {
	rows [][]driver.Value // of a query
	n    int64            // rows that a statement without rows has changed
	err  error
}

// script is a driver that answers with what it was given, in order, and remembers
// what it was asked. It stands in for a database where only the traffic matters;
// what real ones do with it is tested in the module of the examples.
type script struct {
	answers []exchange
	asked   []asked
}

type asked struct {
	query string // BEGIN, COMMIT and ROLLBACK stand for the calls
	args  []driver.NamedValue
}

func (s *script) next(query string, args []driver.NamedValue) (exchange, error) {
	s.asked = append(s.asked, asked{query, args})
	if len(s.answers) == 0 {
		return exchange{}, errors.New("not in the script: " + query)
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer, answer.err
}

// play opens a database that follows a script.
func play(t *testing.T, answers ...exchange) (*sql.DB, *script) {
	s := &script{answers: answers}
	db := sql.OpenDB(connector{s})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if len(s.answers) > 0 {
			t.Errorf("%d answers of the script were not asked for", len(s.answers))
		}
	})
	return db, s
}

type connector struct{ s *script }

func (c connector) Connect(context.Context) (driver.Conn, error) { return &conn{c.s}, nil }
func (c connector) Driver() driver.Driver                        { return nil }

type conn struct{ s *script }

var (
	_ driver.QueryerContext = (*conn)(nil)
	_ driver.ExecerContext  = (*conn)(nil)
	_ driver.ConnBeginTx    = (*conn)(nil)
	_ driver.Tx             = (*conn)(nil)
)

func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not needed") }
func (c *conn) Close() error                        { return nil }
func (c *conn) Begin() (driver.Tx, error)           { return c, nil }

func (c *conn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	_, err := c.s.next("BEGIN", nil)
	return c, err
}

func (c *conn) Commit() error {
	_, err := c.s.next("COMMIT", nil)
	return err
}

// Rollback needs no place in the script.
func (c *conn) Rollback() error {
	c.s.asked = append(c.s.asked, asked{query: "ROLLBACK"})
	return nil
}

func (c *conn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	answer, err := c.s.next(query, args)
	if err != nil {
		return nil, err
	}
	return &rows{answer.rows}, nil
}

func (c *conn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	answer, err := c.s.next(query, args)
	return driver.RowsAffected(answer.n), err
}

type rows struct{ left [][]driver.Value }

func (r *rows) Close() error { return nil }

func (r *rows) Columns() []string {
	if len(r.left) == 0 {
		return nil
	}
	return make([]string, len(r.left[0]))
}

func (r *rows) Next(row []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	copy(row, r.left[0])
	r.left = r.left[1:]
	return nil
}
