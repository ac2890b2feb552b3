package cluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// While somebody reads the clock often enough, it runs as monotonic time does,
// to the nanosecond.
func TestLeaseClock_Exact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := newLeaseClock(nil)
		for _, step := range []time.Duration{0, 1, time.Millisecond, clockTick, clockMaxStep - 1, clockMaxStep, 3, 0} {
			time.Sleep(step)
			if got, want := clock.Now(), time.Since(start); got != want {
				t.Fatalf("after a step of %v the clock says %v, want %v", step, got, want)
			}
		}
		if clock.stalled != 0 {
			t.Errorf("%v were dropped", clock.stalled)
		}
	})
}

// With its ticker the clock is exact for ever, however seldom anybody asks.
func TestLeaseClock_Run_Exact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		clock := newLeaseClock(nil)
		go clock.run(ctx)
		for range 5 {
			time.Sleep(17*time.Minute + 13*time.Microsecond)
			if got, want := clock.Now(), time.Since(start); got != want {
				t.Fatalf("the clock says %v, want %v", got, want)
			}
		}
		cancel()
		synctest.Wait()
	})
}

// A pause counts clockMaxStep at most, and the clock goes on from there.
func TestLeaseClock_Pause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newLeaseClock(nil)
		time.Sleep(10 * time.Millisecond)
		clock.Now()
		for _, pause := range []time.Duration{clockMaxStep + 1, time.Second, time.Hour} {
			before, dropped := clock.Now(), clock.stalled
			time.Sleep(pause)
			if got := clock.Now() - before; got != clockMaxStep {
				t.Errorf("a pause of %v counts %v, want %v", pause, got, clockMaxStep)
			}
			if got := clock.stalled - dropped; got != pause-clockMaxStep {
				t.Errorf("of a pause of %v, %v were dropped", pause, got)
			}
			after := clock.Now()
			time.Sleep(30 * time.Millisecond)
			if got := clock.Now() - after; got != 30*time.Millisecond {
				t.Errorf("30ms after a pause count %v", got)
			}
		}
	})
}
