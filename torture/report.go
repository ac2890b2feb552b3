package torture

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"leasehold/torture/check"
	"leasehold/torture/history"
	"leasehold/torture/sets"
)

//go:embed report.html.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"seconds": seconds, "describe": check.Describe, "entry": check.DescribeEntry, "millis": func(d time.Duration) string {
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}, "remark": remark,
}).Parse(reportText))

// page is what the template shows.
type page struct {
	*Outcome
	Sentence   string // the verdict in words
	About      string // of the fault set
	Command    string
	Violations []violation // the first of each property
	Overview   template.HTML
	Story      template.HTML
	StoryFrom  time.Duration
	StoryTo    time.Duration
	Phases     []*phase
	Measures   []check.Measure
	Faults     []history.Fault // of the cluster, with their true times
	NodeLogs   []string
	Drawn      []string // files that Porcupine drew
}

// violation of a property, with its picture.
type violation struct {
	check.Violation
	Property check.Property
	Picture  template.HTML
	Others   []string // further ones, in words
}

func (o *Outcome) showViolation(res check.Result) violation {
	v := violation{Violation: res.Violations[0], Property: res.Property, Picture: o.closeUp(res.Violations[0])}
	for _, other := range res.Violations[1:] {
		v.Others = append(v.Others, other.What)
	}
	if unlisted := res.Found - len(res.Violations); unlisted > 0 {
		v.Others = append(v.Others, fmt.Sprintf("%d that are only counted", unlisted))
	}
	return v
}

// WriteReport writes the report for people: one file of HTML that needs no other.
func (o *Outcome) WriteReport(w io.Writer) error {
	p := &page{
		Outcome: o, Sentence: o.sentence(), Command: o.Report.Run.Command, Overview: o.overview(), Phases: phases(o.History),
		Measures: o.params.Need.Measures(o.Report.Evidence), Drawn: o.drawn,
	}
	p.Story, p.StoryFrom, p.StoryTo = o.story()
	if set, err := sets.Named(o.Config.Faults); err == nil && o.Config.Schedule == nil {
		p.About = set.About
	}
	for _, res := range o.Report.Results {
		if len(res.Violations) > 0 {
			p.Violations = append(p.Violations, o.showViolation(res))
		}
	}
	for _, f := range o.History.Faults {
		if f.Client == "" {
			p.Faults = append(p.Faults, f)
		}
	}
	slices.SortStableFunc(p.Faults, func(a, b history.Fault) int { return int(a.From - b.From) })
	for _, id := range o.nodes() {
		p.NodeLogs = append(p.NodeLogs, id+".log")
	}
	return reportTemplate.Execute(w, p)
}

// remark is what was checked, and what else there is to say.
func remark(r check.Result) string {
	switch {
	case r.Note == "":
		return r.Unit
	case r.Checked == 0:
		return r.Note
	}
	return r.Unit + "; " + r.Note
}

// sentence is the verdict in words.
func (o *Outcome) sentence() string {
	switch o.Report.Verdict {
	case check.Holds:
		return "Everything that was checked holds, and the run was hard enough to count."
	case check.IsViolated:
		var broken []string
		for _, res := range o.Report.Results {
			if res.Status == check.Violated {
				broken = append(broken, res.ID+", "+res.Name)
			}
		}
		return "What was promised was broken: " + strings.Join(broken, "; ") + "."
	default:
		return "Nothing that was checked is broken, but the run does not prove that it holds."
	}
}

// draw has Porcupine draw the leases for which no order of the calls was found.
func (o *Outcome) draw() error {
	var names []string
	for _, id := range []string{"P5", "P5b"} {
		for _, v := range o.Report.Of(id).Violations {
			for _, op := range v.Operations {
				if op.Name != "" && !slices.Contains(names, op.Name) {
					names = append(names, op.Name)
				}
			}
		}
	}
	const most = 4
	for i, name := range names[:min(len(names), most)] {
		file := fmt.Sprintf("porcupine-%d.html", i+1)
		err := create(filepath.Join(o.Config.Out, file), func(w io.Writer) error { return check.Visualize(o.History, o.params, name, w) })
		if err != nil {
			return err
		}
		o.drawn = append(o.drawn, file)
	}
	return nil
}
