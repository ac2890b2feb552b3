package check_test

import (
	"fmt"
	"time"

	"leasehold/torture/check"
	"leasehold/torture/history"
)

// Two clients are told within half a second that they hold a lease of one second.
// No log is needed to see that this is too early.
func ExampleCheck() {
	rec := history.NewRecorder(nil) // a file, to keep what was recorded
	rec.Add(history.Operation{
		Client: "c1", Kind: history.Acquire, Name: "jobs/x", Holder: "c1", RequestID: "r1", TTL: time.Second,
		Call: 0, Return: 10 * time.Millisecond, Outcome: history.OK, Answer: history.Answer{Token: 5},
	})
	rec.Add(history.Operation{
		Client: "c2", Kind: history.Acquire, Name: "jobs/x", Holder: "c2", RequestID: "r1", TTL: time.Second,
		Call: 20 * time.Millisecond, Return: 500 * time.Millisecond, Outcome: history.OK, Answer: history.Answer{Token: 8},
	})

	report := check.Check(rec.History(), check.DefaultParams())
	fmt.Println(report.Verdict, int(report.Verdict))
	fmt.Println(report.Of("P8").Violations[0].What)
	fmt.Println(report.Of("P4").Status, "|", report.Of("P14").Status, "|", report.Of("P14").Note)
	// Output:
	// violated 1
	// token 8 of jobs/x was answered at 0.500s, and token 5 before it could not end by itself before 0.980s
	// ok | not checked | the history has no log
}
