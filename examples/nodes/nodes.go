// Package nodes runs a small leasehold cluster in this process, so that an example
// can be tried without any set-up: real nodes, real Raft and real disks, each node
// at a free port of 127.0.0.1, with its data in a temporary folder.
//
// It is for examples and for tests. All nodes die with the one process that they are
// in, which is what a cluster exists to avoid.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"leasehold/client"
	"leasehold/cluster"
	"leasehold/httpapi"
	"leasehold/transport"
)

const (
	startTimeout = time.Minute     // for the first leader; it takes about a second
	stopTimeout  = 5 * time.Second // for requests in flight
)

// Nodes is a cluster that runs.
type Nodes struct {
	folder  string
	running []*node
	servers []string

	closing sync.Once
	closed  error // what Close gives
}

// node is one node with its API.
type node struct {
	*cluster.Node
	api    *httpapi.Server
	served chan struct{} // closed when the API has ended
}

// Start starts a cluster of n nodes and returns when it answers.
func Start(n int) (*Nodes, error) {
	if n < 1 {
		return nil, fmt.Errorf("a cluster has at least 1 node, not %d", n)
	}
	folder, err := os.MkdirTemp("", "leasehold-nodes-")
	if err != nil {
		return nil, err
	}
	c := &Nodes{folder: folder}
	if err := c.start(n); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Nodes) start(n int) error {
	// Every node has to know the addresses of all before the first one starts, so the
	// ports are taken here and handed over.
	listeners := make([]net.Listener, n)
	founders := make([]cluster.Peer, n)
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer func() {
			if len(c.running) <= i { // no node has taken it
				l.Close()
			}
		}()
		listeners[i] = l
		founders[i] = cluster.Peer{ID: fmt.Sprintf("n%d", i+1), Address: l.Addr().String()}
	}
	for i, peer := range founders {
		if err := c.open(peer, founders, listeners[i]); err != nil {
			return fmt.Errorf("node %s: %w", peer.ID, err)
		}
		c.servers = append(c.servers, peer.Address)
	}
	return c.answers()
}

func (c *Nodes) open(peer cluster.Peer, founders []cluster.Peer, l net.Listener) error {
	cfg := cluster.DefaultConfig() // its logger is silent
	cfg.ID, cfg.Address, cfg.Founders = peer.ID, peer.Address, founders
	cfg.Disk = &cluster.Folder{Path: filepath.Join(c.folder, peer.ID), Logger: cfg.Logger}
	cfg.Network = listening{cfg.Network, l}
	opened, err := cluster.Open(cfg)
	if err != nil {
		return err
	}
	api, err := httpapi.New(httpapi.Config{Backend: opened, MinTTL: cfg.MinTTL, MaxTTL: cfg.MaxTTL, Logger: cfg.Logger})
	if err != nil {
		return errors.Join(err, opened.Close())
	}
	running := &node{Node: opened, api: api, served: make(chan struct{})}
	go func() {
		defer close(running.served)
		_ = api.Serve(opened.HTTP()) // it ends with the node
	}()
	c.running = append(c.running, running)
	return nil
}

// answers waits until a leader serves: a read is confirmed by a majority.
func (c *Nodes) answers() error {
	api, err := client.NewAPI(client.Config{Servers: c.servers, Timeout: startTimeout})
	if err != nil {
		return err
	}
	defer api.Close()
	_, err = api.Lease(context.Background(), "any", client.Linearizable)
	return err
}

// Servers gives the nodes as host:port, for the configuration of a client.
func (c *Nodes) Servers() []string { return c.servers }

// Close stops all nodes and deletes their data. To close again does nothing and
// gives the same.
func (c *Nodes) Close() error {
	c.closing.Do(func() { c.closed = c.stop() })
	return c.closed
}

func (c *Nodes) stop() error {
	errs := make([]error, len(c.running), len(c.running)+1)
	var all sync.WaitGroup
	for i, n := range c.running {
		all.Go(func() { errs[i] = n.stop() })
	}
	all.Wait()
	return errors.Join(append(errs, os.RemoveAll(c.folder))...)
}

func (n *node) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = n.api.Shutdown(ctx) // cuts off what does not end in time
	err := n.Close()
	<-n.served
	return err
}

// listening is a network where a port is open already.
type listening struct {
	transport.Network
	listener net.Listener
}

// Listen gives the port that is open, whatever the address.
func (l listening) Listen(string) (net.Listener, error) { return l.listener, nil }
