package main

import (
	"context"
	"fmt"
	"time"
)

// Peer is a lock service. Methods return an error only if it is not known what came of
// the call.
type Peer interface {
	// Acquire asks for a lease, without waiting for it. ok is false if somebody has it.
	Acquire(ctx context.Context, name, holder string, ttl time.Duration) (g Grant, ok bool, err error)
	// Renew gives a grant its full TTL again. ok is false if it is over.
	Renew(ctx context.Context, g Grant) (ok bool, err error)
	// Release ends a grant. ok is false if it was over.
	Release(ctx context.Context, g Grant) (ok bool, err error)
	// Get reads who holds a lease. The token is 0 if nobody does.
	Get(ctx context.Context, name string) (holder string, token uint64, err error)
	Close() error
}

// Grant is one period of holding.
type Grant struct {
	Name, Holder string
	Token        uint64
	TTL          time.Duration // that was given
	lease        int64         // of etcd
}

// open connects to a peer.
func open(peer, endpoint string) (Peer, error) {
	switch peer {
	case "etcd":
		return openEtcd(endpoint)
	case "redis":
		return openRedis(endpoint), nil
	}
	return nil, fmt.Errorf("there is no peer %q; there are etcd and redis", peer)
}
