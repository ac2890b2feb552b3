package sqlfence

import (
	"fmt"
	"strings"
)

// ItemColumns gives the statements that make the rows of a table into items: four
// columns and an index, one statement each.
func (d Dialect) ItemColumns(table, key string) []string {
	integer, instant, index := "bigint", "timestamptz", ""
	if d == SQLite {
		integer, instant = "integer", "integer" // milliseconds since 1970
		index = quote(strings.ReplaceAll(table, ".", "_") + "_open")
	}
	alter := "ALTER TABLE " + quote(table) + " ADD COLUMN "
	return []string{
		alter + "owner text NOT NULL DEFAULT ''",
		alter + "lease_until " + instant, // null: not claimed
		alter + "fence " + integer + " NOT NULL DEFAULT 0",
		alter + "done_at " + instant, // null: not completed
		// So that a claim need not read what was completed long ago.
		fmt.Sprintf("CREATE INDEX %s ON %s (%s) WHERE done_at IS NULL", index, quote(table), quote(key)),
	}
}

// instant is the present time in columns that are compared. Of the clocks of
// PostgreSQL it is the one that stands still within a statement and moves between
// those of a transaction: now() is the time at which the transaction began.
func (d Dialect) instant() string {
	if d == SQLite {
		return "CAST((julianday('now') - 2440587.5) * 86400000 AS integer)"
	}
	return "statement_timestamp()"
}

// after is the time as many milliseconds from now as an argument says.
func (d Dialect) after(arg int) string {
	if d == SQLite {
		return d.instant() + " + " + d.arg(arg)
	}
	return fmt.Sprintf("%s + CAST(%s AS bigint) * interval '1 millisecond'", d.instant(), d.arg(arg))
}

// claim: the arguments are owner, milliseconds and limit.
//
// PostgreSQL passes over rows that another claim or completion has locked, so
// claims do not wait for each other. The rows are chosen in a WITH, which runs once;
// a subquery of the condition may run again for each row, and claim more than
// the limit. SQLite has one writer at a time, so there is nothing to pass over.
func (t Items[K]) claim() string {
	d, key, table := t.Dialect, quote(t.Key), quote(t.Table)
	due := fmt.Sprintf(`SELECT %[1]s FROM %[2]s
  WHERE done_at IS NULL AND (lease_until IS NULL OR lease_until <= %[3]s)
  ORDER BY %[1]s LIMIT %[4]s`, key, table, d.instant(), d.arg(3))
	set := fmt.Sprintf("owner = %s, lease_until = %s, fence = item.fence + 1", d.arg(1), d.after(2))
	if d == SQLite {
		return fmt.Sprintf(`UPDATE %[2]s AS item SET %[4]s
WHERE %[1]s IN (%[3]s)
RETURNING %[1]s, fence`, key, table, due, set)
	}
	return fmt.Sprintf(`WITH due AS (%[3]s FOR UPDATE SKIP LOCKED)
UPDATE %[2]s AS item SET %[4]s
FROM due WHERE item.%[1]s = due.%[1]s
RETURNING item.%[1]s, item.fence`, key, table, due, set)
}

// set: the first arguments are key and fence. A row that was given back is not
// claimed by anybody.
func (t Items[K]) set(change string) string {
	return fmt.Sprintf(`UPDATE %s SET %s
WHERE %s = %s AND fence = %s AND done_at IS NULL AND lease_until IS NOT NULL`,
		quote(t.Table), change, quote(t.Key), t.Dialect.arg(1), t.Dialect.arg(2))
}

// look: the argument is the key.
func (t Items[K]) look() string {
	return fmt.Sprintf("SELECT fence, owner, done_at IS NOT NULL FROM %s WHERE %s = %s",
		quote(t.Table), quote(t.Key), t.Dialect.arg(1))
}
