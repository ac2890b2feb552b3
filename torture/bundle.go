package torture

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"leasehold/torture/check"
)

// The files of a run in its folder, beside the output of each node in ID.log.
const (
	historyFile  = "history.jsonl"
	scheduleFile = "schedule.jsonl"
	verdictFile  = "verdict.json"
	reportFile   = "report.html"
)

// Verdict is the content of verdict.json.
type Verdict struct {
	check.Report
	Config   ConfigJSON `json:"config"`
	Skipped  []string   `json:"skipped_faults,omitempty"`
	Notes    []string   `json:"notes,omitempty"`
	LateCPU  int64      `json:"machine_late_ms"`
	LateDisk int64      `json:"disk_late_ms"`
}

// ConfigJSON is what of the configuration decides how a run goes.
type ConfigJSON struct {
	Seed       uint64 `json:"seed"`
	Nodes      int    `json:"nodes"`
	DurationMs int64  `json:"duration_ms"`
	Faults     string `json:"faults,omitempty"`
	BlackBox   bool   `json:"black_box,omitempty"`
}

// write writes the files.
func (o *Outcome) write() error {
	in := func(name string) string { return filepath.Join(o.Config.Out, name) }
	err := create(in(scheduleFile), o.Applied.Write)
	if err != nil {
		return err
	}
	if err := create(in(verdictFile), o.writeVerdict); err != nil {
		return err
	}
	if err := o.draw(); err != nil {
		return err
	}
	return create(in(reportFile), o.WriteReport)
}

func (o *Outcome) writeVerdict(w io.Writer) error {
	c := o.Config
	v := Verdict{
		Report: o.Report, Skipped: o.Skipped, Notes: o.Notes, LateCPU: o.LateCPU.Milliseconds(), LateDisk: o.LateDisk.Milliseconds(),
		Config: ConfigJSON{Seed: c.Seed, Nodes: c.Nodes, DurationMs: c.Duration.Milliseconds(), Faults: c.Faults, BlackBox: c.BlackBox},
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// create writes a file, which is there only when it is whole.
func create(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // of no effect once it is renamed
	err = write(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
