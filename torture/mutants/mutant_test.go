package mutants

import (
	"os/exec"
	"path"
	"path/filepath"
	"testing"
)

// root of the module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Each mutant fits the sources as they are now, and compiles.
func TestMutants_Build(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 16 {
		t.Fatalf("there are %d mutants, want 16", len(all))
	}
	for _, m := range all {
		t.Run(m.ID, func(t *testing.T) {
			overlay, err := m.Overlay(root(t), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			build := exec.Command("go", "build", "-overlay", overlay)
			for _, e := range m.Edits {
				build.Args = append(build.Args, "./"+path.Dir(e.File))
			}
			build.Dir = root(t)
			if out, err := build.CombinedOutput(); err != nil {
				t.Errorf("%s\n%s", m.Name, out)
			}
		})
	}
}
