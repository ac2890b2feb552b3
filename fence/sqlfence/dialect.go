package sqlfence

import (
	"fmt"
	"strings"
)

// Dialect says which SQL a database understands. Its zero value is none, so that
// it cannot be forgotten.
type Dialect int

// The databases that are known.
const (
	PostgreSQL Dialect = iota + 1
	SQLite
)

func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// validate tells of a Dialect that is none.
func (d Dialect) validate() error {
	if d != PostgreSQL && d != SQLite {
		return fmt.Errorf("sqlfence: %v is not a dialect, use PostgreSQL or SQLite", d)
	}
	return nil
}

// FenceTable gives the statement that creates the table of marks, if it is not
// there. It belongs to where the tables of the data are created. A mark must never
// be deleted while somebody may hold a token of its resource: the next token would
// be taken for the first.
//
// Two sessions of PostgreSQL that create it for the first time in the same moment
// may get an error in one of them.
func (d Dialect) FenceTable() string {
	integer, instant := "bigint", "timestamptz"
	if d == SQLite {
		integer, instant = "integer", "text"
	}
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS fence (
  resource   text PRIMARY KEY NOT NULL,
  token      %s NOT NULL CHECK (token >= 0), -- the highest that was accepted
  cluster_id text NOT NULL DEFAULT '',           -- that the token is from, '' if nobody said
  updated_at %s NOT NULL                -- for people to read, never compared
)`, integer, instant)
}

// arg is the place of an argument. SQLite takes $1 for a name, and counts names in
// the order in which they appear; ?1 is a number.
func (d Dialect) arg(n int) string {
	if d == SQLite {
		return fmt.Sprintf("?%d", n)
	}
	return fmt.Sprintf("$%d", n)
}

// now is the time for people to read.
func (d Dialect) now() string {
	if d == SQLite {
		return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
	}
	return "clock_timestamp()"
}

// quote makes an identifier of a name, which may have a schema before a dot.
func quote(name string) string {
	parts := strings.Split(name, ".")
	for i, part := range parts {
		parts[i] = `"` + strings.ReplaceAll(part, `"`, `""`) + `"`
	}
	return strings.Join(parts, ".")
}
