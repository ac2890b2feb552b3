package torture

import (
	"fmt"
	"io"
	"time"

	"leasehold/faults"
	"leasehold/torture/sets"
)

// Config of a run.
type Config struct {
	// Program is the path of the leasehold binary to put to the test.
	Program string
	// Version of it, for the report.
	Version string
	// Command that runs it again, for the report.
	Command string

	Seed     uint64
	Nodes    int           // 3 or 5
	Duration time.Duration // of the work; the last part of it without faults
	Faults   string        // the name of a fault set
	// Schedule is played instead of a fault set, if there is one.
	Schedule faults.Schedule
	// BlackBox also checks whether the answers alone are linearizable.
	BlackBox bool

	// Out is an empty or new folder for all that is known of the run.
	Out string
	// Port of the first node, the others have those that follow. 0: free ones.
	Port int
	// Progress gets a line every few seconds.
	Progress io.Writer
}

// healed is how long the cluster is left alone at the end.
const healed = 15 * time.Second

// MinDuration leaves time for a few faults.
const MinDuration = healed + 10*time.Second

// DefaultConfig lacks the program and the folder.
func DefaultConfig() Config {
	return Config{Seed: 1, Nodes: 3, Duration: 40 * time.Second, Faults: "mixed", Progress: io.Discard}
}

// Validate says what is wrong with the configuration.
func (c *Config) Validate() error {
	switch {
	case c.Nodes != 3 && c.Nodes != 5:
		return fmt.Errorf("%d nodes cannot be tested, 3 or 5 can", c.Nodes)
	case c.Duration < MinDuration:
		return fmt.Errorf("a duration of %v is less than %v: the last %v are left without faults", c.Duration, MinDuration, healed)
	case c.Duration > 24*time.Hour:
		return fmt.Errorf("a duration of %v is more than 24h", c.Duration)
	case c.Port != 0 && (c.Port < 1024 || c.Port+c.Nodes > 65535):
		return fmt.Errorf("port %d is not from 1024 to %d", c.Port, 65535-c.Nodes)
	case c.Out == "" || c.Program == "":
		return fmt.Errorf("the program or the folder is missing")
	}
	if c.Schedule != nil {
		return nil
	}
	_, err := sets.Named(c.Faults)
	return err
}

// schedule of the faults: the given one, or that of the set.
func (c *Config) schedule(nodes []string) (faults.Schedule, error) {
	if c.Schedule != nil {
		return c.Schedule, nil
	}
	set, err := sets.Named(c.Faults)
	return set.Schedule(c.Seed, nodes, c.Duration-healed), err
}

// title of the run, for people.
func (c *Config) title() string {
	what := "faults " + c.Faults
	if c.Schedule != nil {
		what = fmt.Sprintf("a given schedule of %d faults", len(c.Schedule))
	}
	return fmt.Sprintf("%d nodes, %v, %s", c.Nodes, c.Duration, what)
}

// Takes is about how long a run takes: the work, and before and after it the start of
// the nodes and the check.
func (c *Config) Takes() time.Duration { return c.Duration + 5*time.Second }
