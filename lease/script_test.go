package lease_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold/lease"
)

var update = flag.Bool("update", false, "write what the scripts in testdata really come to")

// TestScripts ensures that the stories in testdata/*.txt come out as written.
//
// A script is a log to read from top to bottom. "3 acquire …" is the entry at
// index 3, "5@2 …" the one at index 5 in term 2 (the term stays until another
// is named). What it came to follows under "----": the result, the events with
// their why, and the lease after the entry. "3 churn 1024 NAME" stands for 1,024
// acquires of NAME, each released at once, from index 3 on. "restart" replaces
// the table by one restored from its snapshot.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(old))
			if got == string(old) {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s: the script comes to something else (-update rewrites it)\n%s", file, firstDifference(string(old), got))
		})
	}
}

// runScript returns the script with the results that its commands really have.
// Comments and empty lines stay.
func runScript(t *testing.T, script string) string {
	var out strings.Builder
	l := newLog(t)
	inResult := false
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		switch {
		case line == "----":
			inResult = true
		case line == "":
			inResult = false
			out.WriteString("\n")
		case inResult:
			// An old result; the new one has been written already.
		case strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
		default:
			out.WriteString(line + "\n----\n" + runLine(t, l, line))
		}
	}
	return out.String()
}

func runLine(t *testing.T, l *log, line string) string {
	t.Helper()
	words := strings.Fields(line)
	if line == "restart" {
		l.table = checkRebuilds(t, l.table)
		return fmt.Sprintf("the same state at index %d\n", l.table.Applied().Index)
	}
	if len(words) < 3 {
		t.Fatalf("%q: want INDEX COMMAND NAME …", line)
	}
	index, term, hasTerm := strings.Cut(words[0], "@")
	if i := number(t, line, index); i < l.entry.Index {
		t.Fatalf("%q: index %d is in the past", line, i)
	} else {
		l.entry.Index = i
	}
	if hasTerm {
		l.entry.Term = number(t, line, term)
	}
	if words[1] == "churn" && len(words) == 4 {
		n := number(t, line, words[2])
		l.churn(int(n), words[3])
		return fmt.Sprintf("%d grants made and released, the last entry at index %d\n", n, l.entry.Index-1)
	}
	result := describe(l.apply(parseCommand(t, l.entry, line)))
	if words[1] == "lead" {
		leader, at := l.table.Leader()
		result += fmt.Sprintf("cluster: %s, led by %s at %s since index %d\n", l.table.ClusterID(), leader.Node, leader.Address, at.Index)
	}
	return result
}

// parseCommand reads "INDEX VERB NAME key=value …".
func parseCommand(t *testing.T, e lease.Entry, line string) lease.Command {
	t.Helper()
	words := strings.Fields(line)
	verb, name := words[1], words[2]
	args := map[string]string{}
	for _, w := range words[3:] {
		key, value, _ := strings.Cut(w, "=")
		args[key] = value
	}
	text := func(key string) string { v := args[key]; delete(args, key); return v }
	num := func(key string, absent uint64) uint64 {
		if s := text(key); s != "" {
			return number(t, line, s)
		}
		return absent
	}
	ttl := func() time.Duration {
		s := text("ttl")
		if s == "" {
			return 0
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return d
	}

	var c lease.Command
	switch verb {
	case "lead":
		c = lease.Lead{Node: name, Address: text("address"), ClusterID: text("cluster")}
	case "acquire":
		_, reclaim := args["reclaim"]
		delete(args, "reclaim")
		c = lease.Acquire{
			Name: name, Holder: text("holder"), RequestID: text("request"),
			TTL: ttl(), Value: text("value"), Reclaim: reclaim,
		}
	case "renew":
		var value *string
		if v, has := args["value"]; has {
			value = &v
		}
		delete(args, "value")
		c = lease.Renew{Name: name, Holder: text("holder"), Token: num("token", 0), TTL: ttl(), Value: value}
	case "release":
		c = lease.Release{Name: name, Holder: text("holder"), Token: num("token", 0)}
	case "expire":
		token := num("token", 0)
		c = lease.Expire{Name: name, Token: token, Renewal: num("renewal", token), Term: num("term", e.Term)}
	default:
		t.Fatalf("%q: unknown command", line)
	}
	if len(args) > 0 {
		t.Fatalf("%q: does not understand %v", line, args)
	}
	return c
}

func number(t *testing.T, line, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return n
}

// describe says in plain words what an entry came to.
func describe(r lease.Result) string {
	var b strings.Builder
	switch {
	case r.Err != nil:
		fmt.Fprintf(&b, "refused: %v\n", r.Err)
	case r.Replayed:
		fmt.Fprintf(&b, "ok, the same grant again: token %d\n", r.Lease.Grant.Token)
	case r.Already:
		fmt.Fprintf(&b, "ok, it was released already\n")
	case r.Lease != nil:
		fmt.Fprintf(&b, "ok: token %d\n", r.Lease.Grant.Token)
	default:
		fmt.Fprintf(&b, "ok\n")
	}
	for _, e := range r.Events {
		fmt.Fprintf(&b, "event %s: %s\n", e.Kind, e.Why())
	}
	if e := r.Ended; e != nil {
		fmt.Fprintf(&b, "ended: token %d of %s (%s), %s at index %d\n", e.Token, e.Holder, e.RequestID, e.How, e.Index)
	}
	if r.Name == "" {
		return b.String()
	}
	if r.Lease.State() == lease.Free {
		fmt.Fprintf(&b, "lease: free\n")
		return b.String()
	}
	g := r.Lease.Grant
	fmt.Fprintf(&b, "lease: held by %s (%s), token %d, ttl %v", g.Holder, g.RequestID, g.Token, g.TTL)
	if g.Renewals > 0 {
		fmt.Fprintf(&b, ", renewal %d at index %d", g.Renewals, g.Renewal)
	}
	if g.Value != "" {
		fmt.Fprintf(&b, ", value %q", g.Value)
	}
	b.WriteString("\n")
	return b.String()
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) || w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\n got %s", i+1, w[i], strings.Join(g[min(i, len(g)):min(i+1, len(g))], ""))
		}
	}
	return fmt.Sprintf("line %d\n got %s", len(w)+1, g[min(len(w), len(g)-1)])
}
