package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/fence"
)

// TestGuard_Check ensures that a token is admitted exactly if it is no lower than
// all before it for the same resource, and that a refusal says both numbers.
func TestGuard_Check(t *testing.T) {
	var g fence.Guard
	for _, step := range []struct {
		resource string
		token    uint64
		highest  uint64 // that refuses it, 0: admitted
	}{
		{"a", 5, 0},
		{"a", 5, 0},
		{"a", 4, 5},
		{"b", 4, 0}, // resources do not know of each other
		{"a", 1 << 63, 0},
		{"a", 6, 1 << 63},
		{"a", 1<<64 - 1, 0},
		{"a", 1 << 63, 1<<64 - 1},
		{"b", 4, 0},
	} {
		err := g.Check(step.resource, step.token)
		if step.highest == 0 {
			if err != nil {
				t.Errorf("Check(%q, %d) = %v, want nil", step.resource, step.token, err)
			}
			continue
		}
		stale, ok := errors.AsType[*fence.StaleError](err)
		if !ok || !errors.Is(err, fence.ErrStale) {
			t.Fatalf("Check(%q, %d) = %v, want a StaleError", step.resource, step.token, err)
		}
		want := fence.StaleError{Resource: step.resource, Token: step.token, Highest: step.highest}
		if *stale != want {
			t.Errorf("Check(%q, %d) = %+v, want %+v", step.resource, step.token, *stale, want)
		}
	}
}

// TestGuard_Check_Zero ensures that 0, the value of a token that nobody set, is
// refused and leaves no trace.
func TestGuard_Check_Zero(t *testing.T) {
	var g fence.Guard
	if err := g.Check("a", 0); !errors.Is(err, fence.ErrToken) {
		t.Errorf("Check of 0 = %v, want ErrToken", err)
	}
	if err := g.Do(t.Context(), "a", 0, func(context.Context) error { t.Error("ran"); return nil }); !errors.Is(err, fence.ErrToken) {
		t.Errorf("Do of 0 = %v, want ErrToken", err)
	}
}

// TestGuard_MaxResources ensures that a full guard refuses new resources and
// keeps what it knows.
func TestGuard_MaxResources(t *testing.T) {
	g := fence.Guard{MaxResources: 2}
	for _, resource := range []string{"a", "b"} {
		if err := g.Check(resource, 7); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Check("c", 9); !errors.Is(err, fence.ErrFull) {
		t.Errorf("a third resource: %v, want ErrFull", err)
	}
	if err := g.Check("a", 6); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an old token for a known one: %v, want ErrStale", err)
	}
	if !g.Forget("b") {
		t.Error("Forget = false with nothing under way")
	}
	if err := g.Check("c", 9); err != nil {
		t.Errorf("after Forget made room: %v", err)
	}
}

// TestGuard_Forget ensures that a resource is not forgotten under a write, and
// that what was forgotten takes any token.
func TestGuard_Forget(t *testing.T) {
	var g fence.Guard
	err := g.Do(t.Context(), "a", 7, func(context.Context) error {
		if g.Forget("a") {
			t.Error("Forget = true while a write is under way")
		}
		return nil
	})
	if err != nil || g.Highest("a") != 7 {
		t.Fatalf("Do = %v, Highest = %d, want nil and 7", err, g.Highest("a"))
	}
	if !g.Forget("a") || g.Highest("a") != 0 {
		t.Errorf("the resource is still known: %d", g.Highest("a"))
	}
	if err := g.Check("a", 1); err != nil {
		t.Errorf("Check of an old token after Forget = %v, want nil", err)
	}
}

// TestGuard_Do_NewerWaits plays the race that check-then-write loses: the older
// write is paused between its check and its end. The newer one must not overtake
// it, and no further old one may begin.
func TestGuard_Do_NewerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Guard
		var wrote []uint64
		write := func(token uint64) func(context.Context) error {
			return func(context.Context) error { wrote = append(wrote, token); return nil }
		}
		resume := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			if err := g.Do(t.Context(), "a", 33, func(ctx context.Context) error { <-resume; return write(33)(ctx) }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // 33 has been checked and is paused
		all.Go(func() {
			if err := g.Do(t.Context(), "a", 34, write(34)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // 34 waits
		if len(wrote) > 0 {
			t.Errorf("written while 33 is paused: %v", wrote)
		}
		if err := g.Do(t.Context(), "a", 33, write(33)); !errors.Is(err, fence.ErrStale) {
			t.Errorf("another 33 while 34 waits: %v, want ErrStale", err)
		}
		if err := g.Do(t.Context(), "b", 1, write(1)); err != nil {
			t.Errorf("another resource meanwhile: %v", err)
		}
		close(resume)
		all.Wait()
		if want := []uint64{1, 33, 34}; !slices.Equal(wrote, want) {
			t.Errorf("written %v, want %v", wrote, want)
		}
	})
}

// TestGuard_Do_OvertakenWhileWaiting ensures that one that waits is refused if a
// newer one comes in the meantime, and that the newest of all gets its turn.
func TestGuard_Do_OvertakenWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Guard
		resume := make(chan struct{})
		errs := make([]error, 3)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				errs[i] = g.Do(t.Context(), "a", uint64(10+i), func(context.Context) error {
					if i == 0 {
						<-resume
					}
					return nil
				})
			})
			synctest.Wait()
		}
		close(resume)
		all.Wait()
		if errs[0] != nil || !errors.Is(errs[1], fence.ErrStale) || errs[2] != nil {
			t.Errorf("the paused one, the overtaken, the newest: %v; want nil, stale, nil", errs)
		}
	})
}

