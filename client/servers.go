package client

import (
	"slices"
	"sync"
	"time"
)

// servers is the list of servers to ask, and which of them is taken for the
// leader.
type servers struct {
	given []string // base URLs; never changes

	mu sync.Mutex // guards what follows
	// ranked is given in the order in which to ask: one that failed goes to the end,
	// so that a silent one does not cost every call its patience.
	ranked []string
	// leader is the base URL of the server that answered for the cluster last,
	// or that others named. Empty while unknown. It need not be a given one.
	leader string
	heard  time.Time // when the leader answered last
}

func newServers(addresses []string) (*servers, error) {
	s := &servers{}
	for _, address := range addresses {
		base, err := parseServer(address)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(s.given, base) {
			s.given = append(s.given, base)
		}
	}
	s.ranked = slices.Clone(s.given)
	return s, nil
}

// order gives the servers in the order in which to ask them: the leader first.
func (s *servers) order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader == "" {
		return slices.Clone(s.ranked)
	}
	order := append(make([]string, 0, len(s.ranked)+1), s.leader)
	for _, server := range s.ranked {
		if server != s.leader {
			order = append(order, server)
		}
	}
	return order
}

func (s *servers) hint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader
}

// named: another server says that this one leads.
func (s *servers) named(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader = server
}

// leads: the server has answered as a leader does.
func (s *servers) leads(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader, s.heard = server, time.Now()
}

// fresh says whether the leader has answered within d.
func (s *servers) fresh(d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader != "" && !s.heard.IsZero() && time.Since(s.heard) < d
}

// failed forgets that the server leads, and puts it last. It leaves a newer hint
// alone, which another call may have learned meanwhile.
func (s *servers) failed(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader == server {
		s.leader = ""
	}
	if i := slices.Index(s.ranked, server); i >= 0 {
		s.ranked = append(slices.Delete(s.ranked, i, i+1), server)
	}
}
