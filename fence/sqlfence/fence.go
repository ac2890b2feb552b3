package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"leasehold/fence"
)

// MaxToken is the highest token that fits into a bigint. A cluster would have to
// write a million entries a second for 290,000 years to get there.
const MaxToken = math.MaxInt64

// RangeError: the token does not fit into the database.
type RangeError struct {
	Resource string
	Token    uint64
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("the token %d of %q does not fit into a bigint, the highest is %d", e.Token, e.Resource, uint64(MaxToken))
}

// Check is [Fence.Check] for callers that do not say which cluster a token is from.
func Check(ctx context.Context, tx *sql.Tx, d Dialect, resource string, token uint64) error {
	return Fence{Dialect: d}.Check(ctx, tx, resource, token)
}

// Fence checks tokens against the table of marks.
type Fence struct {
	Dialect Dialect
	// ClusterID is the cluster that the tokens are from. The first one that is
	// named for a resource is pinned: from then on others are refused, and tokens
	// that come without one too. "" compares only where nothing is pinned yet.
	ClusterID string
}

// Check admits a token that is no lower than the highest that the resource has
// seen, remembers it, and keeps the resource locked until tx ends. Let it be the
// first statement: what tx read before may be out of date. A transaction that checks
// several resources does so in one order, the same everywhere, or it may meet
// another halfway and have to be run again.
//
// It takes a transaction and not a database, because the check is worth nothing
// once its transaction has ended.
//
// Errors: [*fence.StaleError], [*fence.ClusterError], [fence.ErrToken] for 0,
// [*RangeError], [ErrRetry] (roll back and run the whole transaction again, see
// [InTx]), and those of the database. After any of them tx has to be rolled back.
func (f Fence) Check(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := f.Dialect.validate(); err != nil {
		return err
	}
	if token == 0 {
		return fmt.Errorf("%w: 0, tokens begin at 1", fence.ErrToken)
	}
	if token > MaxToken {
		return &RangeError{Resource: resource, Token: token}
	}
	var accepted int64
	err := tx.QueryRowContext(ctx, f.Dialect.raise(), resource, int64(token), f.ClusterID).Scan(&accepted)
	if errors.Is(err, sql.ErrNoRows) {
		return f.refusal(ctx, tx, resource, token)
	}
	return retry(err)
}

// raise is the statement that checks and remembers a token, and gives a row if it
// was accepted. It updates the row even if the token is the one that is already
// there: only an update makes a transaction of a higher isolation level, which
// began earlier, fail when it comes to the same row. On a conflict PostgreSQL
// locks the row before it looks at the condition, in its latest version.
func (d Dialect) raise() string {
	return fmt.Sprintf(`INSERT INTO fence AS mark (resource, token, cluster_id, updated_at)
VALUES (%s, %s, %s, %s)
ON CONFLICT (resource) DO UPDATE
SET token = excluded.token, cluster_id = excluded.cluster_id, updated_at = excluded.updated_at
WHERE mark.token <= excluded.token AND mark.cluster_id IN ('', excluded.cluster_id)
RETURNING token`, d.arg(1), d.arg(2), d.arg(3), d.now())
}

// refusal tells why a token was not accepted. The row is locked by the statement
// that refused it, so it is still the same.
func (f Fence) refusal(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	var highest int64
	var pinned string
	query := "SELECT token, cluster_id FROM fence WHERE resource = " + f.Dialect.arg(1)
	err := tx.QueryRowContext(ctx, query, resource).Scan(&highest, &pinned)
	switch {
	case err != nil:
		return retry(fmt.Errorf("sqlfence: refused, and the mark cannot be read: %w", err))
	case pinned != "" && pinned != f.ClusterID:
		return &fence.ClusterError{Resource: resource, ClusterID: f.ClusterID, Pinned: pinned}
	}
	return &fence.StaleError{Resource: resource, Token: token, Highest: uint64(highest)}
}
