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
// acquires of NAME, each released at once, from index 3 on, "3 writes 20 NAME" for
// 20 writes to the register NAME. "restart" replaces the table by one restored
// from its snapshot.
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
	if words[1] == "writes" && len(words) == 4 {
		n := number(t, line, words[2])
		for range n {
			l.apply(lease.Write{Register: words[3], Value: fmt.Sprint("value-", l.entry.Index)})
		}
		return fmt.Sprintf("%d writes, the last entry at index %d\n", n, l.entry.Index-1) + describeRegister(l.table.Register(words[3]))
	}
	c := parseCommand(t, l.entry, line)
	result := describe(l.table, c, l.apply(c))
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
	duration := func(key string) time.Duration {
		s := text(key)
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
			TTL: duration("ttl"), Wait: duration("wait"), LockDelay: duration("delay"), Value: text("value"), Reclaim: reclaim,
		}
	case "renew":
		var value *string
		if v, has := args["value"]; has {
			value = &v
		}
		delete(args, "value")
		c = lease.Renew{Name: name, Holder: text("holder"), Token: num("token", 0), TTL: duration("ttl"), Value: value}
	case "renew-many": // NAME is the holder, and each key a lease with its token
		many := lease.RenewMany{Holder: name}
		for _, w := range words[3:] {
			of, token, _ := strings.Cut(w, "=")
			many.Renewals = append(many.Renewals, lease.Renewal{Name: of, Token: number(t, line, token)})
			delete(args, of)
		}
		c = many
	case "release":
		c = lease.Release{Name: name, Holder: text("holder"), Token: num("token", 0)}
	case "expire":
		token := num("token", 0)
		c = lease.Expire{Name: name, Token: token, Renewal: num("renewal", token), Term: num("term", e.Term)}
	case "reopen":
		c = lease.Reopen{Name: name, Token: num("token", 0)}
	case "abandon":
		reason, known := reasons[text("reason")]
		if !known {
			t.Fatalf("%q: want reason=over, gone or notback", line)
		}
		c = lease.Abandon{Name: name, Holder: text("holder"), RequestID: text("request"), Place: num("place", 0), Reason: reason}
	case "revoke":
		c = lease.Revoke{Name: name, Token: num("token", 0), Reason: strings.ReplaceAll(text("reason"), "_", " ")}
	case "write":
		c = lease.Write{Register: name, Value: text("value"), Token: num("token", 0), Lease: text("lease")}
	default:
		t.Fatalf("%q: unknown command", line)
	}
	if len(args) > 0 {
		t.Fatalf("%q: does not understand %v", line, args)
	}
	return c
}

var reasons = map[string]lease.Reason{"over": lease.WaitOver, "gone": lease.ClientGone, "notback": lease.NotBack}

func number(t *testing.T, line, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return n
}

// describe says in plain words what an entry came to.
func describe(table *lease.Table, c lease.Command, r lease.Result) string {
	var b strings.Builder
	b.WriteString(describeAnswer(c, r) + "\n")
	for _, e := range r.Events {
		fmt.Fprintf(&b, "event %s: %s\n", e.Kind, e.Why())
	}
	if e := r.Ended; e != nil {
		fmt.Fprintf(&b, "ended: token %d of %s (%s), %s at index %d", e.Token, e.Holder, e.RequestID, e.How, e.Index)
		if e.Reason != "" {
			fmt.Fprintf(&b, " because %s", e.Reason)
		}
		b.WriteString("\n")
	}
	if r.Name != "" {
		b.WriteString(describeLease(r.Lease))
		b.WriteString(describeQueue(table, r.Name))
	}
	for _, one := range r.Each {
		fmt.Fprintf(&b, "%s: %s; %s", one.Name, describeAnswer(lease.Renew{}, one), describeLease(one.Lease))
	}
	if r.Register != nil {
		b.WriteString(describeRegister(r.Register))
	}
	return b.String()
}

// describeAnswer is what the client of the command is told.
func describeAnswer(c lease.Command, r lease.Result) string {
	switch {
	case r.Err != nil:
		return fmt.Sprintf("refused: %v", r.Err)
	case r.Replayed && r.Waiter != nil:
		return fmt.Sprintf("ok, the same place again: %d", r.Waiter.Place)
	case r.Replayed:
		return fmt.Sprintf("ok, the same grant again: token %d", r.Lease.Grant.Token)
	case r.Already:
		return fmt.Sprintf("ok, it was %s already", r.Ended.How)
	}
	switch c.(type) {
	case lease.Acquire:
		if r.Waiter != nil {
			return fmt.Sprintf("ok, queued at place %d", r.Waiter.Place)
		}
		return fmt.Sprintf("ok: token %d", r.Lease.Grant.Token)
	case lease.Renew:
		return fmt.Sprintf("ok: token %d", r.Lease.Grant.Token)
	}
	return "ok"
}

func describeLease(l *lease.Lease) string {
	var b strings.Builder
	switch l.State() {
	case lease.Free:
		b.WriteString("lease: free")
	case lease.Cooling:
		c := l.Cooldown
		fmt.Fprintf(&b, "lease: cooling for %v since index %d, after token %d", c.Delay, c.Since, c.Token)
	case lease.Held:
		g := l.Grant
		fmt.Fprintf(&b, "lease: held by %s (%s), token %d, ttl %v", g.Holder, g.RequestID, g.Token, g.TTL)
		if g.LockDelay > 0 {
			fmt.Fprintf(&b, ", lock delay %v", g.LockDelay)
		}
		if g.Renewals > 0 {
			fmt.Fprintf(&b, ", renewal %d at index %d", g.Renewals, g.Renewal)
		}
		if g.Value != "" {
			fmt.Fprintf(&b, ", value %q", g.Value)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// describeQueue is empty if nobody waits.
func describeQueue(table *lease.Table, name string) string {
	var queue []string
	for w := range table.WaitersOf(name) {
		queue = append(queue, fmt.Sprintf("%s (%s) since index %d", w.Holder, w.RequestID, w.Place))
	}
	if queue == nil {
		return ""
	}
	return "queue: " + strings.Join(queue, ", ") + "\n"
}

func describeRegister(reg *lease.Register) string {
	var writes []string
	for _, w := range reg.Writes {
		fence := "no token"
		if w.Token != 0 {
			fence = fmt.Sprint("token ", w.Token)
		}
		if w.Lease != "" {
			fence += " of " + w.Lease
		}
		writes = append(writes, fmt.Sprintf("%d %s (%s)", w.Index, w.Verdict, fence))
	}
	return fmt.Sprintf("register: value %q, highest token %d, %d accepted, %d refused\nwrites: %s\n",
		reg.Value, reg.HighestToken, reg.Accepted, reg.Refused, strings.Join(writes, ", "))
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
