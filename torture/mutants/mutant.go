package mutants

import (
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

//go:embed testdata/*.txt
var texts embed.FS

// Mutant is leasehold with a fault.
type Mutant struct {
	ID   string // "M4"
	Name string
	// Breaks is the property that should be violated, "P10".
	Breaks string
	// Minutes, virtual, that a simulation has to last to give it a chance.
	Minutes int
	Why     string
	Edits   []Edit
}

// Edit replaces a text that occurs once in a file.
type Edit struct {
	File          string // from the top of the module, with slashes
	Before, After string
}

// All are the mutants, in the order of their numbers.
func All() ([]Mutant, error) {
	files, err := texts.ReadDir("testdata")
	if err != nil {
		return nil, err
	}
	all := make([]Mutant, 0, len(files))
	for _, f := range files {
		text, err := texts.ReadFile(path.Join("testdata", f.Name()))
		if err != nil {
			return nil, err
		}
		m, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		number, _, _ := strings.Cut(f.Name(), "-")
		m.ID = "M" + strings.TrimLeft(number, "M0")
		all = append(all, m)
	}
	return all, nil
}

// The form of a mutant's text:
//
//	its name
//	breaks P10 within 1 minutes
//
//	why it is worth having
//
//	---- lease/apply.go
//	what stands there
//	==== becomes
//	what takes its place
//	---- the next file, or nothing after the last one
const (
	beginEdit = "\n---- "
	endEdits  = "\n----\n"
	becomes   = "\n==== becomes\n"
)

func parse(text string) (Mutant, error) {
	var m Mutant
	text, ended := strings.CutSuffix(text, endEdits)
	if !ended {
		return m, fmt.Errorf("it does not end with a line of four dashes")
	}
	parts := strings.Split(text, beginEdit)
	head := strings.SplitN(parts[0], "\n", 3)
	if len(head) < 3 || len(parts) < 2 {
		return m, fmt.Errorf("it needs a name, a line that says what it breaks, a reason, and edits")
	}
	m.Name, m.Why = head[0], strings.TrimSpace(head[2])
	if _, err := fmt.Sscanf(head[1], "breaks %s within %d minutes", &m.Breaks, &m.Minutes); err != nil {
		return m, fmt.Errorf("%q does not say what it breaks, and within how many minutes: %w", head[1], err)
	}
	for _, part := range parts[1:] {
		file, change, _ := strings.Cut(part, "\n")
		before, after, ok := strings.Cut(change+"\n", becomes)
		if !ok {
			return m, fmt.Errorf("the edit of %s does not say what becomes of it", file)
		}
		m.Edits = append(m.Edits, Edit{file, before + "\n", after})
	}
	return m, nil
}

// apply makes the mutated text of every file that the mutant changes.
func (m Mutant) apply(root string) (map[string]string, error) {
	changed := make(map[string]string)
	for _, e := range m.Edits {
		text, ok := changed[e.File]
		if !ok {
			source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, err
			}
			text = string(source)
		}
		if n := strings.Count(text, e.Before); n != 1 {
			return nil, fmt.Errorf("%s: what the edit of %s replaces is there %d times, it must be once:\n%s", m.ID, e.File, n, e.Before)
		}
		changed[e.File] = strings.Replace(text, e.Before, e.After, 1)
	}
	return changed, nil
}

// Overlay writes the mutated files of the module at root into dir, and gives the
// file for `go build -overlay`, which takes them in place of the sources.
func (m Mutant) Overlay(root, dir string) (string, error) {
	changed, err := m.apply(root)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for file, text := range changed {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = to
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, "overlay.json")
	return to, os.WriteFile(to, overlay, 0o600)
}
