package wire

// RenewManyRequest is the body of POST /v1/renew-many: grants of one holder, of
// leases with distinct names.
type RenewManyRequest struct {
	Holder   string    `json:"holder"`
	Renewals []Renewal `json:"renewals"`
}

// Renewal names a grant to be renewed.
type Renewal struct {
	Name  string `json:"name"`
	Token uint64 `json:"token"`
}

// RenewMany answers POST /v1/renew-many, one result for each renewal, in order.
type RenewMany struct {
	Results []RenewResult `json:"results"`
	Term    uint64        `json:"term"`
	Index   uint64        `json:"index"` // of the one entry that renewed them
}

// RenewResult is what one renewal came to. One that was refused says why, in the
// words of the problem that POST /v1/renew would have answered.
type RenewResult struct {
	Name            string `json:"name"`
	Token           uint64 `json:"token"`
	Renewed         bool   `json:"renewed"`
	TTLMillis       int64  `json:"ttl_ms,omitempty"`
	RemainingMillis int64  `json:"remaining_ms,omitempty"`
	Code            string `json:"code,omitempty"`
	Detail          string `json:"detail,omitempty"`
	How             string `json:"how,omitempty"`
	Index           uint64 `json:"index,omitempty"` // of the entry that ended the grant
}
