package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"leasehold/lease"
	"leasehold/transport"
)

// Identity says whose disk it is and which cluster the node belongs to.
type Identity struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	Address string `json:"address"`
	// Incarnation is drawn at random when the disk is first used.
	Incarnation string `json:"incarnation"`
	// Founders are the incarnations of the first members, by id. Saved before
	// this node first takes part in the cluster.
	Founders map[string]string `json:"founders,omitempty"`
	// FoundersAt are their addresses, saved with Founders.
	FoundersAt map[string]string `json:"founders_at,omitempty"`
	// Formed: the node has taken part in the cluster, so it must have Raft state.
	Formed bool `json:"formed"`
	// ClusterID is empty until the first leader has given the cluster one.
	ClusterID string `json:"cluster_id,omitempty"`
}

// claimIdentity makes sure that the disk is this node's.
func (n *Node) claimIdentity(formed bool) error {
	id := n.identity()
	switch {
	case id.ID == "":
		id = Identity{ID: n.cfg.ID, Address: n.cfg.Address, Incarnation: randomID()}
	case id.ID != n.cfg.ID:
		return fmt.Errorf("the data is that of node %s, this is node %s", id.ID, n.cfg.ID)
	case id.Address != n.cfg.Address && (formed || id.Formed || id.Founders != nil):
		return fmt.Errorf("the data is that of node %s at %s, but it was started with the address %s; the other nodes know it by the old one", id.ID, id.Address, n.cfg.Address)
	case id.Formed && !formed:
		return errors.New("this node has taken part in a cluster, but its log is empty; starting so could undo what the cluster has promised")
	}
	// Until it is a founder, a node may be given another address: the first one may
	// have been a slip, or in use. Others that have formed a cluster with it at the
	// old one tell it so when it asks them; see trySurvey. Its incarnation stays.
	id.Address = n.cfg.Address
	id.Formed = formed
	return n.updateIdentity(func(current *Identity) { *current = id })
}

func (n *Node) identity() Identity {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// updateIdentity changes the identity in memory once it is on disk.
func (n *Node) updateIdentity(change func(*Identity)) error {
	n.saving.Lock()
	defer n.saving.Unlock()
	id := n.identity()
	change(&id)
	if err := n.stores.Save(id); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.id = id
	return nil
}

// hello is what this node tells others of itself.
func (n *Node) hello() transport.Hello {
	id := n.identity()
	h := transport.Hello{
		ID: id.ID, Address: id.Address, Incarnation: id.Incarnation, ClusterID: id.ClusterID,
		Founders: id.Founders, Formed: id.Formed, Listed: n.listed(),
	}
	if id.FoundersAt != nil {
		h.Listed = id.FoundersAt
	}
	if n.started() {
		// The term last: whoever asks relies on its being no older than that.
		h.Running, h.LastIndex, h.Term = true, n.raft.LastIndex(), n.raft.CurrentTerm()
	}
	return h
}

// admit refuses peers of another cluster.
func (n *Node) admit(channel string, from transport.Hello) error {
	me := n.identity()
	switch {
	case from.ID == me.ID:
		return fmt.Errorf("this node is %s itself (%s), and so is the one that connects (%s)", me.ID, me.Address, from.Address)
	case me.ClusterID != "" && from.ClusterID != "" && me.ClusterID != from.ClusterID:
		return fmt.Errorf("%s belongs to cluster %s, this is cluster %s", from.ID, from.ClusterID, me.ClusterID)
	case channel == transport.ChannelRaft && !n.started():
		return fmt.Errorf("%s does not take part in a cluster yet: %s", me.ID, n.waitingFor())
	}
	return nil
}

func (n *Node) restored() {
	select {
	case n.mayKnowCluster <- struct{}{}:
	default:
	}
}

// rememberCluster notes on disk which cluster this node belongs to, once the
// state machine knows. It does so off Raft's thread.
func (n *Node) rememberCluster() {
	for {
		select {
		case <-n.mayKnowCluster:
		case <-n.closing.Done():
			return
		}
		id := n.clusterID()
		if id == "" || n.identity().ClusterID == id {
			continue
		}
		if err := n.updateIdentity(func(me *Identity) { me.ClusterID = id }); err != nil {
			n.log.Error("the cluster id cannot be saved", "error", err)
		}
	}
}

func (n *Node) clusterID() (id string) {
	n.machine.View(func(t *lease.Table) { id = t.ClusterID() })
	return id
}

// randomID is 16 hex digits that nobody else draws.
func randomID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}
