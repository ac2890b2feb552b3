package torture_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"leasehold/torture"
	"leasehold/torture/check"
)

// program builds leasehold once for all tests of this package.
var program = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "leasehold-torture-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "leasehold")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "leasehold").CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil { // built by now, or at once
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// leasehold prepares a command.
func leasehold(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes most of a minute, with real processes")
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(path, args...)
}

// run gives what the command writes, and its exit code.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := leasehold(t, args...)
	var out, told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &told
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), told.String(), cmd.ProcessState.ExitCode()
}

// A run with mixed faults holds and meets with enough of them. What it leaves behind
// gives the same verdict again, and another one if an answer in it was another.
func TestTorture_Mixed(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.ArtifactDir(), "run")
	stdout, stderr, code := run(t, "torture", "--seed", "1", "--duration", "40s", "--faults", "mixed", "--out", out)
	if code != 0 || !strings.HasPrefix(stdout, "holds: leasehold torture --seed 1 ") {
		t.Fatalf("exit code %d; run the test with -artifacts to keep the report\n%s%s", code, stdout, stderr)
	}
	if lines := strings.Count(stderr, "operations"); lines < 8 {
		t.Errorf("there are %d lines of progress:\n%s", lines, stderr)
	}
	for _, name := range []string{"history.jsonl", "schedule.jsonl", "verdict.json", "report.html", "n1.log", "n2.log", "n3.log"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s is missing or empty", name)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "data")); err == nil {
		t.Error("the data folders of the nodes are left behind")
	}
	checkReport(t, filepath.Join(out, "report.html"))
	t.Run("again", func(t *testing.T) { recheck(t, out, check.Holds) })
	t.Run("forged", func(t *testing.T) { recheck(t, forge(t, out), check.IsViolated) })
	t.Run("cut short", func(t *testing.T) { recheck(t, cutShort(t, out), check.IsInconclusive) })
}

// checkReport ensures that it needs no network and no other file.
func checkReport(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at := regexp.MustCompile(`(?i)https?://|<script|@import|<link|url\(`).Find(text); at != nil {
		t.Errorf("the report is not self-contained: it has %q in it", at)
	}
	for _, part := range []string{"holds</h1>", "<svg", "prefers-color-scheme: dark", "P16", "redirects"} {
		if !bytes.Contains(text, []byte(part)) {
			t.Errorf("the report has no %q in it", part)
		}
	}
}

func recheck(t *testing.T, path string, want check.Verdict) {
	t.Helper()
	o, err := torture.Recheck(path, false)
	if err != nil {
		t.Fatal(err)
	}
	var text, page bytes.Buffer
	if err := errors.Join(o.WriteText(&text), o.WriteReport(&page)); err != nil {
		t.Fatal(err)
	}
	if o.Report.Verdict != want {
		t.Errorf("%s: got %v, want %v\n%s", path, o.Report.Verdict, want, &text)
	}
	if want == check.IsViolated && !strings.Contains(page.String(), "does not hold") {
		t.Error("the report does not show the violation")
	}
}

// cutShort gives a history as a run leaves it that is killed, without the other files.
func cutShort(t *testing.T, from string) (path string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(from, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "history.jsonl")
	write(t, path, data[:len(data)/2])
	return path
}

// forge copies a run with one answer changed: the token of a grant that was read.
func forge(t *testing.T, from string) (forged string) {
	t.Helper()
	forged = filepath.Join(t.TempDir(), "forged")
	read := regexp.MustCompile(`("kind":"get".*"outcome":"ok".*"token":)(\d+)`)
	for _, name := range []string{"history.jsonl", "schedule.jsonl", "verdict.json"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "history.jsonl" {
			at := read.FindSubmatchIndex(data)
			if at == nil {
				t.Fatal("nobody has read a grant")
			}
			data = append(append(bytes.Clone(data[:at[4]]), "999999"...), data[at[5]:]...)
		}
		write(t, filepath.Join(forged, name), data)
	}
	return forged
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// A run without faults proves nothing, and says so.
func TestTorture_None_IsInconclusive(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := run(t, "torture", "--seed", "2", "--duration", torture.MinDuration.String(), "--faults", "none", "--out", t.TempDir())
	if code != int(check.IsInconclusive) || !strings.HasPrefix(stdout, "inconclusive: ") || !strings.Contains(stdout, "no fault was played") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if strings.Contains(stdout, "violated") {
		t.Errorf("and something does not hold:\n%s", stdout)
	}
}

// What cannot be run or read exits with a code that is not a verdict.
func TestTorture_NoVerdict(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	write(t, filepath.Join(full, "mine"), nil)
	broken := filepath.Join(t.TempDir(), "history.jsonl")
	write(t, broken, []byte("nonsense\n"))
	for _, args := range [][]string{
		{"--nodes", "4"},
		{"--faults", "nonsense"},
		{"--duration", "5s"},
		{"--nonsense"},
		{"nonsense"},
		{"--schedule", "/nonsense"},
		{"--out", full},
		{"check"},
		{"check", "/nonsense"},
		{"check", broken},
	} {
		if stdout, stderr, code := run(t, append([]string{"torture"}, args...)...); code != 3 || stdout != "" || stderr == "" {
			t.Errorf("%v: exit code %d, output %q, errors %q", args, code, stdout, stderr)
		}
	}
}
