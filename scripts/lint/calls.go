package main

import (
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// callRule forbids functions in a part of the code. Naming one is enough, for a
// function that is stored can be called later.
type callRule struct {
	name      string
	path      string   // of the package that has the functions, "" for those built in
	functions []string // a trailing * stands for any ending
	applies   func(s *source) bool
	reason    string
}

var callRules = []callRule{
	{
		"clock", "time",
		[]string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"},
		func(s *source) bool { return !s.test && slices.Contains([]string{"lease", "fsm"}, s.pkg.short()) },
		"the state machine must not know the time: each node would see another one, and their states would part",
	},
	{
		"panic", "",
		[]string{"panic"},
		func(s *source) bool { return !s.test && mayPanic[s.path] == "" },
		"a panic ends the node and all leases wait for an election; return an error, or add the file to mayPanic in scripts/lint/calls.go with its reason",
	},
	{
		"exit", "os",
		[]string{"Exit"},
		func(s *source) bool { return !s.test && !faces(s) },
		"only main and cli may end the process: elsewhere it would skip every deferred clean-up of the callers",
	},
	{
		"exit", "log",
		[]string{"Fatal*", "Panic*"},
		func(s *source) bool { return !s.test && !faces(s) },
		"only main and cli may end the process: elsewhere it would skip every deferred clean-up of the callers",
	},
	{
		"print", "fmt",
		[]string{"Print", "Printf", "Println"},
		func(s *source) bool { return !s.test && !faces(s) },
		"only main and cli talk to the terminal: a library returns values and a server logs",
	},
}

// mayPanic are the files that may panic, and why. A panic is right only for what
// cannot happen unless this code is wrong, or where it is the agreed way.
var mayPanic = map[string]string{
	"fsm/command.go":     "the set of commands is closed, and a test encodes them all",
	"httpapi/answer.go":  "the types of httpapi/wire can all be written as JSON",
	"httpapi/events.go":  "the types of httpapi/wire can all be written as JSON",
	"httpapi/faults.go":  "http.ErrAbortHandler is the agreed way to drop a connection",
	"httpapi/problem.go": "the same",
	"httpapi/routes.go":  "the same, passed on",
	"httpapi/stream.go":  "the same, where it is too late for an answer",
}

// faces tells whether a file belongs to the part that faces the user's terminal.
func faces(s *source) bool {
	return s.pkg.Name == "main" || s.pkg.short() == "cli"
}

// checkCalls applies all rules to a file.
func checkCalls(s *source) []finding {
	var findings []finding
	imports := importNames(s.tree)
	var enclosing []ast.Node // the nodes around the one that is looked at
	ast.Inspect(s.tree, func(n ast.Node) bool {
		if n == nil {
			enclosing = enclosing[:len(enclosing)-1]
			return true
		}
		enclosing = append(enclosing, n)
		path, function := reference(n, imports)
		for _, rule := range callRules {
			if function != "" && path == rule.path && rule.names(function) && rule.applies(s) {
				findings = append(findings, s.finding(n, rule.name, function+": "+rule.reason))
			}
		}
		if path == "time" && function == "Sleep" && s.test && !mayBeInBubble(enclosing, imports) {
			findings = append(findings, s.finding(n, "sleep",
				"Sleep: a test that waits for real time is slow, and fails on a busy machine; use testing/synctest, or wait for the event itself with a deadline"))
		}
		return true
	})
	return findings
}

// names tells whether the rule names a function.
func (r callRule) names(function string) bool {
	return slices.ContainsFunc(r.functions, func(f string) bool {
		start, any := strings.CutSuffix(f, "*")
		return f == function || any && strings.HasPrefix(function, start)
	})
}

// importNames maps the names by which a file knows its imports to their paths.
func importNames(tree *ast.File) map[string]string {
	names := make(map[string]string)
	for _, spec := range tree.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path[strings.LastIndex(path, "/")+1:] // true of the standard library, and that is all we look for
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	return names
}

// reference tells which function a node names: one of an imported package, or a
// call of one that is built in. Types are not resolved, so a local variable that
// hides a package would mislead it. That would be worth a finding of its own.
func reference(n ast.Node, imports map[string]string) (path, function string) {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && imports[x.Name] != "" {
			return imports[x.Name], n.Sel.Name
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok {
			return "", f.Name
		}
	}
	return "", ""
}

// mayBeInBubble tells whether code in a test file could run inside a bubble of
// testing/synctest, where sleeping takes no time. Which function calls which is
// not followed, so in files that use synctest helpers and stored functions get
// the benefit of the doubt. The body of a test does not, nor that of a subtest
// or of a new goroutine.
func mayBeInBubble(enclosing []ast.Node, imports map[string]string) bool {
	if !slices.Contains(slices.Collect(maps.Values(imports)), "testing/synctest") {
		return false
	}
	for i, n := range enclosing {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if !strings.HasPrefix(n.Name.Name, "Test") && !strings.HasPrefix(n.Name.Name, "Benchmark") {
				return true
			}
		case *ast.FuncLit:
			call, ok := enclosing[i-1].(*ast.CallExpr)
			if !ok {
				return true
			}
			method, _ := call.Fun.(*ast.SelectorExpr)
			subtest := method != nil && method.Sel.Name == "Run"
			if call.Fun != n && !subtest {
				return true // passed to synctest.Test, or to a helper
			}
		}
	}
	return false
}
