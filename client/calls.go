package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"leasehold/httpapi/wire"
)

// Consistency of a read.
type Consistency string

// The two kinds of reads. The empty Consistency is Linearizable.
const (
	// Linearizable: the answer is no older than the request.
	Linearizable Consistency = "linearizable"
	// Stale: what the server that answers has, however old.
	Stale Consistency = "stale"
)

// leaderOnly says whether only the leader answers such a read.
func (c Consistency) leaderOnly() bool { return c != Stale }

func (c Consistency) query() url.Values {
	if c == "" {
		return nil
	}
	return url.Values{"consistency": {string(c)}}
}

// Renew keeps a grant alive for its whole TTL from now. Errors besides the
// common ones: [lease.ErrLost], [lease.ErrNotHolder].
func (api *API) Renew(ctx context.Context, renew wire.RenewRequest) (wire.Grant, error) {
	texts := []string{renew.Name, renew.Holder}
	if renew.Value != nil {
		texts = append(texts, *renew.Value)
	}
	r, err := post("/v1/renew", renew, texts...)
	if err != nil {
		return wire.Grant{}, err
	}
	return call[wire.Grant](ctx, api, r)
}

// Release ends a grant. To release again what was released is a success, with
// Already set. Errors besides the common ones: [lease.ErrLost] if the grant
// ended in another way, [lease.ErrNotHolder].
func (api *API) Release(ctx context.Context, release wire.ReleaseRequest) (wire.Release, error) {
	r, err := post("/v1/release", release, release.Name, release.Holder)
	if err != nil {
		return wire.Release{}, err
	}
	return call[wire.Release](ctx, api, r)
}

// Lease reads one lease. A free one is no error.
func (api *API) Lease(ctx context.Context, name string, consistency Consistency) (wire.Lease, error) {
	r := get(namePath("/v1/leases/", name), consistency.query())
	r.leaderOnly = consistency.leaderOnly()
	return call[wire.Lease](ctx, api, r)
}

// LeasesQuery selects the leases of a list.
type LeasesQuery struct {
	Prefix      string // of the names
	After       string // only names greater than this: the Next of the page before
	Limit       int    // leases in a page, 1 to 1000; 0 leaves it to the server
	Consistency Consistency
}

// Leases reads one page of the leases that are held, in the order of their names.
func (api *API) Leases(ctx context.Context, q LeasesQuery) (wire.Leases, error) {
	query := url.Values{}
	set := func(key, value string) {
		if value != "" {
			query.Set(key, value)
		}
	}
	set("prefix", q.Prefix)
	set("after", q.After)
	set("consistency", string(q.Consistency))
	if q.Limit != 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	r := get("/v1/leases", query)
	r.leaderOnly = q.Consistency.leaderOnly()
	return call[wire.Leases](ctx, api, r)
}

// Requests tells what is known of a request id: what became of an acquire whose
// answer was lost. An empty list means that nothing is known.
func (api *API) Requests(ctx context.Context, requestID string) ([]wire.Request, error) {
	r := get("/v1/requests/"+url.PathEscape(requestID), nil)
	r.leaderOnly = true
	return call[[]wire.Request](ctx, api, r)
}

// Status reads one server's view of itself. The call is made once, and only to
// this server.
func (api *API) Status(ctx context.Context, server string) (wire.Status, error) {
	return ask[wire.Status](ctx, api, server, get("/v1/status", nil))
}

// Cluster reads the members of the cluster, as some server knows them.
func (api *API) Cluster(ctx context.Context) (wire.Cluster, error) {
	return call[wire.Cluster](ctx, api, get("/v1/cluster", nil))
}

// Log reads a part of the Raft log of one server, from an index on, with at most
// limit entries; 0 leaves either to the server. An empty server means any.
func (api *API) Log(ctx context.Context, server string, from uint64, limit int) (wire.Log, error) {
	query := url.Values{}
	if from != 0 {
		query.Set("from", strconv.FormatUint(from, 10))
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return askAny[wire.Log](ctx, api, server, get("/v1/log", query))
}

// Version reads the version that one server runs. An empty server means any.
func (api *API) Version(ctx context.Context, server string) (wire.Version, error) {
	return askAny[wire.Version](ctx, api, server, get("/version", nil))
}

// namePath gives the escaped path of a lease or register. The slashes of its name
// stay.
func namePath(prefix, name string) string { return (&url.URL{Path: prefix + name}).EscapedPath() }

func get(path string, query url.Values) request {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return request{method: http.MethodGet, path: path}
}

// post gives the request of a write, which only a leader answers. The texts are
// the strings in its body.
func post(path string, body any, texts ...string) (request, error) {
	for _, text := range texts {
		// The JSON encoder would put other characters in their place, in silence,
		// and so speak of another holder or name.
		if !utf8.ValidString(text) {
			return request{}, fmt.Errorf("%q is not valid UTF-8", text)
		}
	}
	b, err := json.Marshal(body)
	if err != nil {
		return request{}, fmt.Errorf("encode the body of %s: %w", path, err)
	}
	return request{method: http.MethodPost, path: path, body: b, leaderOnly: true}, nil
}
