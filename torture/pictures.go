package torture

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"leasehold/torture/check"
	"leasehold/torture/history"
)

// overview shows the whole run: who led, what was broken in which node, and what the
// clients got done.
func (o *Outcome) overview() template.HTML {
	h := o.History
	end := h.LastFault(1 << 62)
	for i := range h.Operations {
		end = max(end, h.Operations[i].Return)
	}
	c := newCanvas(0, end)
	all := reigns(h)
	c.leaderRibbon(all)
	c.gap(6)
	for _, id := range o.nodes() {
		c.nodeLane(id, h, all)
	}
	c.gap(10)
	c.throughput(h)
	c.axis()
	return c.svg("the whole run: leaders, faults and throughput")
}

// nodes by their ids, as far as they are known.
func (o *Outcome) nodes() (ids []string) {
	for _, s := range o.History.Samples {
		if !slices.Contains(ids, s.Node) {
			ids = append(ids, s.Node)
		}
	}
	slices.Sort(ids)
	return ids
}

// leaderRibbon is a row that shows who led.
func (c *canvas) leaderRibbon(all []reign) {
	y := c.lane("leader", 22)
	for _, r := range ribbon(all) {
		c.bar("reign "+r.node, r.from, r.to, y+3, 16, fmt.Sprintf("%s leads in term %d, %s to %s", r.node, r.term, seconds(r.from), seconds(r.to)))
		if c.x(min(r.to, c.to))-c.x(r.from) > 60 && r.to > c.from && r.from < c.to {
			c.text("in", c.x(r.from)+4, y+15, false, fmt.Sprintf("%s, term %d", r.node, r.term))
		}
	}
}

// nodeLane shows the faults of a node, and below them when it led by its own word.
func (c *canvas) nodeLane(id string, h *history.History, all []reign) {
	y := c.lane(id, 30)
	for _, r := range all {
		if r.node == id {
			c.bar("reign "+id, r.from, r.to, y+21, 5, fmt.Sprintf("%s says that it leads in term %d", id, r.term))
		}
	}
	for _, f := range h.Faults {
		if !slices.Contains(f.Nodes, id) {
			continue
		}
		c.bar("fault "+kindClass(f.Kind), f.From, f.To, y+4, 15, fmt.Sprintf("%s: %s, %s to %s", id, f.Detail, seconds(f.From), seconds(f.To)))
		if c.x(f.To)-c.x(f.From) > 9*float64(len(f.Kind)) && f.To > c.from && f.From < c.to {
			c.text("in", c.x(f.From)+3, y+15, false, f.Kind)
		}
	}
}

// kindClass sorts faults into those of processes and all others.
func kindClass(kind string) string {
	switch kind {
	case "kill", "stop", "failed", "no start":
		return "down"
	case "pause":
		return "paused"
	}
	return "other"
}

// throughput shows the answers in each second, and of how many calls nobody knows what
// came.
func (c *canvas) throughput(h *history.History) {
	const height = 70.0
	seconds := int(c.to/time.Second) + 1
	answered, unknown := make([]int, seconds), make([]int, seconds)
	most := 1
	for i := range h.Operations {
		op := &h.Operations[i]
		at := int(op.Return / time.Second)
		if at < 0 || at >= seconds {
			continue
		}
		if op.Answered() {
			answered[at]++
		} else if op.Outcome == history.Unknown {
			unknown[at]++
		}
		most = max(most, answered[at]+unknown[at])
	}
	y := c.lane("answers a second", height)
	c.text("tick", labelWidth-8, y+10, true, fmt.Sprint(most))
	for i := range seconds {
		from, to := time.Duration(i)*time.Second, min(time.Duration(i+1)*time.Second, c.to)
		ok, lost := height*float64(answered[i])/float64(most), height*float64(unknown[i])/float64(most)
		title := fmt.Sprintf("second %d: %d answers, %d unknown", i, answered[i], unknown[i])
		c.box("rate", c.x(from), y+height-ok, c.x(to)-c.x(from)-1, ok, title)
		if lost > 0 {
			c.box("unknown", c.x(from), y+height-ok-lost, c.x(to)-c.x(from)-1, lost, title)
		}
	}
}

// bands are the times in which something was wrong with the cluster, behind all lanes
// of a picture that is otherwise finished.
func (c *canvas) bands(h *history.History) string {
	b := newCanvas(c.from, c.to)
	for _, s := range disturbances(h) {
		b.bar("band", s.from, s.to, 0, c.height, "")
	}
	return b.body.String()
}

// behind puts something behind what has been drawn.
func (c *canvas) behind(what string) {
	drawn := c.body.String()
	c.body.Reset()
	c.body.WriteString(what + drawn)
}

