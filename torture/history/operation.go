package history

import "time"

// Kind of an [Operation].
type Kind string

// The kinds of operations.
const (
	Acquire   Kind = "acquire"
	Renew     Kind = "renew"
	RenewMany Kind = "renew_many" // one operation for each lease of the request, all with the same Batch
	Release   Kind = "release"
	Revoke    Kind = "revoke"
	Get       Kind = "get"
	StaleGet  Kind = "stale_get"
	Write     Kind = "write"
	ReadValue Kind = "read" // of a register
)

// Outcome is what a client knows of an operation afterwards.
type Outcome string

// The outcomes.
const (
	// OK: it was carried out, and the answer says how.
	OK Outcome = "ok"
	// Refused: the state of the log forbids it; Code says why. 409, 410 and 412.
	Refused Outcome = "refused"
	// Nothing: it was certainly not carried out and never will be. 400, 429, a 503
	// without a request id, a connection that was refused before anything was sent.
	Nothing Outcome = "nothing"
	// Unknown: it may have been carried out, or may yet be. 504, a connection that
	// broke, no answer in time; also a 503 to a request that keeps its place in the
	// queue.
	Unknown Outcome = "unknown"
)

// Operation is one call of one client as the client saw it. Times are those of
// the run: one monotonic clock for all clients, zero when the run started.
type Operation struct {
	// ID is the place of the operation in the record, from 1 on. The [Recorder]
	// sets it.
	ID      int    `json:"id"`
	Client  string `json:"client"`
	Session string `json:"session,omitempty"` // the connection, for reads that must not go backwards
	Kind    Kind   `json:"kind"`

	// What was asked.
	Name      string        `json:"name,omitempty"` // of the lease
	Holder    string        `json:"holder,omitempty"`
	RequestID string        `json:"request_id,omitempty"`
	Token     uint64        `json:"token,omitempty"`
	TTL       time.Duration `json:"ttl_ns,omitempty"` // of a renewal: 0 keeps that of the grant
	Wait      time.Duration `json:"wait_ns,omitempty"`
	LockDelay time.Duration `json:"lock_delay_ns,omitempty"`
	Reclaim   bool          `json:"reclaim,omitempty"`
	Value     *string       `json:"value,omitempty"`
	Register  string        `json:"register,omitempty"`
	Guard     string        `json:"lease,omitempty"`  // a write: the lease that its token must hold
	Reason    string        `json:"reason,omitempty"` // a revoke
	Batch     string        `json:"batch,omitempty"`  // renew_many: the same for all leases of one request

	// Counter: the write adds one to what its client read from the register before.
	// If two such writes set the same value an update was lost.
	Counter bool `json:"counter,omitempty"`
	// Probe: the call was made to see whether the cluster serves, with a name of its
	// own, so that nothing but the cluster can stand in its way.
	Probe bool `json:"probe,omitempty"`

	Call   time.Duration `json:"call_ns"`
	Return time.Duration `json:"return_ns"` // when the client had the answer, or gave up

	Outcome   Outcome `json:"outcome"`
	Code      string  `json:"code,omitempty"`      // of the problem
	Redirects int     `json:"redirects,omitempty"` // followed within the longest of the attempts
	Attempts  int     `json:"attempts,omitempty"`  // requests sent, if more than one: retries, hedges
	Answer    Answer  `json:"answer,omitzero"`
}

// Answer is what the cluster said. Zero fields were absent.
type Answer struct {
	Node string `json:"node,omitempty"` // that answered
	Term uint64 `json:"term,omitempty"`
	// Index of the entry that was the answer, or of the state that was read: the
	// header X-Leasehold-Index, or "index" in the body of a grant and "applied_index"
	// in that of a stale read.
	Index uint64 `json:"index,omitempty"`

	Token    uint64        `json:"token,omitempty"`
	Holder   string        `json:"holder,omitempty"`
	State    string        `json:"state,omitempty"` // a get: "held", "cooling", "free"
	TTL      time.Duration `json:"ttl_ns,omitempty"`
	Value    *string       `json:"value,omitempty"`
	Replayed bool          `json:"replayed,omitempty"` // acquire
	Already  bool          `json:"already,omitempty"`  // release, revoke
	Stale    bool          `json:"stale,omitempty"`    // the read is labelled as one that may be old

	RemainingMillis  *int64 `json:"remaining_ms,omitempty"`
	RetryAfterMillis *int64 `json:"retry_after_ms,omitempty"`

	// How and at which index the grant in question ended.
	How        string `json:"how,omitempty"`
	EndedIndex uint64 `json:"ended_index,omitempty"`

	HighestToken uint64 `json:"highest_token,omitempty"` // of a register
}

// Attempt is the request that an acquire makes: the same one again has the same
// name, holder and request id.
type Attempt struct{ Name, Holder, RequestID string }

// Attempt of an acquire.
func (o *Operation) Attempt() Attempt { return Attempt{o.Name, o.Holder, o.RequestID} }

// Answered: the cluster decided it by an entry or a state of the log.
func (o *Operation) Answered() bool { return o.Outcome == OK || o.Outcome == Refused }

// Belief is a time in which a client believed that it held a lease, by its own
// rule. The time in which the client itself was paused belongs to it.
type Belief struct {
	Client string        `json:"client"`
	Name   string        `json:"name"`
	Token  uint64        `json:"token"`
	From   time.Duration `json:"from_ns"`
	To     time.Duration `json:"to_ns"`
}
