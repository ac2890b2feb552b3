package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"leasehold/client"
)

// cluster is the nodes under test.
type cluster struct {
	nodes []*node
	api   *client.API // for the questions of the tool itself

	mu     sync.Mutex // guards what follows
	closed bool
}

// prepare makes the nodes, and starts none. ctx bounds the life of their processes.
func prepare(ctx context.Context, cfg *Config) (*cluster, error) {
	addresses, err := freeAddresses(cfg.Nodes, cfg.Port)
	if err != nil {
		return nil, err
	}
	var members []string
	for i, address := range addresses {
		members = append(members, fmt.Sprintf("n%d=%s", i+1, address))
	}
	start := starter(ctx.Done())
	c := new(cluster)
	for i, address := range addresses {
		n, err := newNode(cfg, fmt.Sprintf("n%d", i+1), address, strings.Join(members, ","), cfg.Out, start)
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, n)
	}
	c.api, err = client.NewAPI(client.Config{Servers: addresses, Timeout: time.Second, TryTimeout: time.Second})
	return c, err
}

// freeAddresses are ports in a row that nobody listens on, below the range from which
// systems give ports to clients.
func freeAddresses(count, port int) ([]string, error) {
	for range 100 {
		from := port
		if from == 0 {
			from = 20000 + 10*rand.IntN(1000)
		}
		addresses, err := listenOnce(from, count)
		if err == nil {
			return addresses, nil
		}
		if port != 0 {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no %d free ports were found", count)
}

func listenOnce(from, count int) (addresses []string, err error) {
	for i := range count {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(from+i))
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, err
		}
		l.Close()
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// open starts all nodes and waits until one of them leads.
func (c *cluster) open(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := c.bring(ctx, n); err != nil {
			return err
		}
	}
	return c.until(ctx, startTimeout, "a leader", func(views []view) bool { return leaderOf(views) != "" })
}

// bring starts a node, and waits until it answers.
func (c *cluster) bring(ctx context.Context, n *node) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return errStopped
	}
	ended, err := n.begin()
	if err != nil {
		return err
	}
	return n.answers(ctx, c.api, ended)
}

// close kills all processes.
func (c *cluster) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	for _, n := range c.nodes {
		n.kill()
		n.output.close()
	}
	c.api.Close()
}

func (c *cluster) ids() (ids []string) {
	for _, n := range c.nodes {
		ids = append(ids, n.id)
	}
	return ids
}

func (c *cluster) addresses() (all []string) {
	for _, n := range c.nodes {
		all = append(all, n.address)
	}
	return all
}

func (c *cluster) node(id string) *node {
	for _, n := range c.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// view is what a node says of itself, the zero value if it does not answer.
type view struct {
	id, role      string
	term, applied uint64
	committed     uint64
}

// views asks all nodes at once.
func (c *cluster) views(ctx context.Context) []view {
	all := make([]view, len(c.nodes))
	var asked sync.WaitGroup
	for i, n := range c.nodes {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if s, err := c.api.Status(ctx, n.address); err == nil {
				all[i] = view{s.ID, s.Role, s.Term, s.AppliedIndex, s.CommitIndex}
			}
		})
	}
	asked.Wait()
	return all
}

// until waits for something that the nodes say.
func (c *cluster) until(ctx context.Context, atMost time.Duration, what string, reached func([]view) bool) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for {
		if reached(c.views(ctx)) {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the cluster did not come to %s within %v", what, atMost)
		}
	}
}

// leaderOf is the node that leads in the highest term, empty if none does.
func leaderOf(views []view) (id string) {
	term := uint64(0)
	for _, v := range views {
		if v.role == "leader" && v.term > term {
			id, term = v.id, v.term
		}
	}
	return id
}

// settled: all nodes answer, one leads, and all have applied the same entries.
func settled(views []view) bool {
	for _, v := range views {
		if v.id == "" || v.applied != views[0].applied {
			return false
		}
	}
	return leaderOf(views) != ""
}
