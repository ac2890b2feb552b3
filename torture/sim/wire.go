package sim

import (
	"context"
	"net"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"

	"leasehold/transport"
)

// watchedNetwork reads what a node writes on the connections that it makes. Raft sends
// each request as one write: a byte for its kind, and the request in MessagePack.
type watchedNetwork struct {
	transport.Network
	id string
	to *watcher
}

func (n *watchedNetwork) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := n.Network.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return &watchedConn{c, n}, nil
}

type watchedConn struct {
	net.Conn
	network *watchedNetwork
}

const (
	appendEntries = 0 // the kind of such a request
	// heartbeat is how long one without entries is at most. There are plenty of these,
	// so there is no need to read the others.
	heartbeat = 256
)

func (c *watchedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil || len(b) < 2 || len(b) > heartbeat || b[0] != appendEntries {
		return n, err
	}
	var request raft.AppendEntriesRequest
	if codec.NewDecoderBytes(b[1:], new(codec.MsgpackHandle)).Decode(&request) == nil && request.Term > 0 {
		c.network.to.leads(c.network.id, request.Term)
	}
	return n, nil
}
