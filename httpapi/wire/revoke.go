package wire

// RevokeRequest is the body of POST /v1/revoke.
type RevokeRequest struct {
	Name   string `json:"name"`
	Token  uint64 `json:"token"`
	Reason string `json:"reason"`
}

// Revoke answers a revoke.
type Revoke struct {
	Name    string `json:"name"`
	Token   uint64 `json:"token"`
	Index   uint64 `json:"index"` // of the entry that ended the grant
	Already bool   `json:"already"`
}
