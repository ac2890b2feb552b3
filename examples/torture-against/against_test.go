package main

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"leasehold/torture/check"
)

// serve is a Redis in this process, with a clock that runs.
func serve(t *testing.T) (endpoint string) {
	t.Helper()
	m := miniredis.RunT(t)
	const beat = 5 * time.Millisecond
	ticker, done := time.NewTicker(beat), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		last := time.Now()
		for {
			select {
			case now := <-ticker.C:
				m.FastForward(now.Sub(last))
				last = now
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() {
		ticker.Stop()
		close(done)
		<-ended
	})
	return m.Addr()
}

// A Redis that forgets nothing holds, and one that forgets is found out: tokens begin
// anew, and what was held is free.
func TestRun_Redis(t *testing.T) {
	for name, test := range map[string]struct {
		forget time.Duration
		want   check.Verdict
	}{"remembers": {0, check.Holds}, "forgets": {4 * time.Second, check.IsViolated}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config{peer: "redis", endpoint: serve(t), duration: 10 * time.Second, forget: test.forget, seed: 1}
			report, err := run(t.Context(), cfg, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := report.Write(&text); err != nil {
				t.Fatal(err)
			}
			if report.Verdict != test.want {
				t.Errorf("got %v, want %v\n%s", report.Verdict, test.want, &text)
			}
			if test.forget == 0 {
				return
			}
			for _, id := range []string{"P3", "P4", "P5b"} {
				if report.Of(id).Status != check.Violated {
					t.Errorf("%s is not found to be violated\n%s", id, &text)
				}
			}
		})
	}
}
