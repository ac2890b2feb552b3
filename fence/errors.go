package fence

import (
	"errors"
	"fmt"
)

// Errors of the checks. [StaleError] and [ClusterError] are found by
// [errors.AsType], ErrStale and ErrCluster tell the kind alone.
var (
	// ErrStale: the resource has seen a newer token. Nothing was written, and
	// nothing with this token ever will be.
	ErrStale = errors.New("stale token")
	// ErrCluster: the token is of another cluster, so it cannot be compared.
	ErrCluster = errors.New("wrong cluster")
	// ErrToken: what was given is no token.
	ErrToken = errors.New("not a fencing token")
	// ErrFull: the guard has as many resources as it may remember.
	ErrFull = errors.New("too many resources")
	// ErrBusy: writes with older tokens did not end while this one waited. It was
	// not begun.
	ErrBusy = errors.New("an older write is still under way")
)

// StaleError refuses a token that a newer one has overtaken.
type StaleError struct {
	Resource string
	Token    uint64 // the one that is refused
	Highest  uint64 // the highest that the resource has seen
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("stale token: %q has seen token %d, this is %d", e.Resource, e.Highest, e.Token)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// ClusterError refuses a token of another cluster than the one that is pinned.
type ClusterError struct {
	Resource  string
	ClusterID string // of the token, "" if it came without
	Pinned    string
}

func (e *ClusterError) Error() string {
	if e.ClusterID == "" {
		return fmt.Sprintf("wrong cluster: %q takes tokens of cluster %q only, and this one does not say where it is from", e.Resource, e.Pinned)
	}
	return fmt.Sprintf("wrong cluster: %q takes tokens of cluster %q only, this one is from %q", e.Resource, e.Pinned, e.ClusterID)
}

// Is makes errors.Is(err, ErrCluster) true.
func (e *ClusterError) Is(target error) bool { return target == ErrCluster }
