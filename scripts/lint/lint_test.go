package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each case is a small module. A line that breaks a rule says so at its end:
// "// want RULE". All other lines must pass.
var cases = []struct {
	name  string
	files map[string]string
}{
	{"everything as it should be", map[string]string{
		"main.go":                  "package main\n\nimport (\n\t_ \"leasehold/cli\"\n\t\"os\"\n)\n\nfunc main() { os.Exit(1) }\n",
		"cli/a.go":                 "package cli\n\nimport (\n\t\"fmt\"\n\t_ \"leasehold/client\"\n\t_ \"leasehold/cluster\"\n\t_ \"leasehold/httpapi\"\n)\n\nfunc f() { fmt.Println() }\n",
		"httpapi/a.go":             "package httpapi\n\nimport (\n\t_ \"leasehold/cluster\"\n\t_ \"leasehold/httpapi/wire\"\n\t_ \"leasehold/lease\"\n)\n",
		"httpapi/wire/a.go":        "package wire\n",
		"cluster/a.go":             "package cluster\n\nimport (\n\t_ \"leasehold/fsm\"\n\t_ \"leasehold/lease\"\n\t_ \"leasehold/transport\"\n\t\"time\"\n)\n\nvar now = time.Now\n",
		"cluster/a_test.go":        "package cluster_test\n\nimport _ \"leasehold/cluster/clustertest\"\n",
		"cluster/clustertest/a.go": "package clustertest\n\nimport (\n\t_ \"leasehold/cluster\"\n\t_ \"leasehold/transport\"\n)\n",
		"fsm/a.go":                 "package fsm\n\nimport _ \"leasehold/lease\"\n",
		"transport/a.go":           "package transport\n",
		"lease/a.go":               "package lease\n\nimport (\n\t_ \"github.com/tidwall/btree\"\n\t\"time\"\n)\n\nconst second = time.Second\n",
		"client/a.go":              "package client\n\nimport (\n\t_ \"leasehold/httpapi/wire\"\n\t_ \"leasehold/lease\"\n)\n",
	}},
	{"an arrow that points back", map[string]string{
		"lease/a.go": "package lease\n\nimport _ \"leasehold/fsm\" // want arrows\n",
		"fsm/a.go":   "package fsm\n",
	}},
	{"an arrow to the side", map[string]string{
		"client/a.go":    "package client\n\nimport _ \"leasehold/transport\" // want arrows\n",
		"transport/a.go": "package transport\n\nimport _ \"leasehold/lease\" // want arrows\n",
		"lease/a.go":     "package lease\n",
	}},
	{"a file for another system has arrows too", map[string]string{
		"fsm/a.go":       "package fsm\n",
		"fsm/a_plan9.go": "package fsm\n\nimport _ \"leasehold/transport\" // want arrows\n",
		"transport/a.go": "package transport\n",
	}},
	{"other people's packages in lease", map[string]string{
		"lease/a.go":      "package lease\n\nimport _ \"github.com/hashicorp/go-hclog\" // want arrows\n",
		"lease/a_test.go": "package lease\n\nimport _ \"pgregory.net/rapid\"\n",
	}},
	{"anything in httpapi/wire", map[string]string{
		"httpapi/wire/a.go": "package wire\n\nimport _ \"leasehold/lease\" // want arrows\nimport _ \"gopkg.in/yaml.v3\" // want arrows\n",
		"lease/a.go":        "package lease\n",
	}},
	{"Raft in the client", map[string]string{
		"client/a.go": "package client\n\nimport _ \"github.com/hashicorp/raft\" // want arrows\n",
	}},
	{"Raft in the client through another package", map[string]string{
		"client/a.go":       "package client // want arrows\n\nimport _ \"leasehold/httpapi/wire\"\n",
		"httpapi/wire/a.go": "package wire\n\nimport _ \"github.com/hashicorp/raft\" // want arrows\n",
	}},
	{"a test package in the program", map[string]string{
		"cli/a.go":                 "package cli\n\nimport _ \"leasehold/cluster/clustertest\" // want arrows\n",
		"cluster/clustertest/a.go": "package clustertest\n",
	}},
	{"a package that nobody decided about", map[string]string{
		"helpers/a.go": "package helpers // want arrows\n",
	}},
	{"the clock in the state machine", map[string]string{
		"lease/a.go":    "package lease\n\nimport \"time\"\n\nfunc f() {\n\t_ = time.Now() // want clock\n\tg := time.Since // want clock\n\t_ = g\n\t_ = time.Duration(1)\n}\n",
		"fsm/a.go":      "package fsm\n\nimport clock \"time\"\n\nvar tick = clock.NewTimer(1) // want clock\n",
		"fsm/a_test.go": "package fsm\n\nimport \"time\"\n\nvar now = time.Now()\n",
	}},
	{"sleeping tests", map[string]string{
		"fsm/a.go":      "package fsm\n",
		"fsm/a_test.go": "package fsm\n\nimport \"time\"\n\nfunc wait() { time.Sleep(1) } // want sleep\n",
		"fsm/b_test.go": `package fsm

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestIn(t *testing.T) {
	t.Run("in", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			go func() { time.Sleep(1) }()
			t.Run("deeper", func(t *testing.T) { time.Sleep(1) })
		})
	})
	bubble(t, func() { time.Sleep(1) })
	stored := func(t *testing.T) { time.Sleep(1) }
	synctest.Test(t, stored)
}

func TestOut(t *testing.T) {
	time.Sleep(1) // want sleep
	go func() {
		time.Sleep(1) // want sleep
	}()
	t.Run("out", func(t *testing.T) {
		time.Sleep(1) // want sleep
	})
}

func bubble(t *testing.T, f func()) {
	synctest.Test(t, func(*testing.T) { f() })
	time.Sleep(1)
}
`,
	}},
	{"panic, exit and print", map[string]string{
		"cluster/a.go": `package cluster

import (
	"fmt"
	"log"
	"os"
)

func f() {
	panic("x")      // want panic
	os.Exit(1)      // want exit
	log.Fatalf("x") // want exit
	fmt.Println()   // want print
	fmt.Fprintln(os.Stderr, fmt.Sprint())
}
`,
		"cluster/a_test.go":  "package cluster\n\nimport \"fmt\"\n\nfunc Example() { fmt.Println(); panic(1) }\n",
		"httpapi/answer.go":  "package httpapi\n\nfunc f() { panic(1) }\n",
		"httpapi/another.go": "package httpapi\n\nfunc g() { panic(1) } // want panic\n",
		"cli/a.go":           "package cli\n\nimport \"os\"\n\nfunc f() { os.Exit(1) }\n",
	}},
	{"a file that cannot be parsed", map[string]string{
		"lease/a.go": "package lease\n",
		"lease/b.go": "package lease\n\nfunc ( // want syntax\n",
	}},
}

var want = regexp.MustCompile(`// want (\w+)$`)

// TestLint ensures that each rule finds the lines that break it, and no others.
func TestLint(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "go.mod", "module leasehold\n\ngo 1.26\n")
			var wanted []string
			for name, text := range c.files {
				write(t, dir, name, text)
				for i, line := range strings.Split(text, "\n") {
					if m := want.FindStringSubmatch(line); m != nil {
						wanted = append(wanted, finding{name, i + 1, m[1], ""}.String())
					}
				}
			}
			findings, err := lint(dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range findings {
				if f.reason == "" {
					t.Errorf("%v has no reason", f)
				}
				f.reason = ""
				got = append(got, f.String())
			}
			slices.Sort(got)
			slices.Sort(wanted)
			if !slices.Equal(got, wanted) {
				t.Errorf("got:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(wanted, "\n  "))
			}
		})
	}
}

// TestArrows_Known ensures that an arrow leads to a package that has arrows too.
// A spelling mistake would otherwise forbid a good import without saying why.
func TestArrows_Known(t *testing.T) {
	for from, ends := range arrows {
		for _, to := range ends {
			if _, known := arrows[to]; !known {
				t.Errorf("the arrow %s → %s leads to a package without arrows", from, to)
			}
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
