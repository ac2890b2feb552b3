// Command lint checks two things that the compiler does not: that packages
// import each other only in the direction of the arrows (arrows.go), and that
// certain functions are not used where they do harm (calls.go).
//
//	go run ./scripts/lint [FOLDER OF THE MODULE]
//
// It prints one line for each finding and exits 1 if there are any, 2 if it
// could not look.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	findings, err := lint(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// finding is one place where a rule is broken.
type finding struct {
	file   string // relative to the folder of the module
	line   int
	rule   string
	reason string // what is wrong, and why that matters
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.file, f.line, f.rule, f.reason)
}

// source is one parsed file.
type source struct {
	pkg  *pkg
	path string // relative to the folder of the module
	test bool
	fset *token.FileSet
	tree *ast.File
}

func (s *source) finding(at ast.Node, rule, reason string) finding {
	return finding{s.path, s.fset.Position(at.Pos()).Line, rule, reason}
}

// lint checks the module in a folder and returns what it found, in the order of
// files and lines.
func lint(dir string) ([]finding, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	// Go reports folders without symbolic links in them.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	packages, err := load(dir)
	if err != nil {
		return nil, err
	}
	var findings []finding
	for _, p := range packages {
		var sources []*source
		for _, name := range p.files() {
			s, err := parse(p, dir, name)
			if syntax := scanner.ErrorList(nil); errors.As(err, &syntax) {
				findings = append(findings, finding{s.path, syntax[0].Pos.Line, "syntax", syntax[0].Msg})
				continue
			} else if err != nil {
				return nil, err
			}
			sources = append(sources, s)
		}
		findings = append(findings, checkArrows(p, sources)...)
		for _, s := range sources {
			findings = append(findings, checkCalls(s)...)
		}
	}
	slices.SortFunc(findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.rule, b.rule))
	})
	return findings, nil
}

func parse(p *pkg, dir, name string) (*source, error) {
	path := filepath.Join(p.Dir, name)
	shown, err := filepath.Rel(dir, path)
	if err != nil {
		shown = path
	}
	s := &source{
		pkg:  p,
		path: filepath.ToSlash(shown),
		test: strings.HasSuffix(name, "_test.go"),
		fset: token.NewFileSet(),
	}
	s.tree, err = parser.ParseFile(s.fset, path, nil, parser.SkipObjectResolution)
	return s, err
}
