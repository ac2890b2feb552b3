package sim

import (
	"slices"

	"leasehold/faults"
)

// Shrink looks for a smaller schedule that still fails. fails is asked about one
// after another, as long as more says so; since simulations are not perfectly the
// same when they are repeated, it had better try a few times itself.
//
// First it leaves out halves of what there is, then quarters, and so on to single
// steps: what does not matter goes soon, and what does is found one by one.
func Shrink(s faults.Schedule, more func() bool, fails func(faults.Schedule) bool) faults.Schedule {
	for part := (len(s) + 1) / 2; part > 0; part /= 2 {
		for again := true; again; {
			again = false
			for from := 0; from < len(s); {
				if !more() {
					return s
				}
				to := min(from+part, len(s))
				if without := slices.Delete(slices.Clone(s), from, to); fails(without) {
					s, again = without, true // and the next ones are at from now
				} else {
					from = to
				}
			}
			again = again && part == 1 // what had to stay before may go now
		}
	}
	return s
}
