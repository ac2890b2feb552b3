package main

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// arrows says which packages of ours a package may import. An arrow includes
// all that can be reached over further arrows, so that httpapi, for example, may
// name the errors of lease:
//
//	main ──▶ cli ──▶ httpapi ──▶ cluster ──▶ fsm ──▶ lease
//	          │         │           └──────▶ transport
//	          │         └──▶ httpapi/wire
//	          └──▶ client ──▶ httpapi/wire, lease
//
// httpapi/wire and transport also lead to faults, which says what can be made to go
// wrong in a lab.
//
// Nothing points back: a reader who starts at lease never has to look ahead.
var arrows = map[string][]string{
	"main":         {"cli"},
	"cli":          {"httpapi", "client", "torture"},
	"httpapi":      {"httpapi/wire", "cluster"},
	"httpapi/wire": {"faults"},
	"cluster":      {"fsm", "transport"},
	"fsm":          {"lease"},
	"transport":    {"faults/lab"},
	"lease":        {},
	"client":       {"httpapi/wire", "lease"},

	"faults":     {},
	"faults/lab": {"faults"},

	// For resources, which know nothing of leasehold but its tokens.
	"fence":          {},
	"fence/sqlfence": {"fence"},

	// No arrow leads to it: it is for tests, and must not become part of the program.
	"cluster/clustertest": {"cluster"},

	// The checker knows the state machine and what the API says, and nothing of the
	// servers that it judges.
	"torture/history": {"fsm", "httpapi/wire"},
	"torture/check":   {"torture/history"},
	// The work is done by clients, to a cluster of any kind. The simulation brings all
	// of it together, for tests, and no arrow leads to it.
	"torture/work":    {"client", "torture/history"},
	"torture/sim":     {"cluster/clustertest", "httpapi", "torture/work", "torture/check"},
	"torture/sets":    {"faults"},
	"torture/mutants": {},
	"torture":         {"torture/check", "torture/work", "torture/sets"},

	"scripts/lint": {},
	"docs":         {}, // a test alone: the code of the pages compiles
}

// others are the packages of other modules that a package may import. Packages
// that are not listed here may import any.
var others = map[string]struct {
	allowed []string
	reason  string
}{
	"lease":        {[]string{"github.com/tidwall/btree"}, "the state machine must not depend on anything that could differ between nodes"},
	"httpapi/wire": {nil, "every client has to carry what the JSON types need"},
	"faults":       {nil, "it is part of the JSON types"},

	"fence":          {nil, "every resource server has to carry what it needs"},
	"fence/sqlfence": {nil, "which driver to use is the choice of the program"},
}

// clientMayNotNeed is what a program with our client must not have to carry,
// not even through another package.
var clientMayNotNeed = []string{"github.com/hashicorp/raft", "github.com/hashicorp/raft-boltdb", "go.etcd.io/bbolt"}

// reachable lists what a package may import: the ends of its arrows and all
// that they lead to.
func reachable(from string) []string {
	var all []string
	for _, to := range arrows[from] {
		all = append(all, to)
		all = append(all, reachable(to)...)
	}
	return all
}

// checkArrows checks the imports of a package. Tests may import what they like:
// the compiler keeps them from closing a circle, and nobody imports a test.
func checkArrows(p *pkg, sources []*source) []finding {
	var findings []finding
	name := p.short()
	if _, known := arrows[name]; !known {
		for _, s := range sources {
			return []finding{s.finding(s.tree.Name, "arrows", fmt.Sprintf(
				"package %s has no arrows; decide what it may import and add it to scripts/lint/arrows.go", name))}
		}
		return nil
	}
	for _, s := range sources {
		if s.test {
			continue
		}
		for _, spec := range s.tree.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // the compiler says so
			}
			if reason := importError(p, path); reason != "" {
				findings = append(findings, s.finding(spec, "arrows", reason))
			}
		}
	}
	if name == "client" {
		findings = append(findings, checkClient(p, sources)...)
	}
	return findings
}

// importError tells why a package may not import a path, or "" if it may.
func importError(p *pkg, path string) string {
	name := p.short()
	if to, ours := p.within(path); ours {
		if !slices.Contains(reachable(name), to) {
			return fmt.Sprintf("%s must not import %s: no arrow leads from one to the other, see scripts/lint/arrows.go", name, to)
		}
		return ""
	}
	limit, limited := others[name]
	if !limited || isStandard(path) || slices.ContainsFunc(limit.allowed, within(path)) {
		return ""
	}
	return fmt.Sprintf("%s must not import %s: %s", name, path, limit.reason)
}

// checkClient looks for Raft behind the imports of the client. It reports the
// first import that leads there, or the package clause if none does.
func checkClient(p *pkg, sources []*source) []finding {
	for _, s := range sources {
		if s.test {
			continue
		}
		for _, dep := range p.Deps {
			if !slices.ContainsFunc(clientMayNotNeed, within(dep)) {
				continue
			}
			var at ast.Node = s.tree.Name
			for _, spec := range s.tree.Imports {
				if strings.Trim(spec.Path.Value, "`\"") == dep {
					at = spec
				}
			}
			return []finding{s.finding(at, "arrows", fmt.Sprintf(
				"client must not need %s, not even through another package: users of the client should not have to build Raft", dep))}
		}
	}
	return nil
}

// isStandard: only paths of other modules have a dot in their first part.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// within tells of a module, or a part of one, whether a path is in it.
func within(path string) func(module string) bool {
	return func(module string) bool {
		return path == module || strings.HasPrefix(path, module+"/")
	}
}
