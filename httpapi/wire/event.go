package wire

// Event is the data of one server-sent event of GET /v1/events: one thing that an
// entry of the log did. Which fields are present depends on Kind.
type Event struct {
	Index uint64 `json:"index"` // of the entry
	Term  uint64 `json:"term"`
	At    string `json:"at"`
	Kind  string `json:"kind"` // "granted", "expired", …

	// What the event is about: one of these.
	Name     string `json:"name,omitempty"`     // of a lease
	Register string `json:"register,omitempty"` // the name of a register
	Node     string `json:"node,omitempty"`     // the id of the new leader

	Holder    string `json:"holder,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	Token     uint64 `json:"token,omitempty"`
	Place     uint64 `json:"place,omitempty"` // of a waiter in the queue
	Reason    string `json:"reason,omitempty"`
	// LockDelayMillis is how long the lease now stays closed.
	LockDelayMillis int64  `json:"lock_delay_ms,omitempty"`
	Cause           string `json:"cause,omitempty"` // of what was refused: "held", …
	Why             string `json:"why"`

	// More: the entry did more, and the next event has the same index. A client
	// that is cut off after such an event resumes from the index before it.
	More bool `json:"more,omitempty"`
}

// Heartbeat is the data of an event "heartbeat", which comes at once and then
// every second, and has no id.
type Heartbeat struct {
	// Index is that of the entry which the node has applied last.
	Index uint64 `json:"index"`
	// Since is where to resume after this heartbeat: everything up to it has been
	// sent or was not asked for. It is behind Index while the client catches up.
	Since  uint64 `json:"since"`
	Term   uint64 `json:"term"`
	Leader *Node  `json:"leader"` // null while the node knows none
	Node   string `json:"node"`   // that sends this
}
