package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/httpapi/wire"
)

var update = flag.Bool("update", false, "write into docs/API.md what its lines really print")

const apiPage = "../docs/API.md"

// varying is what differs from run to run, by the name under which the page tells
// its readers so, and the forms that it may have. All else is compared as it is.
var varying = map[string]*regexp.Regexp{
	"cluster_id":      regexp.MustCompile(`"(cluster_id)":"[0-9a-f]{16}"`),
	"state_hash":      regexp.MustCompile(`"(state_hash)":"[0-9a-f]{16}"`),
	"version":         regexp.MustCompile(`"(version)":"[^"]+"`),
	"go":              regexp.MustCompile(`"(go)":"go[^"]+"`),
	"request_id":      regexp.MustCompile(`"(request_id)":"r-[A-Z2-7]{26}"`),
	"at":              regexp.MustCompile(`"(at)":"` + wallClock + `"`),
	"granted_at":      regexp.MustCompile(`"(granted_at)":"` + wallClock + `"`),
	"renewed_at":      regexp.MustCompile(`"(renewed_at)":"` + wallClock + `"`),
	"remaining_ms":    regexp.MustCompile(`"(remaining_ms)":\d+`),
	"retry_after_ms":  regexp.MustCompile(`"(retry_after_ms)":\d+`),
	"uptime_ms":       regexp.MustCompile(`"(uptime_ms)":\d+`),
	"last_contact_ms": regexp.MustCompile(`"(last_contact_ms)":\d+`),
	"last_heard_ms":   regexp.MustCompile(`"(last_heard_ms)":\d+`),
	"Date":            regexp.MustCompile(`(?m)^(Date): \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$`),
	"Retry-After":     regexp.MustCompile(`(?m)^(Retry-After): \d+$`),
	"Content-Length":  regexp.MustCompile(`(?m)^(Content-Length): \d+$`),
}

const wallClock = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`

// sameForm makes two outputs equal that differ only in what varies.
func sameForm(text string) string {
	for _, form := range varying {
		text = form.ReplaceAllString(text, "$1 VARIES")
	}
	return text
}

// Every line of docs/API.md, run in order against three nodes, prints what stands
// under it.
func TestAPIPage(t *testing.T) {
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("this test needs %s, as the README says: %v", program, err)
		}
	}
	source, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	page := pageOf(t, string(source))
	nodes := startThree(t)
	shell := startShell(t, nodes)
	for i := range page.blocks {
		inStep(t, nodes)
		b := &page.blocks[i]
		got := shell.run(t, b.commands)
		switch {
		case sameForm(got) == sameForm(unfold(b.output)):
		case *update && b.hasOutput:
			b.output = fold(got)
		default:
			t.Errorf("%s:%d:\n%s\nprints\n%s\nwhere the page has\n%s", apiPage, b.line, b.commands, fold(got), b.output)
		}
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(apiPage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The page tells its readers of everything that the test does not compare.
func TestAPIPage_SaysWhatVaries(t *testing.T) {
	source, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	introduction, _, _ := strings.Cut(string(source), "\n## ")
	for _, name := range slices.Sorted(maps.Keys(varying)) {
		if !strings.Contains(introduction, "`"+name+"`") {
			t.Errorf("the introduction does not mention `%s`", name)
		}
	}
}

// What varies hides no difference in anything else.
func TestAPIPage_FormIsNarrow(t *testing.T) {
	const printed = `{"cluster_id":"05710379a72ee42f","remaining_ms":12,"at":"2026-12-01T00:52:13.745Z","request_id":"r-NAGU5SNMCKNZKZUIO5TANLJIMA","token":4}` + "\n"
	if other := strings.NewReplacer("0571", "abcd", "12,", "7,", "52:13", "53:14", "r-NAG", "r-ABC").Replace(printed); sameForm(other) != sameForm(printed) {
		t.Errorf("%s\nis not taken for\n%s", other, printed)
	}
	for old, changed := range map[string]string{
		`"token":4`: `"token":5`, `"r-NAGU5SNMCKNZKZUIO5TANLJIMA"`: `"alice-1"`, `:12,`: `:-12,`, `"05710379a72ee42f"`: `""`, `.745Z`: `Z`, "}\n": "}",
	} {
		if other := strings.Replace(printed, old, changed, 1); sameForm(other) == sameForm(printed) {
			t.Errorf("%s\nis taken for\n%s", other, printed)
		}
	}
	if long := strings.Repeat(printed, 3); unfold(fold(long)) != long || fold(long) == long {
		t.Errorf("folded and unfolded: %s", unfold(fold(long)))
	}
}

// block is some lines of shell on the page, and what the page says they print.
type block struct {
	commands  string
	output    string
	hasOutput bool
	line      int
	before    string // the text of the page from the end of the block before
	between   string // the lines from the commands to the output
}

type page struct {
	blocks []block
	rest   string
}

// pageOf takes a page apart. Commands stand in a fence of "sh", and their output,
// if they have any, in the fence that follows at once.
func pageOf(t *testing.T, source string) page {
	t.Helper()
	var p page
	var text strings.Builder
	lines := strings.SplitAfter(source, "\n")
	fenced := func(i int) (body string, end int) {
		for end = i; end < len(lines); end++ {
			if lines[end] == "```\n" {
				return strings.Join(lines[i:end], ""), end
			}
		}
		t.Fatalf("%s:%d: the fence does not end", apiPage, i)
		return "", 0
	}
	for i := 0; i < len(lines); i++ {
		text.WriteString(lines[i])
		if lines[i] != "```sh\n" {
			if strings.HasPrefix(lines[i], "```") {
				t.Fatalf("%s:%d: this fence belongs to no commands", apiPage, i+1)
			}
			continue
		}
		b := block{before: text.String(), line: i + 2}
		text.Reset()
		b.commands, i = fenced(i + 1)
		b.between = lines[i]
		if strings.HasPrefix(lines[i+1], "```") {
			b.between += lines[i+1]
			b.hasOutput = true
			b.output, i = fenced(i + 2)
			text.WriteString(lines[i])
		}
		p.blocks = append(p.blocks, b)
	}
	p.rest = text.String()
	return p
}

