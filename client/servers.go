package client

import (
	"slices"
	"sync"
)

// servers is the list of servers that a client asks, and which of them it takes
// for the leader.
type servers struct {
	given []string // base URLs; never changes

	mu sync.Mutex // guards leader
	// leader is the base URL of the server that answered for the cluster last,
	// or that others named. Empty while unknown. It need not be a given one.
	leader string
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
	return s, nil
}

// order gives the servers in the order in which to ask them: the leader first.
func (s *servers) order() []string {
	leader := s.hint()
	if leader == "" {
		return slices.Clone(s.given)
	}
	order := append(make([]string, 0, len(s.given)+1), leader)
	for _, server := range s.given {
		if server != leader {
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

func (s *servers) leads(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader = server
}

// failed forgets that the server leads. It leaves a newer hint alone, which
// another call may have learned meanwhile.
func (s *servers) failed(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader == server {
		s.leader = ""
	}
}