// maxBars bounds how much a picture of lanes shows.
const maxBars = 500

// story is a closer look at a few seconds: what each client did. It is the time of the
// first violation, or of the first fault.
func (o *Outcome) story() (picture template.HTML, from, to time.Duration) {
	from, to, show := o.window()
	h := o.History
	for within(h, from, to) > maxBars && to-from > time.Second {
		from, to = from+(to-from)/10, to-(to-from)/10
	}
	from, to = from.Truncate(100*time.Millisecond), to.Truncate(100*time.Millisecond)
	c := newCanvas(from, to)
	c.leaderRibbon(reigns(h))
	c.gap(6)
	for _, id := range o.nodes() {
		c.nodeLane(id, h, nil)
	}
	c.gap(8)
	for _, client := range clients(h) {
		c.clientLane(client, h, show)
	}
	c.axis()
	c.behind(c.bands(h))
	return c.svg("what each client did from " + seconds(from) + " to " + seconds(to)), from, to
}

// window is the time to look at closely, with the operations to show there.
func (o *Outcome) window() (from, to time.Duration, show map[int]bool) {
	show = make(map[int]bool)
	for _, res := range o.Report.Results {
		for _, v := range res.Violations {
			if len(v.Operations) == 0 {
				continue
			}
			from, to = reach(v.Operations)
			for _, op := range v.Operations {
				show[op.ID] = true
			}
			middle, wide := (from+to)/2, max(to-from+time.Second, 4*time.Second)
			return max(middle-wide/2, 0), middle + wide/2, show
		}
	}
	if spans := disturbances(o.History); len(spans) > 0 {
		from = spans[0].from
	}
	return max(from-time.Second, 0), from + 5*time.Second, show
}

// reach is the time from the first call to the last return.
func reach(ops []history.Operation) (from, to time.Duration) {
	from, to = ops[0].Call, ops[0].Return
	for _, op := range ops {
		from, to = min(from, op.Call), max(to, op.Return)
	}
	return from, to
}

// within counts the operations in a time.
func within(h *history.History, from, to time.Duration) (n int) {
	for i := range h.Operations {
		if op := &h.Operations[i]; op.Return >= from && op.Call <= to {
			n++
		}
	}
	return n
}

func clients(h *history.History) (names []string) {
	for i := range h.Operations {
		if name := h.Operations[i].Client; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// clientLane shows the operations of a client as bars, what it believed to hold as a
// line below, and its pauses behind.
func (c *canvas) clientLane(client string, h *history.History, show map[int]bool) {
	y := c.lane(client, 20)
	for _, f := range h.Faults {
		if f.Client == client {
			c.bar("asleep", f.From, f.To, y+1, 18, fmt.Sprintf("%s is paused, %s to %s", client, seconds(f.From), seconds(f.To)))
		}
	}
	for i := range h.Operations {
		if op := &h.Operations[i]; op.Client == client {
			class := "op " + string(op.Outcome)
			if show[op.ID] {
				class += " shown"
			}
			c.bar(class, op.Call, op.Return, y+3, 9, check.Describe(*op))
		}
	}
	for _, b := range h.Beliefs {
		if b.Client == client {
			c.bar("belief", b.From, b.To, y+14, 3, fmt.Sprintf("%s believes that it holds %s by token %d", client, b.Name, b.Token))
		}
	}
}

// closeUp shows the operations of one violation alone, with what they were told.
func (o *Outcome) closeUp(v check.Violation) template.HTML {
	if len(v.Operations) == 0 {
		return ""
	}
	from, to := reach(v.Operations)
	margin := max((to-from)/12, 5*time.Millisecond)
	c := newCanvas(max(from-margin, 0), to+2*margin)
	c.leaderRibbon(reigns(o.History))
	c.gap(6)
	ops := slices.Clone(v.Operations)
	slices.SortStableFunc(ops, func(a, b history.Operation) int { return int(a.Call - b.Call) })
	for i := range ops {
		op := &ops[i]
		y := c.lane(op.Client, 40)
		c.bar("op "+string(op.Outcome), op.Call, op.Return, y+20, 12, check.Describe(*op))
		about, x := brief(op), c.x(op.Call)
		c.text("about", min(x, pictureWidth-7*float64(len(about))), y+15, false, about)
	}
	c.axis()
	c.behind(c.bands(o.History))
	return c.svg(v.What)
}

// brief says what was asked and what was told, without the times.
func brief(op *history.Operation) string {
	text, _, _ := strings.Cut(check.Describe(*op), "  [")
	_, text, _ = strings.Cut(text, op.Client+" ")
	return text
}
