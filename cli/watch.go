package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
	"leasehold/httpapi/wire"
)

type watchFlags struct {
	*access
	prefix string
	since  logIndex
}

func (p *program) watchCommand() *urfave.Command {
	f := &watchFlags{access: newAccess()}
	return &urfave.Command{
		Name:      "watch",
		Usage:     "show what happens, as it happens",
		UsageText: "leasehold watch [--prefix PREFIX] [--since INDEX]",
		Description: "One line an event, until you stop it, in the order of the log: time, index, kind, name, holder, token, and why.\n" +
			"When its server dies it goes on at another one, without a gap. With --json: one event a line; what one entry of\n" +
			"the log did has the same index, and \"more\" but for the last of it.",
		Flags: append([]urfave.Flag{
			&urfave.StringFlag{Name: "prefix", Destination: &f.prefix, Usage: "only names that start with `PREFIX`, and changes of leader"},
			&urfave.GenericFlag{Name: "since", Value: &f.since, Usage: "begin after `INDEX`, 0 for the first entry, instead of now"},
		}, f.flags()...),
		Action: func(c *urfave.Context) error { return p.watch(c, f) },
	}
}

func (p *program) watch(c *urfave.Context, f *watchFlags) error {
	if err := noArguments(c); err != nil {
		return err
	}
	cl, err := p.client(c, f.access)
	if err != nil {
		return err
	}
	defer cl.Close()
	options := client.WatchOptions{Prefix: f.prefix, Since: f.since.given, Moved: p.moved}
	columns := eventColumns{w: p.stdout, widths: [6]int{12, 5, 9, 12, 8, 5}}
	for ev, err := range cl.Watch(c.Context, options) {
		if stopped := context.Cause(c.Context); stopped != nil {
			return &enoughError{stopped}
		}
		if err != nil {
			return err
		}
		if f.json {
			err = p.printJSON(ev)
		} else {
			err = columns.print(ev)
		}
		if errors.Is(err, syscall.EPIPE) {
			return nil // whoever read this has seen enough
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moved tells that a watch goes on. Nothing is lost by it, so it is no error.
func (p *program) moved(server string, why error) {
	var lost *client.Error
	reason := why.Error()
	if errors.As(why, &lost) {
		reason = lost.Detail
	}
	fmt.Fprintf(p.stderr, "now watching %s (%s)\n", strings.TrimPrefix(server, "http://"), printable(reason))
}

// eventColumns writes events below each other. A table is aligned when its last
// row is known; here a column is as wide as its widest cell so far.
type eventColumns struct {
	w      io.Writer
	widths [6]int
}

func (t *eventColumns) print(ev wire.Event) error {
	at := ev.At
	if when, err := time.Parse(time.RFC3339, ev.At); err == nil {
		at = when.Local().Format("15:04:05.000")
	}
	token := ""
	if ev.Token != 0 {
		token = strconv.FormatUint(ev.Token, 10)
	}
	cells := [...]string{at, strconv.FormatUint(ev.Index, 10), ev.Kind, subject(ev), ev.Holder, token}
	var line strings.Builder
	for i, cell := range cells {
		cell = printable(cell)
		width := utf8.RuneCountInString(cell)
		t.widths[i] = max(t.widths[i], width)
		gap := strings.Repeat(" ", t.widths[i]-width)
		if number := i == 1 || i == 5; number {
			line.WriteString(gap + cell + "  ")
		} else {
			line.WriteString(cell + gap + "  ")
		}
	}
	_, err := fmt.Fprintln(t.w, line.String()+printable(ev.Why))
	return err
}

// subject is what an event is about.
func subject(ev wire.Event) string {
	switch {
	case ev.Node != "":
		return "node " + ev.Node
	case ev.Register != "":
		return "register " + ev.Register
	}
	return ev.Name
}

// logIndex is a place in the log on the command line. Unlike a token it may be 0,
// and 0 is not the same as none.
type logIndex struct{ given *uint64 }

func (i *logIndex) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return errors.New("an index is a whole number, 0 or more")
	}
	i.given = &n
	return nil
}

func (i *logIndex) String() string {
	if i == nil || i.given == nil {
		return ""
	}
	return strconv.FormatUint(*i.given, 10)
}
