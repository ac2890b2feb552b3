package httpapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"leasehold/cluster"
)

// What a test has to know of the code and cannot ask it at run time, read off its
// source.

var parsedPackages sync.Map // of []*ast.File, by folder

// parsedPackage is the source of a package, without its tests.
func parsedPackage(t testing.TB, dir string) (files []*ast.File) {
	t.Helper()
	if known, ok := parsedPackages.Load(dir); ok {
		return known.([]*ast.File)
	}
	defer func() { parsedPackages.Store(dir, files) }()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// constants of a type of strings.
func constants(t testing.TB, dir, typ string) (values []string) {
	t.Helper()
	for _, f := range parsedPackage(t, dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			name, ok := spec.Type.(*ast.Ident)
			if value, isText := spec.Values[0].(*ast.BasicLit); ok && isText && name.Name == typ {
				text, _ := strconv.Unquote(value.Value)
				values = append(values, text)
			}
			return true
		})
	}
	if len(values) == 0 {
		t.Fatalf("%s has no constants of type %s", dir, typ)
	}
	return values
}

// typesIn lists the structs of a package.
func typesIn(t testing.TB, dir string) (names []string) {
	t.Helper()
	for _, f := range parsedPackage(t, dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if _, isStruct := spec.Type.(*ast.StructType); isStruct {
					names = append(names, spec.Name.Name)
				}
			}
			return true
		})
	}
	return names
}

// typesWith lists the types that have a method.
func typesWith(t testing.TB, dir, method string) (names []string) {
	t.Helper()
	for _, f := range parsedPackage(t, dir) {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == method {
				if typ, ok := fn.Recv.List[0].Type.(*ast.Ident); ok {
					names = append(names, typ.Name)
				}
			}
		}
	}
	return names
}

// limitCodes are the codes of all the cluster.LimitErrors that a node makes.
func limitCodes(t testing.TB) (codes []string) {
	t.Helper()
	for _, f := range parsedPackage(t, "../cluster") {
		ast.Inspect(f, func(n ast.Node) bool {
			made, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if typ, ok := made.Type.(*ast.Ident); !ok || typ.Name != "LimitError" {
				return true
			}
			switch code := made.Elts[0].(type) {
			case *ast.BasicLit:
				text, _ := strconv.Unquote(code.Value)
				codes = append(codes, text)
			case *ast.Ident:
				if code.Name != "TooManyRegisters" {
					t.Fatalf("this test does not know the code %s", code.Name)
				}
				codes = append(codes, cluster.TooManyRegisters)
			}
			return true
		})
	}
	return codes
}
