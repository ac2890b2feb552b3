package wire

// WriteRequest is the body of PUT /v1/registers/{name}. A Token of 0 and an empty
// Lease are left out.
type WriteRequest struct {
	Value string `json:"value"`
	Token uint64 `json:"token,omitempty"`
	Lease string `json:"lease,omitempty"`
}

// Write answers a write that the register accepted.
type Write struct {
	Name         string `json:"name"`
	Value        string `json:"value"`
	Index        uint64 `json:"index"`   // of the entry that wrote it
	Token        uint64 `json:"token"`   // 0 if it had none
	Lease        string `json:"lease"`   // empty if it named none
	Fenced       bool   `json:"fenced"`  // it came with a token
	Verdict      string `json:"verdict"` // "accepted"
	HighestToken uint64 `json:"highest_token"`
	Accepted     uint64 `json:"accepted"` // writes so far, this one among them
	Refused      uint64 `json:"refused"`
	ClusterID    string `json:"cluster_id"`
	Term         uint64 `json:"term"`
}

// Register is a register as a reader sees it. One that was never written to has
// zeros and no writes.
type Register struct {
	Name         string          `json:"name"`
	Value        string          `json:"value"`
	HighestToken uint64          `json:"highest_token"`
	Accepted     uint64          `json:"accepted"`
	Refused      uint64          `json:"refused"`
	Writes       []RegisterWrite `json:"writes"` // the latest, oldest first
	ClusterID    string          `json:"cluster_id,omitempty"`
	Term         uint64          `json:"term,omitempty"`
	Index        uint64          `json:"index,omitempty"` // of the state read
	*StaleRead
}

// RegisterWrite is one attempt to write to a register.
type RegisterWrite struct {
	Index   uint64 `json:"index"`   // of its entry
	Token   uint64 `json:"token"`   // 0 if it had none
	Lease   string `json:"lease"`   // empty if it named none
	Verdict string `json:"verdict"` // "accepted", "stale_token", "not_live"
	At      string `json:"at"`
}
