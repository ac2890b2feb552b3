package transport

import (
	"context"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Memory is a network inside the process, for tests. It behaves as TCP does
// where a program can tell: writes return before they are delivered, a writer
// is held up only by a full buffer, what was written before a Close arrives.
//
// Faults belong to a link, which is one direction between two addresses. On a
// link that is cut, bytes and ends of connections stall; after healing all of
// them arrive, as TCP would see to by sending again. To connect takes both
// directions, as the handshake of TCP does.
//
// It has no goroutines and waits only on condition variables, so it can be used
// in a bubble of testing/synctest. All of it is safe for concurrent use.
type Memory struct {
	// mu guards the whole network, and is never held while waiting.
	mu sync.Mutex
	// changed is signalled when a waiting dial should look again.
	changed   *sync.Cond
	hosts     map[string]*memoryHost
	links     map[[2]string]*link // by from and to
	isolated  map[string]bool     // hosts whose future links begin cut
	connected map[*memoryConn]struct{}
}

// memoryHost is what lives at one address.
type memoryHost struct {
	crashes  int
	listener *memoryListener // nil if nobody listens
}

// link is one direction between two addresses.
type link struct {
	cut   bool
	delay time.Duration
}

// NewMemory makes a network without faults.
func NewMemory() *Memory {
	m := &Memory{
		hosts: make(map[string]*memoryHost), links: make(map[[2]string]*link),
		isolated: make(map[string]bool), connected: make(map[*memoryConn]struct{}),
	}
	m.changed = sync.NewCond(&m.mu)
	return m
}

// Cut stalls everything that goes from one address to the other, new
// connections in both directions included. What had arrived can still be read.
func (m *Memory) Cut(from, to string) { m.setCut(true, [2]string{from, to}) }

// Heal ends a cut. What had stalled arrives.
func (m *Memory) Heal(from, to string) { m.setCut(false, [2]string{from, to}) }

// HealAll ends every cut, and every isolation. Delays stay.
func (m *Memory) HealAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.isolated)
	for _, l := range m.links {
		l.cut = false
	}
	m.wakeLocked()
}

// Partition cuts both directions between addresses on different sides.
// Addresses that are on no side reach everybody, and earlier cuts stay.
func (m *Memory) Partition(sides ...[]string) {
	var cuts [][2]string
	for i, side := range sides {
		for j, other := range sides {
			for _, from := range side {
				for _, to := range other {
					if i != j {
						cuts = append(cuts, [2]string{from, to})
					}
				}
			}
		}
	}
	m.setCut(true, cuts...)
}

// Isolate cuts an address off from all others, also from those that appear
// later. It still reaches itself.
func (m *Memory) Isolate(address string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settleLocked()
	m.isolated[address] = true
	for ends, l := range m.links {
		if slices.Contains(ends[:], address) && ends[0] != ends[1] {
			l.cut = true
		}
	}
}

// Delay makes everything that is sent from one address to the other from now
// on take that long.
func (m *Memory) Delay(from, to string, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.linkLocked(from, to).delay = d
}

// Crash ends the process at an address, as kill -9 does: its listener and all
// its connections are gone at once. Peers receive what was sent before and then
// the end of the connection, as soon as the links let that through. What is
// left of the process cannot use the network either: the Network values handed
// out for the address so far no longer dial. To start it again, take a new one
// from Host, or Listen on the old one.
func (m *Memory) Crash(address string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.hostLocked(address)
	h.crashes++
	if h.listener != nil {
		h.listener.closeLocked()
	}
	for c := range m.connected {
		if c.local.text == address {
			c.closeLocked()
		}
	}
	m.wakeLocked()
}

func (m *Memory) setCut(cut bool, links ...[2]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settleLocked()
	for _, ends := range links {
		m.linkLocked(ends[0], ends[1]).cut = cut
	}
	m.wakeLocked()
}

