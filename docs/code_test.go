// Package docs_test keeps the Go code of the pages compiling.
package docs_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pages have blocks of Go. What they mention without saying what it is, is declared
// here.
var pages = map[string]string{
	"../README.md": `
		import ("context"; "leasehold/client")
		var ctx context.Context
		func work(context.Context, uint64) error`,
	"CLIENT.md": `
		import ("context"; "leasehold/client")
		var (ctx context.Context; c *client.Client; l *client.Lease; servers []string; result any)
		func save(any)
		func serve(context.Context, uint64) error
		func connect(string)`,
	"FENCING.md": `
		import ("context"; "database/sql"; "leasehold/fence"; "net/http"; "leasehold/httpapi/wire")
		var (ctx context.Context; db *sql.DB; mux *http.ServeMux; grant wire.Grant; value, text string; day any; token uint64; errStale error)
		var (guard *fence.Guard; putDocument http.Handler)
		func readToken(*sql.DB) uint64
		func write(*sql.DB, uint64, string)
		func writeFile(context.Context, string) error
		func work(int64) string
		func save(*sql.Tx, string) error`,
}

// imported are the packages that a block may use without an import.
var imported = []string{
	"context", "database/sql", "errors", "log", "net/http", "os", "os/signal", "syscall", "testing", "time",
	"leasehold/client", "leasehold/fence", "leasehold/fence/sqlfence", "leasehold/httpapi/wire", "leasehold/examples/nodes",
}

var block = regexp.MustCompile("(?ms)^```go\n(.*?)^```")

// The Go code of the pages compiles.
func TestPages_CodeCompiles(t *testing.T) {
	c, err := newCompiler()
	if err != nil {
		t.Fatal(err)
	}
	for page, assumed := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := block.FindAllSubmatchIndex(text, -1)
		if len(blocks) == 0 || len(blocks) != strings.Count(string(text), "```go") {
			t.Errorf("%s: %d blocks found", page, len(blocks))
		}
		for _, b := range blocks {
			if err := c.check(string(text[b[2]:b[3]]), assumed); err != nil {
				t.Errorf("%s:%d: %v", page, strings.Count(string(text[:b[2]]), "\n"), err)
			}
		}
	}
}

// What would not compile is found.
func TestPages_MistakesAreFound(t *testing.T) {
	c, err := newCompiler()
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{
		"l.Nosuch()",
		"nosuch(l)",
		"l, err := c.Acquire(ctx, 7, client.AcquireOptions{})",
		"client.AcquireOptions{Nosuch: 1}",
		"if l.State() == 7.5 {",
		"func f() int { }",
		"func f() { unused := 1 }",
		"package p\nimport \"time\"",
	} {
		if err := c.check(wrong, pages["CLIENT.md"]); err == nil {
			t.Errorf("not found: %s", wrong)
		}
	}
	if err := c.check("defer l.Release()", pages["CLIENT.md"]); err != nil {
		t.Error(err)
	}
}

// compiler knows the types of all packages that a block may use.
type compiler struct {
	files    *token.FileSet
	packages types.Importer
}

// newCompiler asks the go command for what it has compiled. The module of the
// examples has all of them.
var newCompiler = sync.OnceValues(func() (*compiler, error) {
	list := exec.Command("go", append([]string{"-C", "../examples", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, imported...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[name] = file
	}
	files := token.NewFileSet()
	return &compiler{files, importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("package %s is not known here", path)
		}
		return os.Open(exports[path])
	})}, nil
})

// check compiles a block: a file, declarations, or statements of a function.
func (c *compiler) check(code, assumed string) error {
	code = strings.ReplaceAll(code, "\n…\n", "\n\n") // stands for what is left out
	if strings.HasPrefix(code, "package ") {
		return c.types(false, code)
	}
	for _, frame := range []struct {
		before, after string
		fragment      bool // may leave a variable unused: the next lines would use it
	}{{"", "", false}, {"func _() error {", "\nreturn nil }", true}} {
		code := frame.before + code + frame.after
		if file, err := parser.ParseFile(c.files, "block", "package p;"+code, 0); err == nil {
			return c.types(frame.fragment, "package p\n"+assumed, "package p;"+imports(file)+code)
		} else if frame.fragment {
			return err
		}
	}
	return nil
}

// imports gives the imports that a block lacks.
func imports(file *ast.File) (text string) {
	for _, name := range imported {
		if slices.ContainsFunc(file.Unresolved, func(id *ast.Ident) bool { return id.Name == path.Base(name) }) {
			text += fmt.Sprintf("import %q;", name)
		}
	}
	return text
}

// types checks the files of a package.
func (c *compiler) types(fragment bool, texts ...string) (first error) {
	var files []*ast.File
	for _, text := range texts {
		file, err := parser.ParseFile(c.files, "block", text, 0)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: c.packages, Error: func(err error) {
		// A soft error is something that is not used.
		if found := err.(types.Error); first == nil && !(fragment && found.Soft) {
			first = found
		}
	}}
	_, _ = config.Check("p", c.files, files, nil) // its error is the first one, be it soft or not
	return first
}
