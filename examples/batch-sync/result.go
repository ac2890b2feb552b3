package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
)

// result of one simulation.
type result struct {
	way string

	batches, pushes, bookings int

	repeated int // batches that were pushed more than once
	doubled  int // batches that were booked more than once
	missed   int // batches that were not booked
	twice    int // batches that were marked more than once in the database

	lost, overlapped, crashed int
	foreignDels, staleRefused int
}

func (j *job) result(ctx context.Context, way string, batches int) (result, error) {
	r := result{
		way: way, batches: batches,
		lost:         int(j.counts.lost.Load()),
		overlapped:   int(j.counts.overlapped.Load()),
		crashed:      int(j.counts.crashed.Load()),
		foreignDels:  int(j.counts.foreignDels.Load()),
		staleRefused: int(j.counts.staleRefused.Load()),
	}
	pushed, booked := j.accounting.tally()
	for batch := int64(1); batch <= int64(batches); batch++ {
		r.pushes += pushed[batch]
		r.bookings += booked[batch]
		if pushed[batch] > 1 {
			r.repeated++
		}
		if booked[batch] > 1 {
			r.doubled++
		}
		if booked[batch] == 0 {
			r.missed++
		}
	}
	var err error
	r.twice, err = j.store.markedTwice(ctx)
	return r, err
}

// row is a line of the table.
type row struct {
	text  string
	value func(result) int
	not   string // the way that cannot have it
}

var rows = []row{
	{"batches", func(r result) int { return r.batches }, ""},
	{"pushes that the API received", func(r result) int { return r.pushes }, ""},
	{"bookings that the API made", func(r result) int { return r.bookings }, ""},
	{"batches doubled: booked more than once", func(r result) int { return r.doubled }, ""},
	{"batches doubled if there were no key", func(r result) int { return r.repeated }, ""},
	{"batches missed: never booked", func(r result) int { return r.missed }, ""},
	{"batches marked twice in the database", func(r result) int { return r.twice }, ""},
	{"stale writes refused by the database", func(r result) int { return r.staleRefused }, "redis"},
	{"DELs of another worker's lock", func(r result) int { return r.foreignDels }, "leasehold"},
	{"runs that lost the lock before their end", func(r result) int { return r.lost }, ""},
	{"runs that began beside another", func(r result) int { return r.overlapped }, ""},
	{"crashes", func(r result) int { return r.crashed }, ""},
}

// printTable writes the results side by side.
func printTable(out io.Writer, results []result) {
	line := func(text string, value func(result) string) {
		fmt.Fprintf(out, "%-42s", text)
		for _, r := range results {
			fmt.Fprintf(out, "%12s", value(r))
		}
		fmt.Fprintln(out)
	}
	line("", func(r result) string { return r.way })
	for _, row := range rows {
		line(row.text, func(r result) string {
			if r.way == row.not {
				return "-"
			}
			return strconv.Itoa(row.value(r))
		})
	}
}