func (p page) String() string {
	var text strings.Builder
	for _, b := range p.blocks {
		text.WriteString(b.before + b.commands + b.between + b.output)
	}
	return text.String() + p.rest
}

// foldedWidth is about how wide the lines of JSON on the page are.
const foldedWidth = 132

// fold breaks long lines of JSON after commas, for people. Each further line
// begins with a space, which no line of the server does.
func fold(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !json.Valid([]byte(line)) {
			out.WriteString(line)
			continue
		}
		width := 0
		for _, member := range members(line) {
			if width > 0 && width+len(member) > foldedWidth {
				out.WriteString("\n ")
				width = 1
			}
			out.WriteString(member)
			width += len(member)
		}
	}
	return out.String()
}

func unfold(text string) string { return strings.ReplaceAll(text, "\n ", "") }

// members cuts a line of JSON after each comma that does not stand in a string.
func members(line string) (parts []string) {
	quoted, start := false, 0
	for i := 0; i < len(line); i++ {
		switch {
		case quoted && line[i] == '\\':
			i++
		case line[i] == '"':
			quoted = !quoted
		case line[i] == ',' && !quoted:
			parts = append(parts, line[start:i+1])
			start = i + 1
		}
	}
	return append(parts, line[start:])
}

// startThree starts the cluster that the page speaks of. That n1 leads is not left
// to chance: the others would wait for it much longer.
func startThree(t *testing.T) []*server {
	t.Helper()
	dir := t.TempDir()
	var addresses, founders []string
	for i := range 3 {
		addresses = append(addresses, dead(t))
		founders = append(founders, fmt.Sprintf("n%d=%s", i+1, addresses[i]))
	}
	var nodes []*server
	for i, address := range addresses {
		id, timeout := fmt.Sprintf("n%d", i+1), "20s"
		if i == 0 {
			timeout = "1s"
		}
		nodes = append(nodes, begin(t, filepath.Join(dir, id), address, "--id", id, "--cluster", strings.Join(founders, ","),
			"--heartbeat-timeout", timeout, "--election-timeout", timeout))
	}
	for _, n := range nodes {
		n.until(t, "it is ready", func() bool {
			r, err := http.Get("http://" + n.address + "/readyz")
			if err != nil {
				return false
			}
			r.Body.Close()
			return r.StatusCode == http.StatusOK
		})
	}
	return nodes
}

// inStep waits until every node has applied what the leader has. A reader of the
// page is slower than that.
func inStep(t *testing.T, nodes []*server) {
	t.Helper()
	applied := func(n *server) (st wire.Status) {
		r, err := http.Get("http://" + n.address + "/v1/status")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if err := json.NewDecoder(r.Body).Decode(&st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	for _, n := range nodes[1:] {
		n.until(t, "it has caught up", func() bool { return applied(n).AppliedIndex == applied(nodes[0]).AppliedIndex })
	}
}

// shell runs the commands of a page one block after the other, so that variables,
// functions and jobs go on from one to the next.
type shell struct {
	in    io.Writer
	lines *bufio.Scanner
	// ours turns the addresses and the folder of the page into those of the test,
	// theirs does the opposite.
	ours, theirs *strings.Replacer
}

func startShell(t *testing.T, nodes []*server) *shell {
	t.Helper()
	ours, theirs := []string{"/tmp/", t.TempDir() + "/"}, []string{}
	for i, n := range nodes {
		onPage := fmt.Sprintf("127.0.0.1:%d", 8001+i)
		ours, theirs = append(ours, onPage, n.address), append(theirs, n.address, onPage)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience) // the one of t ends before the clean-up
	c := exec.CommandContext(ctx, "bash")
	c.Env = append(os.Environ(), "http_proxy=", "ALL_PROXY=")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	c.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("the shell ended with %v", err)
		}
		cancel()
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &shell{in, lines, strings.NewReplacer(ours...), strings.NewReplacer(theirs...)}
}

// run returns what some commands print, on both of their outputs.
func (s *shell) run(t *testing.T, commands string) string {
	t.Helper()
	const end = "the block has ended"
	if _, err := io.WriteString(s.in, s.ours.Replace(commands)+"\necho '"+end+"'\n"); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	for s.lines.Scan() {
		line := strings.TrimSuffix(s.lines.Text(), "\r") // of a header
		if line == end {
			return s.theirs.Replace(printed.String())
		}
		printed.WriteString(line + "\n")
	}
	t.Fatalf("the shell ended in the middle of\n%safter it had printed\n%s", commands, printed.String())
	return ""
}
