package mutants

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	hunted = flag.String("hunt", "M4,M5,M8,M11,M13,M16", "look for these mutants with the simulation; \"all\" is possible")
	seeds  = flag.Int("seeds", 10, "in so many seeds at most")
	table  = flag.String("table", "", "write a table of the kills into this `FILE`")
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

// Each mutant is caught by the property that it breaks.
func TestMutants_AreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a simulation for each")
	}
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range all {
		if *hunted != "all" && !slices.Contains(strings.Split(*hunted, ","), m.ID) {
			continue
		}
		t.Run(m.ID, func(t *testing.T) {
			h := Hunt{Root: root(t), Dir: t.TempDir(), Seeds: *seeds}
			k, err := h.Look(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, k.Row())
			fmt.Println(k.Row())
			if !k.Killed() {
				t.Errorf("%s: %s is not violated in %d seeds, but %v; the last simulation:\n%s", m.Name, m.Breaks, *seeds, k.Violated, k.Output)
			}
		})
	}
	if len(rows) == 0 {
		t.Fatalf("there is no mutant %s", *hunted)
	}
	if *table != "" {
		text := "# Mutants\n\nWritten by `make mutants`: leasehold with a fault, and how long the simulation took to notice it. The times are those of the simulations up to the one that\n" +
			"noticed, one after the other. What each mutant does wrong, and where it comes from, is in [torture/mutants/testdata](../torture/mutants/testdata).\n\n| mutant | what is wrong | breaks | caught | also violated |\n|---|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
		if err := os.WriteFile(*table, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
