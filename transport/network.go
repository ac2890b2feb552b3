package transport

import (
	"context"
	"net"
	"time"
)

// Network is how nodes reach each other: [TCP], or a [Memory] in tests.
// Its connections behave as those of TCP do.
type Network interface {
	// Listen binds an address. The error is that of the network, and is
	// syscall.EADDRINUSE if another listener has the address.
	Listen(address string) (net.Listener, error)
	// Dial connects, or gives up with an error when ctx ends.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// keepAlive finds out in 30 seconds that the host at the other end is gone. A
// host that lost its power says no goodbye, and both a probe that waits for its
// next question and a client's waiting request are silent for long.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

type tcp struct{}

var _ Network = tcp{}

// TCP is the network of the operating system. Small packets leave at once
// (TCP_NODELAY, which is Go's default), and hosts that vanished are noticed.
func TCP() Network { return tcp{} }

func (tcp) Listen(address string) (net.Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: keepAlive}
	return config.Listen(context.Background(), "tcp", address)
}

func (tcp) Dial(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: keepAlive}
	return dialer.DialContext(ctx, "tcp", address)
}
