package check

import (
	"fmt"
	"io"
	"slices"

	"leasehold/torture/history"
)

// Verdict on a run; its number is the exit code of a program that judges one.
type Verdict int

// The verdicts.
const (
	Holds Verdict = iota
	IsViolated
	IsInconclusive
)

func (v Verdict) String() string {
	return [...]string{"holds", "violated", "inconclusive"}[v]
}

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Report is the judgement of a run.
type Report struct {
	Run      history.Run `json:"run"`
	Verdict  Verdict     `json:"verdict"`
	Results  []Result    `json:"results"`
	Evidence Evidence    `json:"evidence"`
	// Missing is the evidence that the run should have given, one sentence each.
	// Such a run was too gentle to say anything.
	Missing []string `json:"missing,omitempty"`
}

// decide: one violation is enough, whatever else is missing; and a run that
// proves nothing does not hold.
func (r *Report) decide(p Params) {
	for _, id := range p.Require {
		if res := r.Of(id); res.Status == NotChecked {
			r.Missing = append(r.Missing, fmt.Sprintf("%s was not checked: %s", id, res.Note))
		}
	}
	r.Verdict = Holds
	for _, res := range r.Results {
		switch {
		case res.Status == Violated:
			r.Verdict = IsViolated
			return
		case res.Status == Inconclusive:
			r.Verdict = IsInconclusive
		}
	}
	if len(r.Missing) > 0 {
		r.Verdict = IsInconclusive
	}
}

// Of returns the result of one property.
func (r *Report) Of(id string) Result {
	i := slices.IndexFunc(r.Results, func(res Result) bool { return res.ID == id })
	if i < 0 {
		return Result{Property: Property{ID: id}, Status: NotChecked, Note: "there is no such property"}
	}
	return r.Results[i]
}

// Write the report for people to read.
func (r *Report) Write(w io.Writer) error {
	p := &printer{w: w}
	p.line("verdict: %s", r.Verdict)
	for _, what := range r.Missing {
		p.line("  missing: %s", what)
	}
	for _, res := range r.Results {
		p.line("%-4s %-12s %-28s %s", res.ID, res.Status, res.Name, res.remark())
		for _, v := range res.Violations {
			p.line("       %s", v.What)
			for _, op := range v.Operations {
				p.line("         %s", describe(op))
			}
			for _, e := range v.Entries {
				p.line("         %s", describeEntry(e))
			}
		}
		if more := res.Found - len(res.Violations); more > 0 {
			p.line("       and %d more", more)
		}
	}
	p.line("evidence: %s", r.Evidence)
	return p.err
}

func (r Result) remark() string {
	switch {
	case r.Status == NotChecked:
		return r.Note
	case r.Note != "":
		return fmt.Sprintf("%d %s; %s", r.Checked, r.Unit, r.Note)
	}
	return fmt.Sprintf("%d %s", r.Checked, r.Unit)
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
