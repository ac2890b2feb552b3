package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Step is a fault at a time, on a node.
type Step struct {
	AtMillis int64 `json:"at_ms"` // after the start
	// Node is an id, or a [Target], found when the step is played.
	Node string `json:"node"`
	Fault
}

// At is when the step is due, after the start.
func (s Step) At() time.Duration { return millis(s.AtMillis) }

// Schedule is a list of steps, in order of time.
type Schedule []Step

// Target stands for nodes that are found when a step is played.
type Target = string

// The targets. Any other node is an id.
const (
	Leader   Target = "leader"
	Follower Target = "follower" // the first by id that does not lead
	Minority Target = "minority" // as many followers as the rest can do without
	Majority Target = "majority" // the leader, and as many followers as stop the cluster
	All      Target = "all"
)

// Validate says what is wrong with a step, if anything, as a *[FieldError].
func (s Step) Validate() error {
	if b := boundsOf["at_ms"]; !b.has(s.AtMillis) {
		return refuse("at_ms", "must be a whole number from %d to %d, not %d", b.min, b.max, s.AtMillis)
	}
	if s.Node == "" {
		return refuse("node", "is missing; it is an id, or %s", strings.Join([]string{Leader, Follower, Minority, Majority, All}, ", "))
	}
	if !isID(s.Node) {
		return refuse("node", "is %q, but an id is 1 to %d of A-Z a-z 0-9 . _ -", clip(s.Node), maxID)
	}
	return s.Fault.Validate()
}

// Resolve says which nodes a step is for. The ids are those of all nodes, the leader
// is empty while none is known; then a step that needs one is for nobody, and that is
// an error.
func Resolve(node, leader string, ids []string) ([]string, error) {
	ids = slices.Sorted(slices.Values(ids))
	followers := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == leader })
	switch {
	case node == All:
		return ids, nil
	case slices.Contains(ids, node):
		return []string{node}, nil
	case !slices.Contains([]string{Leader, Follower, Minority, Majority}, node):
		return nil, fmt.Errorf("there is no node %s among %s", node, strings.Join(ids, ", "))
	case !slices.Contains(ids, leader):
		return nil, fmt.Errorf("%s cannot be found, for no leader is known", node)
	}
	switch half := len(ids) / 2; node {
	case Leader:
		return []string{leader}, nil
	case Majority:
		return append([]string{leader}, followers[:half]...), nil
	case Minority:
		followers = followers[:(len(ids)-1)/2]
	default:
		followers = followers[:min(1, len(followers))]
	}
	if len(followers) == 0 {
		return nil, fmt.Errorf("%s cannot be found among %d nodes", node, len(ids))
	}
	return followers, nil
}

// Bounds of a schedule.
const (
	maxLine  = 64 << 10 // bytes
	maxSteps = 10_000
)

// ReadSchedule reads steps, one JSON object a line. Lines that are empty, or begin
// with #, are passed over. Errors name the line.
func ReadSchedule(r io.Reader) (Schedule, error) {
	var s Schedule
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		step, err := parseStep(line)
		if err == nil && len(s) > 0 && step.AtMillis < s[len(s)-1].AtMillis {
			err = refuse("at_ms", "is %d, earlier than the %d of the step before", step.AtMillis, s[len(s)-1].AtMillis)
		}
		if err == nil && len(s) == maxSteps {
			err = fmt.Errorf("a schedule has at most %d steps", maxSteps)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		s = append(s, step)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return s, nil
}

// Write writes the schedule so that ReadSchedule reads the same.
func (s Schedule) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, step := range s {
		if err := e.Encode(step); err != nil {
			return err
		}
	}
	return nil
}
