package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"leasehold/transport"
)

// How a cluster comes into being
//
// A voter that lost its disk must not vote again under its old name: it has
// forgotten entries that a majority, with it, had on disk, and with its vote a
// node that never had them could be elected. From the inside a wiped folder looks
// just like a fresh one. So the first formation leaves a mark on every founder:
//
//  1. A fresh folder gets an incarnation, drawn at random and made durable.
//  2. A founder without Raft state asks the others who they are, until all of
//     them have answered, none of them having formed a cluster.
//  3. It saves the incarnations of all founders, then makes its first Raft
//     configuration, then notes that it has formed. From the second step on it
//     tells whoever asks.
//
// A founder that asks and hears that the cluster has formed finds its own
// incarnation among the founders if it is merely late: it has never voted, so it
// goes on to 3, provided that its list is the one the cluster was formed with (it
// is entry 1 of every log). If it finds another one in its place, its folder was wiped, and
// it refuses to start. A cluster therefore forms only once every founder has been
// up; after that a majority is enough.
const formationRetry = 150 * time.Millisecond

// WipedError: this node was a member before, and its disk has been lost.
type WipedError struct{ ID, Peer string }

func (e *WipedError) Error() string {
	return fmt.Sprintf("the cluster has formed already (%s says so) with another data folder of %s; "+
		"a voter that has lost its data must not vote again, or what the others have promised could be undone. "+
		"They go on without it. The way back is to remove %s and to join a new node in its place, which this version cannot do yet; "+
		"with it, to be whole again is to stop all nodes and empty all their folders, which begins a new cluster",
		e.Peer, e.ID, e.ID)
}

