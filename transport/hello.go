package transport

// Hello is what a node says of itself when another connects to it, and in
// answer to every probe.
type Hello struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	// Incarnation is drawn at random when a data folder is first used. A node
	// that comes back with another one has lost its memory.
	Incarnation string `json:"incarnation"`
	// ClusterID is empty while the node knows of no cluster.
	ClusterID string `json:"cluster_id,omitempty"`
	// Listed is the list of first members, as id to address: the one that the
	// cluster was formed with, before that the one that the node was started with.
	// Nil if it knows none.
	Listed map[string]string `json:"listed,omitempty"`
	// Founders maps the ids of the first members to their incarnations, once the
	// node has seen all of them. Nil before.
	Founders map[string]string `json:"founders,omitempty"`
	// Formed: the node has Raft state, so it may have voted.
	Formed bool `json:"formed,omitempty"`
	// Running: Raft runs, and Term and LastIndex are its own.
	Running   bool   `json:"running,omitempty"`
	Term      uint64 `json:"term,omitempty"`
	LastIndex uint64 `json:"last_index,omitempty"`
}