// settleLocked lets what has reached its end by now count as arrived, before
// the links change.
func (m *Memory) settleLocked() {
	now := time.Now()
	for c := range m.connected {
		c.in.settle(now)
	}
}

// wakeLocked makes everybody who waits for a link look again.
func (m *Memory) wakeLocked() {
	m.changed.Broadcast()
	for c := range m.connected {
		c.changed.Broadcast()
	}
}

func (m *Memory) linkLocked(from, to string) *link {
	l := m.links[[2]string{from, to}]
	if l == nil {
		l = &link{cut: from != to && (m.isolated[from] || m.isolated[to])}
		m.links[[2]string{from, to}] = l
	}
	return l
}

func (m *Memory) hostLocked(address string) *memoryHost {
	h := m.hosts[address]
	if h == nil {
		h = &memoryHost{}
		m.hosts[address] = h
	}
	return h
}

// Host is the network as seen from an address. It can listen on that address
// only; one that never listens, such as "client", can still dial.
func (m *Memory) Host(address string) Network {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memoryNetwork{memory: m, address: address, crashes: m.hostLocked(address).crashes}
}

// memoryNetwork is one process's access to a Memory.
type memoryNetwork struct {
	memory  *Memory
	address string
	// crashes of the host that this process came after. If the host has had more
	// since, this process is dead. Guarded by memory.mu.
	crashes int
}

var _ Network = (*memoryNetwork)(nil)

func (n *memoryNetwork) Listen(at string) (net.Listener, error) {
	m := n.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	local := memoryAddress(at)
	if at != n.address {
		return nil, &net.OpError{Op: "listen", Net: local.network, Addr: local, Err: syscall.EADDRNOTAVAIL}
	}
	h := m.hostLocked(at)
	if h.listener != nil {
		return nil, &net.OpError{Op: "listen", Net: local.network, Addr: local, Err: syscall.EADDRINUSE}
	}
	n.crashes = h.crashes
	h.listener = &memoryListener{memory: m, host: h, addr: local, changed: sync.NewCond(&m.mu)}
	return h.listener, nil
}

// Dial fails at once with syscall.ECONNREFUSED if nobody listens, and waits
// while a link is cut.
func (n *memoryNetwork) Dial(ctx context.Context, to string) (net.Conn, error) {
	m := n.memory
	defer context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.changed.Broadcast()
	})()
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := n.dialLocked(ctx, to)
	if err != nil {
		remote := memoryAddress(to)
		return nil, &net.OpError{Op: "dial", Net: remote.network, Addr: remote, Err: err}
	}
	return c, nil
}

func (n *memoryNetwork) dialLocked(ctx context.Context, to string) (net.Conn, error) {
	m := n.memory
	there, back := m.linkLocked(n.address, to), m.linkLocked(to, n.address)
	var answer time.Time // when the handshake is over; zero while it could not begin
	for {
		h := m.hostLocked(to)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case n.crashes != m.hostLocked(n.address).crashes:
			return nil, syscall.ENETDOWN
		case there.cut || back.cut:
			waitUntil(m.changed, time.Time{})
		case answer.IsZero():
			answer = time.Now().Add(there.delay + back.delay)
		case time.Now().Before(answer):
			waitUntil(m.changed, answer)
		case h.listener == nil:
			return nil, syscall.ECONNREFUSED
		default:
			near, far := m.connectLocked(n.address, to)
			h.listener.offerLocked(far)
			return near, nil
		}
	}
}

// waitUntil waits for a signal of cond, whose lock is held, or for a moment;
// the zero time never comes.
func waitUntil(cond *sync.Cond, moment time.Time) {
	if !moment.IsZero() {
		timer := time.AfterFunc(time.Until(moment), func() {
			cond.L.Lock()
			defer cond.L.Unlock()
			cond.Broadcast()
		})
		defer timer.Stop()
	}
	cond.Wait()
}

func memoryAddress(text string) address { return address{"memory", text} }
