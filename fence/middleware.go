package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// The headers of a fenced request.
const (
	// TokenHeader brings the token, in decimal.
	TokenHeader = "Fencing-Token"
	// ClusterHeader brings the id of the cluster that the token is from.
	ClusterHeader = "Fencing-Cluster"
)

// Config says how a resource server checks its requests.
type Config struct {
	// Guard keeps the marks. Two middlewares that protect the same resources must
	// share it.
	Guard *Guard
	// Resource names what a request writes. It must give the same name for all
	// requests that must not get in each other's way. "" is an error of the
	// server; mind that PathValue knows nothing outside of the ServeMux.
	Resource func(*http.Request) string
	// AllowMissing lets requests without a token pass, unchecked and without waiting.
	// One such writer is enough to undo what fenced ones have written, so it is
	// for reads, and for the time in which clients learn to send tokens.
	AllowMissing bool
	// ClusterID pins the cluster: requests must name it, and those of another
	// are refused. "" compares tokens wherever they are from.
	ClusterID string
	// MaxWait is how long a request may wait for writes with older tokens to end.
	MaxWait time.Duration
}

// DefaultConfig has a new guard and waits for 10 s. Resource is to be set.
func DefaultConfig() Config {
	return Config{Guard: new(Guard), MaxWait: 10 * time.Second}
}

// Validate tells what is missing in a Config.
func (c Config) Validate() error {
	switch {
	case c.Guard == nil:
		return errors.New("fence: Guard is nil")
	case c.Resource == nil:
		return errors.New("fence: Resource is nil: say which resource a request writes")
	case c.MaxWait <= 0:
		return fmt.Errorf("fence: MaxWait is %v, it must be positive", c.MaxWait)
	}
	return nil
}

// Middleware gives a wrapper for handlers that write. A request reaches the handler
// only if its token is no older than any that its resource has seen, and while the
// handler runs no older one is under way, as with [Guard.Do]. The write must
// be over when the handler returns. If a newer token comes meanwhile, the request's
// context is canceled, with a [*StaleError] as its cause, and reading its body fails;
// for that the ResponseWriter has to be one that http.ResponseController can use. An
// answer to a client that reads nothing is ended by the server's WriteTimeout alone.
//
// Otherwise the answer is a problem (RFC 9457) with a code:
//
//	400 invalid_argument     the header is not a token, or is there twice
//	412 stale_token          the resource has seen highest_token
//	412 wrong_cluster        the token is from another cluster than the pinned one
//	428 token_required       there is no token
//	429 too_many_resources   the guard is full; resources it knows are not affected
//	503 busy                 an older write did not end in MaxWait; ask again
//	500 no_resource          Resource gave no name
//
// In all these cases the handler was not called.
func Middleware(c Config) (func(http.Handler) http.Handler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler { return &fenced{c, next} }, nil
}

// fenced is a handler behind the checks.
type fenced struct {
	config Config
	next   http.Handler
}

var _ http.Handler = (*fenced)(nil)

func (f *fenced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.Header.Values(TokenHeader)) == 0 && f.config.AllowMissing {
		f.next.ServeHTTP(w, r)
		return
	}
	resource, token, err := f.read(r)
	if err != nil {
		writeProblem(w, err)
		return
	}
	ctx, cancel := context.WithCancelCause(withToken(r.Context(), token))
	defer cancel(nil)
	leave, err := f.enter(ctx, resource, token, cancel)
	if err != nil {
		writeProblem(w, err)
		return
	}
	defer leave()
	defer hurry(ctx, w)()
	f.next.ServeHTTP(w, r.WithContext(ctx))
}

// enter bounds the wait for older writes, not the time of the handler.
func (f *fenced) enter(ctx context.Context, resource string, token uint64, cancel context.CancelCauseFunc) (leave func(), err error) {
	ctx, done := context.WithTimeout(ctx, f.config.MaxWait)
	defer done()
	return f.config.Guard.enter(ctx, resource, token, cancel)
}

// hurry ends the reading of a request's body when a newer token comes. The client
// may have been paused in the middle of sending, and a read knows no context. The
// server sets the deadline anew for the next request of the connection, so the
// caller calls stop before it is done with this one.
func hurry(ctx context.Context, w http.ResponseWriter) (stop func()) {
	done := make(chan struct{})
	detach := context.AfterFunc(ctx, func() {
		defer close(done)
		if errors.Is(context.Cause(ctx), ErrStale) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // writers that know no deadline have no connection to wait for
		}
	})
	return func() {
		if !detach() {
			<-done
		}
	}
}

// read takes from a request what has to be checked.
func (f *fenced) read(r *http.Request) (resource string, token uint64, err error) {
	switch values := r.Header.Values(TokenHeader); len(values) {
	case 0:
		return "", 0, errMissing
	case 1:
		if token, err = ParseToken(values[0]); err != nil {
			return "", 0, err
		}
	default:
		return "", 0, fmt.Errorf("%w: the header is there %d times", ErrToken, len(values))
	}
	if resource = f.config.Resource(r); resource == "" {
		return "", 0, errNoResource
	}
	// Header.Get would be content with the first of two contradicting ones.
	values := r.Header.Values(ClusterHeader)
	if pinned := f.config.ClusterID; pinned != "" && (len(values) != 1 || values[0] != pinned) {
		e := &ClusterError{Resource: resource, Pinned: pinned}
		if len(values) > 0 {
			e.ClusterID = clip(values[0])
		}
		return "", 0, e
	}
	return resource, token, nil
}
