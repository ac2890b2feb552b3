package client

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"leasehold/httpapi/wire"
)

const (
	// searchTimeout is how long a server may take to say how it sees itself. It does
	// so without asking others, so one that takes longer is paused or cut off.
	searchTimeout = 400 * time.Millisecond
	// searchGrace is how long a search goes on after it has found a leader: one that
	// was replaced and does not know it yet may be quicker than its successor.
	searchGrace = 30 * time.Millisecond
)

// search asks all servers at the same time who leads. Calls that look for the
// leader at the same time share one.
type search struct {
	sharing int // calls; guarded by the API's mutex
	cancel  context.CancelFunc
	done    chan struct{} // closed when found is set
	found   found
}

// found is what a search has come to.
type found struct {
	leader string // base URL of the server that says it leads, in the latest term
	term   uint64
	lives  []string // the servers that have answered
}

// find makes a search or joins one. It gives nothing if ctx ends first.
func (api *API) find(ctx context.Context) found {
	s := api.joinSearch()
	defer api.leaveSearch(s)
	select {
	case <-s.done:
		return s.found
	case <-ctx.Done():
		return found{}
	}
}

func (api *API) joinSearch() *search {
	api.mu.Lock()
	defer api.mu.Unlock()
	if s := api.search; s != nil {
		s.sharing++
		return s
	}
	// Not with the caller's context: others may join.
	ctx, cancel := context.WithTimeout(context.Background(), searchTimeout)
	s := &search{sharing: 1, cancel: cancel, done: make(chan struct{})}
	api.search = s
	go func() {
		defer close(s.done)
		s.found = api.askAll(ctx)
		api.endSearch(s)
	}()
	return s
}

// leaveSearch ends the search with the last call that shared it.
func (api *API) leaveSearch(s *search) {
	api.mu.Lock()
	s.sharing--
	last := s.sharing == 0
	api.mu.Unlock()
	if last {
		api.endSearch(s)
	}
}

func (api *API) endSearch(s *search) {
	s.cancel()
	api.mu.Lock()
	defer api.mu.Unlock()
	if api.search == s {
		api.search = nil
	}
}

// askAll asks the servers, and those that they name as their leader.
func (api *API) askAll(ctx context.Context) found {
	type view struct {
		server string
		status wire.Status
		err    error
	}
	var asked []string
	views := make(chan view)
	ask := func(server string) {
		if slices.Contains(asked, server) {
			return
		}
		asked = append(asked, server)
		go func() {
			status, err := api.statusOf(ctx, server)
			select {
			case views <- view{server, status, err}:
			case <-ctx.Done():
			}
		}()
	}
	for _, server := range api.servers.order() {
		ask(server)
	}
	var f found
	var grace <-chan time.Time
	for answers := 0; answers < len(asked); answers++ {
		var v view
		select {
		case v = <-views:
		case <-grace:
			return f
		case <-ctx.Done():
			return f
		}
		if v.err != nil {
			continue
		}
		f.lives = append(f.lives, v.server)
		if l := v.status.Leader; l != nil && l.Address != "" && v.status.Role != "leader" {
			if named, err := parseServer(l.Address); err == nil && !slices.ContainsFunc(asked, sameHost(named)) {
				ask(named)
			}
		}
		if v.status.Role == "leader" && (f.leader == "" || v.status.Term > f.term) {
			f.leader, f.term = v.server, v.status.Term
			grace = time.After(searchGrace)
		}
	}
	return f
}

func sameHost(server string) func(string) bool {
	return func(other string) bool { return host(other) == host(server) }
}

// statusOf asks one server how it sees itself.
func (api *API) statusOf(ctx context.Context, server string) (wire.Status, error) {
	var status wire.Status
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/v1/status", nil)
	if err != nil {
		return status, err
	}
	resp, err := api.http.Do(req)
	if err != nil {
		return status, err
	}
	defer resp.Body.Close()
	return status, json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<20)).Decode(&status)
}