// form waits until the cluster may form, or has formed with this node in it,
// and makes the first Raft configuration.
func (n *Node) form(ctx context.Context) error {
	if len(n.cfg.Founders) == 0 {
		return fmt.Errorf("node %s has no data yet and was given no list of the cluster's first members", n.cfg.ID)
	}
	for {
		founders, waiting, err := n.trySurvey(ctx)
		if err != nil {
			return err
		}
		if founders != nil {
			return n.found(founders)
		}
		n.setWaiting(waiting)
		select {
		case <-time.After(formationRetry):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// trySurvey asks every other founder once. It returns the founders if they are
// known, else a sentence that says who is missing, or why this can never work.
func (n *Node) trySurvey(ctx context.Context) (founders map[string]string, waiting string, err error) {
	hellos := n.survey(ctx)
	me := n.identity()
	for id, h := range hellos {
		if h.Founders[me.ID] != me.Incarnation {
			continue
		}
		if h.Listed != nil && !maps.Equal(h.Listed, n.listed()) {
			return nil, "", n.otherList("the cluster was formed (by "+id+" too)", h.Listed)
		}
		return h.Founders, "", nil // late, but one of them
	}
	founders = map[string]string{me.ID: me.Incarnation}
	for id, h := range hellos {
		switch {
		case h.Formed || h.Founders != nil:
			return nil, "", &WipedError{ID: me.ID, Peer: id}
		case !maps.Equal(h.Listed, n.listed()):
			return nil, "", n.otherList(id+" was started", h.Listed)
		}
		founders[id] = h.Incarnation
	}
	var missing []string
	for _, p := range n.cfg.Founders {
		if founders[p.ID] == "" {
			missing = append(missing, fmt.Sprintf("%s (%s)", p.ID, p.Address))
		}
	}
	if len(missing) > 0 {
		return nil, "the cluster forms when each of its first members has been up once; waiting for " + strings.Join(missing, ", "), nil
	}
	return founders, "", nil
}

// otherList says that this node's list of first members is not that of others.
func (n *Node) otherList(what string, listed map[string]string) error {
	return fmt.Errorf("%s with another list of first members: %s there, %s here",
		what, formatPeers(peersOf(listed)), formatPeers(n.cfg.Founders))
}

// survey asks every other founder who it is and returns what those said that
// answered.
func (n *Node) survey(ctx context.Context) map[string]transport.Hello {
	type answer struct {
		id    string
		hello transport.Hello
		err   error
	}
	others := 0
	answers := make(chan answer, len(n.cfg.Founders))
	for _, p := range n.cfg.Founders {
		if p.ID == n.cfg.ID {
			continue
		}
		others++
		go func() {
			hello, err := n.askOnce(ctx, p)
			answers <- answer{p.ID, hello, err}
		}()
	}
	hellos := make(map[string]transport.Hello)
	for range others {
		if a := <-answers; a.err == nil {
			hellos[a.id] = a.hello
		} else {
			n.log.Debug("a founder does not answer", "node", a.id, "error", a.err)
		}
	}
	return hellos
}

// askOnce asks a peer who it is.
func (n *Node) askOnce(ctx context.Context, p Peer) (transport.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var h transport.Hello
	var refused *transport.RefusedError
	probe, err := n.transport.Probe(ctx, p.Address)
	switch {
	case errors.As(err, &refused): // such as a node of another cluster, which says so
		h = refused.From
	case err != nil:
		return h, err
	default:
		defer probe.Close()
		h = probe.Hello()
	}
	if h.ID != p.ID {
		return h, fmt.Errorf("%s answers as %s", p.Address, h.ID)
	}
	return h, nil
}

// hasFormed says whether this node has a log, or a snapshot in its place. A term
// alone does not count, although raft.HasExistingState thinks so: it is what a
// crash in the midst of found leaves behind, before the node has ever voted.
func (n *Node) hasFormed() (bool, error) {
	last, err := n.stores.Log.LastIndex()
	if err != nil || last > 0 {
		return last > 0, err
	}
	snapshots, err := n.stores.Snapshots.List()
	return len(snapshots) > 0, err
}

// found makes this node a founder for good.
func (n *Node) found(founders map[string]string) error {
	if err := n.updateIdentity(func(id *Identity) { id.Founders, id.FoundersAt = founders, n.listed() }); err != nil {
		return err
	}
	// In order of id: this is entry 1 of every founder's log, and must be the same
	// entry, in whichever order the list was given.
	var first raft.Configuration
	for _, p := range sortedPeers(n.cfg.Founders) {
		first.Servers = append(first.Servers, raft.Server{
			Suffrage: raft.Voter, ID: raft.ServerID(p.ID), Address: raft.ServerAddress(p.Address),
		})
	}
	err := raft.BootstrapCluster(n.raftConfig(), n.stores.Log, n.stable, n.stores.Snapshots, n.raftTransport, first)
	if errors.Is(err, raft.ErrCantBootstrap) {
		// It writes a term and then the configuration, and takes the term alone for
		// a cluster. An earlier attempt got no further (see hasFormed): finish it.
		err = n.stores.Log.StoreLog(&raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(first)})
	}
	if err != nil {
		return fmt.Errorf("the first configuration cannot be saved: %w", err)
	}
	return n.updateIdentity(func(id *Identity) { id.Formed = true })
}

// checkPeers refuses to start a node whose peers belong to another cluster.
func (n *Node) checkPeers(ctx context.Context) error {
	me := n.identity()
	if me.ClusterID == "" {
		return nil
	}
	for id, h := range n.survey(ctx) {
		if h.ClusterID != "" && h.ClusterID != me.ClusterID {
			return fmt.Errorf("%s belongs to cluster %s and this node's data to cluster %s", id, h.ClusterID, me.ClusterID)
		}
	}
	return nil
}

func (n *Node) listed() map[string]string {
	listed := make(map[string]string, len(n.cfg.Founders))
	for _, p := range n.cfg.Founders {
		listed[p.ID] = p.Address
	}
	return listed
}

func peersOf(listed map[string]string) []Peer {
	var peers []Peer
	for id, address := range listed {
		peers = append(peers, Peer{id, address})
	}
	return peers
}
