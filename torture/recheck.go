package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"leasehold/faults"
	"leasehold/torture/check"
	"leasehold/torture/history"
)

// Recheck judges a run by its history again: that of a folder, or a file. A history
// alone has no schedule, so it is known of no evidence that it should have.
func Recheck(path string, blackBox bool) (*Outcome, error) {
	folder := path
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		path = filepath.Join(path, historyFile)
	} else {
		folder = filepath.Dir(path)
	}
	out := &Outcome{Config: Config{Out: folder, BlackBox: blackBox}}
	if out.History, err = readHistory(path); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	known, err := out.takeOver(folder)
	if err != nil {
		return nil, err
	}
	p := params(out.Applied, out.Config.Nodes, out.Config.Duration, out.LateCPU+out.LateDisk, blackBox)
	if !known {
		p.Need, p.Missing = check.Need{}, []string{"it is not known which faults were played: there is no " + scheduleFile + " beside the history"}
	}
	if out.History.Torn || out.History.End == nil {
		// Calls that were under way have left entries in the log and no operation, and
		// faults that were on are not known either.
		p.Others, p.LeaveOut = true, append(p.LeaveOut, "P9", "P15")
		p.Missing = append(p.Missing, "the run was cut short")
	}
	out.params, out.Report = p, check.Check(out.History, p)
	return out, nil
}

func readHistory(path string) (*history.History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return history.Read(f)
}

// takeOver takes from the other files of a folder what the history does not tell.
func (o *Outcome) takeOver(folder string) (known bool, err error) {
	f, err := os.Open(filepath.Join(folder, scheduleFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if o.Applied, err = faults.ReadSchedule(f); err != nil {
		return false, fmt.Errorf("%s: %w", scheduleFile, err)
	}
	data, err := os.ReadFile(filepath.Join(folder, verdictFile))
	if err != nil {
		return false, err
	}
	var v struct {
		Config   ConfigJSON `json:"config"`
		Skipped  []string   `json:"skipped_faults"`
		LateCPU  int64      `json:"machine_late_ms"`
		LateDisk int64      `json:"disk_late_ms"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return false, fmt.Errorf("%s: %w", verdictFile, err)
	}
	millis := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	o.Skipped, o.LateCPU, o.LateDisk = v.Skipped, millis(v.LateCPU), millis(v.LateDisk)
	c := &o.Config
	c.Seed, c.Nodes, c.Duration, c.Faults = v.Config.Seed, v.Config.Nodes, millis(v.Config.DurationMs), v.Config.Faults
	c.Version, c.Command = o.History.Run.Version, o.History.Run.Command
	return true, nil
}

// WriteText writes the report for a terminal.
func (o *Outcome) WriteText(w io.Writer) error {
	if err := o.Report.Write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "machine: a process waited for up to %v, the disk took up to %v; the bounds allow for it\n",
		o.LateCPU.Round(time.Millisecond), o.LateDisk.Round(time.Millisecond))
	for _, s := range o.Skipped {
		if err == nil {
			_, err = fmt.Fprintf(w, "not done: %s\n", s)
		}
	}
	for _, s := range o.Notes {
		if err == nil {
			_, err = fmt.Fprintf(w, "note: %s\n", s)
		}
	}
	return err
}

// WriteReportFile writes the report for people to a file.
func (o *Outcome) WriteReportFile(path string) error { return create(path, o.WriteReport) }
