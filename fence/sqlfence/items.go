package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Items is a table whose rows are pieces of work, each of which is to be done
// once. A row is claimed for a time, with a fence that rises with each claim, and
// completed only with the fence of the latest claim. So the row is its own lease:
// work of this kind needs no lease server.
//
// K is the Go type of the key, for example int64 or string.
type Items[K any] struct {
	Dialect Dialect
	Table   string // with the columns of [Dialect.ItemColumns]; "schema.table" is possible
	Key     string // the column that names a row, unique
}

// Item is a row that was claimed.
type Item[K any] struct {
	Key K
	// Fence is the number of the claim: 1 for the first one of this row. It is
	// not a token of a lease, and cannot be compared with one.
	Fence int64
	// Until is when to stop. It is counted from before the claim was sent, on this
	// machine's monotonic clock, and so comes before the database gives the row to another.
	Until time.Time
}

// ErrItemLost: the item has been claimed by another, completed, or given back.
var ErrItemLost = errors.New("the claim is over")

// ItemError says of an item what became of it.
type ItemError struct {
	Table string
	Key   any
	Fence int64 // of the claim that is over
	Now   int64 // the latest one, 0 if the row is gone
	Owner string
	Done  bool
}

func (e *ItemError) Error() string {
	s := fmt.Sprintf("the claim is over: %s %v was claimed with fence %d, ", e.Table, e.Key, e.Fence)
	switch {
	case e.Now == 0:
		return s + "and is gone"
	case e.Done:
		return s + fmt.Sprintf("and is completed, with fence %d", e.Now)
	case e.Now == e.Fence:
		return s + "and was given back"
	}
	return s + fmt.Sprintf("and now has fence %d, of %q", e.Now, e.Owner)
}

// Is makes errors.Is(err, ErrItemLost) true.
func (e *ItemError) Is(target error) bool { return target == ErrItemLost }

// Querier is what a statement can be run on: *sql.DB, *sql.Conn, *sql.Tx.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

var (
	_ Querier = (*sql.DB)(nil)
	_ Querier = (*sql.Conn)(nil)
	_ Querier = (*sql.Tx)(nil)
)

// Claim takes up to limit rows that are neither completed nor claimed by somebody
// whose time has not run out, for ttl by the clock of the database. None is no
// error. Give it the database and not a transaction: others see the claim when
// it is committed. Errors: [ErrRetry], and those of the database.
func (t Items[K]) Claim(ctx context.Context, q Querier, owner string, ttl time.Duration, limit int) ([]Item[K], error) {
	if err := t.validate(); err != nil {
		return nil, err
	}
	if ttl < time.Millisecond || limit < 1 {
		return nil, fmt.Errorf("sqlfence: cannot claim %d items for %v, the least is 1 for 1ms", limit, ttl)
	}
	until := time.Now().Add(ttl)
	rows, err := q.QueryContext(ctx, t.claim(), owner, ttl.Milliseconds(), limit)
	if err != nil {
		return nil, retry(err)
	}
	defer rows.Close()
	var items []Item[K]
	for rows.Next() {
		item := Item[K]{Until: until}
		if err := rows.Scan(&item.Key, &item.Fence); err != nil {
			return nil, retry(err)
		}
		items = append(items, item)
	}
	if err := rows.Err(); err != nil {
		return nil, retry(err)
	}
	return items, nil
}

// Extend keeps a claim for ttl from now, and gives the item with its new Until. It
// may come late, as long as nobody else has claimed the row. Errors:
// [*ItemError], [ErrRetry], and those of the database.
func (t Items[K]) Extend(ctx context.Context, q Querier, item Item[K], ttl time.Duration) (Item[K], error) {
	if ttl < time.Millisecond {
		return Item[K]{}, fmt.Errorf("sqlfence: cannot claim for %v, the least is 1ms", ttl)
	}
	until := time.Now().Add(ttl)
	if err := t.change(ctx, q, item, "lease_until = "+t.Dialect.after(3), ttl.Milliseconds()); err != nil {
		return Item[K]{}, err
	}
	item.Until = until
	return item, nil
}

// Complete marks an item as done if its claim is still the latest one, even if its
// time is over. Give it the transaction that writes the result: then there is
// one result, of the one that completed. Errors: [*ItemError] (roll back; if it has
// Done and Now is the item's own Fence, an earlier call has completed it),
// [ErrRetry], and those of the database.
func (t Items[K]) Complete(ctx context.Context, q Querier, item Item[K]) error {
	return t.change(ctx, q, item, "done_at = "+t.Dialect.instant())
}

// Release gives an item back, to be claimed by anybody at once. Errors:
// [*ItemError], [ErrRetry], and those of the database.
func (t Items[K]) Release(ctx context.Context, q Querier, item Item[K]) error {
	return t.change(ctx, q, item, "lease_until = NULL")
}

// change sets something in a row whose claim is the latest. One statement compares
// and sets; PostgreSQL compares again after waiting for another's lock.
func (t Items[K]) change(ctx context.Context, q Querier, item Item[K], set string, args ...any) error {
	if err := t.validate(); err != nil {
		return err
	}
	result, err := q.ExecContext(ctx, t.set(set), append([]any{item.Key, item.Fence}, args...)...)
	if err != nil {
		return retry(err)
	}
	changed, err := result.RowsAffected()
	if err != nil || changed == 1 {
		return err
	}
	e := &ItemError{Table: t.Table, Key: item.Key, Fence: item.Fence}
	err = q.QueryRowContext(ctx, t.look(), item.Key).Scan(&e.Now, &e.Owner, &e.Done)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return retry(err)
	}
	return e
}

func (t Items[K]) validate() error {
	if err := t.Dialect.validate(); err != nil {
		return err
	}
	if t.Table == "" || t.Key == "" {
		return fmt.Errorf("sqlfence: Items needs Table and Key, has %q and %q", t.Table, t.Key)
	}
	return nil
}
