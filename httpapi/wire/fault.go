package wire

import "leasehold/faults"

// FaultRequest is the body of POST /v1/faults.
type FaultRequest struct{ faults.Fault }

// Fault is one that is on in a node, or has just been healed.
type Fault struct {
	ID              string `json:"id"`
	RemainingMillis int64  `json:"remaining_ms"` // until it heals itself
	faults.Fault
}

// Faults answers GET /v1/faults with those that are on, and DELETE with those that it
// has healed.
type Faults struct {
	Node   string  `json:"node"` // whose they are
	Faults []Fault `json:"faults"`
}
