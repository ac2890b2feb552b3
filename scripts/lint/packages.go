package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// pkg is a package of the module, as `go list` describes it.
type pkg struct {
	Name       string
	ImportPath string
	Dir        string
	Module     struct{ Path string }

	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
	// IgnoredGoFiles are for other systems. They have to keep the rules too.
	IgnoredGoFiles []string
	// Deps are all packages that this one needs, also through others, without
	// those that only its tests need.
	Deps []string
}

// files lists all Go files of the package.
func (p *pkg) files() []string {
	var all []string
	for _, list := range [][]string{p.GoFiles, p.CgoFiles, p.IgnoredGoFiles, p.TestGoFiles, p.XTestGoFiles} {
		all = append(all, list...)
	}
	return all
}

// short names a package by its folder in the module, with "main" for the top.
func (p *pkg) short() string {
	name, ours := p.within(p.ImportPath)
	if !ours {
		return p.ImportPath
	}
	return name
}

// within tells whether an import path is in this package's module, and its
// short name there.
func (p *pkg) within(path string) (name string, ours bool) {
	if path == p.Module.Path {
		return "main", true
	}
	return strings.CutPrefix(path, p.Module.Path+"/")
}

// load lists the packages of the module in a folder. Packages that do not
// compile are listed too (-e): what is wrong in them is for the compiler to say.
func load(dir string) ([]*pkg, error) {
	command := exec.Command("go", "list", "-e", "-json", "./...")
	command.Dir = dir
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	var packages []*pkg
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(pkg)
		if err := decoder.Decode(p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}
