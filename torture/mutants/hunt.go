package mutants

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Hunt looks for a mutant with the simulation.
type Hunt struct {
	Root  string // of the module
	Dir   string // for what is built
	Seeds int    // at most
}

// Kill is what a hunt has come to.
type Kill struct {
	Mutant Mutant
	// Seed in which the expected property was violated, 0 if there was none.
	Seed int
	// Violated are the properties that were, in the seeds up to that one.
	Violated []string
	Took     time.Duration // of all simulations up to that seed, without the building
	// Output of the last simulation.
	Output string
}

// Killed says whether the mutant was caught by the property that it should break.
func (k Kill) Killed() bool { return k.Seed != 0 }

var violated = regexp.MustCompile(`(?m)^\s*(P[0-9]+b?|cluster)\s+violated`)

// Look builds the simulation of the mutant and runs it for one seed after the other,
// until the property that the mutant should break is violated. The error is that of
// building it.
func (h Hunt) Look(ctx context.Context, m Mutant) (Kill, error) {
	k := Kill{Mutant: m}
	overlay, err := m.Overlay(h.Root, h.Dir)
	if err != nil {
		return k, err
	}
	simulation := filepath.Join(h.Dir, "sim.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", simulation, "./torture/sim")
	build.Dir = h.Root
	if out, err := build.CombinedOutput(); err != nil {
		return k, fmt.Errorf("%s does not compile: %w\n%s", m.ID, err, out)
	}
	begun := time.Now()
	for seed := 1; seed <= h.Seeds && ctx.Err() == nil; seed++ {
		run := exec.CommandContext(ctx, simulation, "-test.run=TestSim", "-test.v", "-test.timeout=5m", "-shrink=0", "-seed", strconv.Itoa(seed), "-seeds=1",
			"-minutes", strconv.Itoa(m.Minutes), "-out", h.Dir)
		run.Dir = h.Dir
		out, err := run.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return k, err
		}
		k.Output, k.Took = string(out), time.Since(begun)
		for _, found := range violated.FindAllStringSubmatch(k.Output, -1) {
			if !slices.Contains(k.Violated, found[1]) {
				k.Violated = append(k.Violated, found[1])
			}
		}
		if slices.Contains(k.Violated, m.Breaks) {
			k.Seed = seed
			return k, nil
		}
	}
	return k, ctx.Err()
}

// Row of a table of kills.
func (k Kill) Row() string {
	found, others := "not caught", slices.DeleteFunc(slices.Clone(k.Violated), func(id string) bool { return id == k.Mutant.Breaks })
	if k.Killed() {
		found = fmt.Sprintf("seed %d, %.1f s", k.Seed, k.Took.Seconds())
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |", k.Mutant.ID, k.Mutant.Name, k.Mutant.Breaks, found, strings.Join(others, " "))
}
