package work

import (
	"sync/atomic"
	"time"

	"leasehold/torture/history"
)

// Log is where the players write what they do and see, with the one clock of the
// run.
type Log struct {
	*history.Recorder
	begun   time.Time
	batches atomic.Uint64 // so many so far
}

// NewLog begins the time of the run now.
func NewLog(to *history.Recorder) *Log { return &Log{Recorder: to, begun: time.Now()} }

// Now is the time of the run.
func (l *Log) Now() time.Duration { return time.Since(l.begun) }
