// Package sets draws schedules of faults. A [Set] is a choice of faults that belong
// together; with a seed it becomes a schedule, always the same one. The package knows
// nothing of who plays the schedule, and on what.
package sets
