package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"leasehold/httpapi/wire"
)

// printJSON writes a value as one line of JSON.
func (p *program) printJSON(v any) error {
	e := json.NewEncoder(p.stdout)
	e.SetEscapeHTML(false) // it is not for a web page; & should be &
	return e.Encode(v)
}

// table writes rows in columns for a person to read.
type table struct {
	w   *tabwriter.Writer
	err error
}

func newTable(w io.Writer) *table {
	return &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

// row adds a row. Its cells may come from clients and are made printable.
func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = printable(cell)
	}
	if _, err := fmt.Fprintln(t.w, strings.Join(cells, "\t")); err != nil && t.err == nil {
		t.err = err
	}
}

// field adds a row of a name and a value, unless there is no value.
func (t *table) field(name, value string) {
	if value != "" {
		t.row(name, value)
	}
}

// flush writes the rows that are still held back to align them.
func (t *table) flush() error {
	if err := t.w.Flush(); t.err == nil {
		t.err = err
	}
	return t.err
}

// printable quotes text that would upset a table or a terminal: a value is
// whatever its holder published.
func printable(text string) string {
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

// printGrant writes the answer to an acquire or a renew.
func (p *program) printGrant(a *access, g wire.Grant) error {
	if a.json {
		return p.printJSON(g)
	}
	t := newTable(p.stdout)
	t.row("name", g.Name)
	t.row("token", number(g.Token))
	t.row("holder", g.Holder)
	t.row("ttl", millis(g.TTLMillis).String())
	t.row("remaining", remaining(&g.RemainingMillis))
	t.field("value", g.Value)
	t.row("request_id", g.RequestID)
	if g.Replayed {
		t.row("replayed", "yes: this grant was made earlier, and its TTL runs from then")
	}
	t.row("cluster_id", g.ClusterID)
	t.row("term", number(g.Term))
	t.row("index", number(g.Index))
	return t.flush()
}

func number[N ~uint64 | ~int](n N) string { return fmt.Sprint(n) }

// remaining writes the time that a lease has left, or "?" where it is not known.
func remaining(ms *int64) string {
	if ms == nil {
		return "?"
	}
	return (time.Duration(*ms) * time.Millisecond).String()
}

// age writes how long ago a wall-clock time of a server was. Clocks differ
// between machines, so a time in the future is taken for now.
func age(now time.Time, stamp string) string {
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return stamp
	}
	return span(now.Sub(at)) + " ago"
}

// span writes a duration with two units at most: nobody reads more.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}