// TestGuard_Do_SameToken ensures that the writes of one holder do not wait for
// each other.
func TestGuard_Do_SameToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Guard
		resume := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { _ = g.Do(t.Context(), "a", 5, func(context.Context) error { <-resume; return nil }) })
		synctest.Wait()
		ran := false
		if err := g.Do(t.Context(), "a", 5, func(context.Context) error { ran = true; return nil }); err != nil || !ran {
			t.Errorf("beside one with the same token: ran = %v, %v", ran, err)
		}
		close(resume)
		all.Wait()
	})
}

// TestGuard_Do_WaitEnds ensures that a wait ends with its context and says why,
// that the write is not begun then, and that the mark stays raised.
func TestGuard_Do_WaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Guard
		resume := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { _ = g.Do(t.Context(), "a", 5, func(context.Context) error { <-resume; return nil }) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := g.Do(ctx, "a", 6, func(context.Context) error { t.Error("begun"); return nil })
		if !errors.Is(err, fence.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do = %v, want ErrBusy and DeadlineExceeded", err)
		}
		close(resume)
		all.Wait()
		if err := g.Check("a", 5); !errors.Is(err, fence.ErrStale) {
			t.Errorf("Check of the older token = %v, want ErrStale", err)
		}
		if err := g.Do(t.Context(), "a", 6, func(context.Context) error { return nil }); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

// TestGuard_Do_Ends ensures that a write that fails or panics is over for those
// that wait, and that its error comes through.
func TestGuard_Do_Ends(t *testing.T) {
	var g fence.Guard
	failed := errors.New("disk full")
	if err := g.Do(t.Context(), "a", 1, func(context.Context) error { return failed }); err != failed {
		t.Errorf("Do = %v, want %v", err, failed)
	}
	func() {
		defer func() { _ = recover() }()
		_ = g.Do(t.Context(), "a", 2, func(context.Context) error { panic("bug") })
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a wait would end at once
	if err := g.Do(ctx, "a", 3, func(context.Context) error { return nil }); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}

// TestGuard_Do_Overtaken ensures that a write under way learns of a newer token at
// once, even of one that is only checked, and one with the same token does not disturb it.
func TestGuard_Do_Overtaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Guard
		stop := errors.New("stopped")
		var all sync.WaitGroup
		start := time.Now()
		for range 2 {
			all.Go(func() {
				err := g.Do(t.Context(), "a", 33, func(ctx context.Context) error {
					<-ctx.Done()
					want := fence.StaleError{Resource: "a", Token: 33, Highest: 34}
					if got, ok := errors.AsType[*fence.StaleError](context.Cause(ctx)); !ok || *got != want {
						t.Errorf("the cause is %v, want %v", context.Cause(ctx), &want)
					}
					return stop
				})
				if err != stop || time.Since(start) != time.Second {
					t.Errorf("Do = %v after %v, want %v after 1s", err, time.Since(start), stop)
				}
			})
		}
		time.Sleep(time.Second)
		if err := g.Check("a", 34); err != nil {
			t.Error(err)
		}
		all.Wait()
		if err := g.Do(t.Context(), "a", 34, func(ctx context.Context) error { return context.Cause(ctx) }); err != nil {
			t.Errorf("the context of the newest is over: %v", err)
		}
	})
}

// TestGuard_Do_Concurrent ensures under many writers that what is written to a
// resource has rising tokens, though each write is preceded by a pause. The same
// writers with Check alone are seen to break the rule.
func TestGuard_Do_Concurrent(t *testing.T) {
	if stale := compete(t, func(ctx context.Context, g *fence.Guard, resource string, token uint64, write func() error) error {
		return g.Do(ctx, resource, token, func(context.Context) error { return write() })
	}); stale > 0 {
		t.Errorf("%d stale writes through Do, want none", stale)
	}
	if stale := compete(t, func(_ context.Context, g *fence.Guard, resource string, token uint64, write func() error) error {
		if err := g.Check(resource, token); err != nil {
			return err
		}
		return write()
	}); stale == 0 {
		t.Error("check-then-write made no stale write, so the test above shows nothing")
	}
}

// compete lets 8 writers write with random tokens and counts the writes that come
// after one with a higher token. Time passes only inside of the bubble.
func compete(t *testing.T, do func(ctx context.Context, g *fence.Guard, resource string, token uint64, write func() error) error) (stale int) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Guard
		var mu sync.Mutex // guards the two below
		written := make(map[string][]uint64)
		accepted, refused := 0, 0
		var all sync.WaitGroup
		for writer := range 8 {
			random := rand.New(rand.NewPCG(1, uint64(writer)))
			all.Go(func() {
				for round := range 250 {
					resource := fmt.Sprint("r", random.IntN(3))
					token := uint64(round) + 1 + random.Uint64N(20)
					err := do(t.Context(), &g, resource, token, func() error {
						time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
						mu.Lock()
						defer mu.Unlock()
						written[resource] = append(written[resource], token)
						return nil
					})
					mu.Lock()
					if err == nil {
						accepted++
					} else if errors.Is(err, fence.ErrStale) {
						refused++
					} else {
						t.Error(err)
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if accepted < 100 || refused < 100 {
			t.Errorf("%d accepted, %d refused: too one-sided to show anything", accepted, refused)
		}
		for _, tokens := range written {
			highest := uint64(0)
			for _, token := range tokens {
				if token < highest {
					stale++
				}
				highest = max(highest, token)
			}
		}
	})
	return stale
}
