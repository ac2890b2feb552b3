package clustertest

import (
	"math"

	"github.com/hashicorp/raft"

	"leasehold/cluster"
	"leasehold/fsm"
	"leasehold/lease"
)

// finish heals the cluster, brings all nodes that run to the same entry, checks
// the invariants, and stops them.
func (c *Cluster) finish() {
	c.Heal()
	c.DelayAll(0)
	if running := c.Running(); len(running) > len(c.ids)/2 && !c.t.Failed() {
		c.Leader()
		c.Until("every node has applied the same entries", c.sameIndex)
		c.checkHashes()
		c.checkLogs()
	}
	for _, id := range c.Running() {
		c.close(id)
	}
}

func (c *Cluster) sameIndex() bool {
	index := uint64(0)
	for _, id := range c.Running() {
		applied := c.nodes[id].Status().AppliedIndex
		if index == 0 {
			index = applied
		}
		if applied != index {
			return false
		}
	}
	return true
}

// checkHashes: nodes that have applied the same entry have the same state.
func (c *Cluster) checkHashes() {
	c.t.Helper()
	var first cluster.Status
	for i, id := range c.Running() {
		s := c.nodes[id].Status()
		if i == 0 {
			first = s
		} else if s.AppliedIndex == first.AppliedIndex && s.StateHash != first.StateHash {
			c.t.Errorf("at index %d %s has state %016x and %s has %016x", s.AppliedIndex, first.ID, first.StateHash, id, s.StateHash)
		}
	}
}

// checkLogs: nodes hold the same entries as far as both hold them, each entry
// makes at most one grant, and that grant's token is the entry's index.
func (c *Cluster) checkLogs() {
	c.t.Helper()
	end := uint64(math.MaxUint64)
	for _, id := range c.Running() {
		end = min(end, c.nodes[id].Status().AppliedIndex)
	}
	type stored struct {
		on   string
		term uint64
		data string
	}
	seen := make(map[uint64]stored)
	for _, id := range c.Running() {
		log := c.disks[id].store
		first, _ := log.FirstIndex()
		for i := first; i <= end && i > 0; i++ {
			var l raft.Log
			if err := log.GetLog(i, &l); err != nil {
				continue // compacted
			}
			other, known := seen[i]
			if known && (other.term != l.Term || other.data != string(l.Data)) {
				c.t.Errorf("entry %d differs between %s (term %d) and %s (term %d)", i, other.on, other.term, id, l.Term)
			}
			seen[i] = stored{id, l.Term, string(l.Data)}
		}
		if first == 1 {
			c.replay(id, log, end)
		}
	}
}

// replay applies a whole log to an empty table and compares the outcome with
// what the node has.
func (c *Cluster) replay(id string, log raft.LogStore, end uint64) {
	c.t.Helper()
	table, last := new(lease.Table), uint64(0)
	for i := uint64(1); i <= end; i++ {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			return // compacted meanwhile
		}
		if l.Type != raft.LogCommand {
			continue
		}
		command, err := fsm.DecodeCommand(l.Data)
		if err != nil {
			c.t.Errorf("entry %d of %s: %v", i, id, err)
			return
		}
		r := table.Apply(lease.Entry{Index: l.Index, Term: l.Term, At: l.AppendedAt.UnixMilli()}, command)
		grants := 0
		for _, ev := range r.Events {
			if ev.Kind != lease.KindGranted {
				continue
			}
			if grants++; grants > 1 || ev.Token != l.Index || ev.Token <= last {
				c.t.Errorf("entry %d of %s makes grant number %d with token %d after token %d", i, id, grants, ev.Token, last)
			}
			last = ev.Token
		}
	}
	if s := c.nodes[id].Status(); s.AppliedIndex == table.Applied().Index && s.StateHash != table.Hash() {
		c.t.Errorf("%s has state %016x, its log replayed gives %016x", id, s.StateHash, table.Hash())
	}
}
