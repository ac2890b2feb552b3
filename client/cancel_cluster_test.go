package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/client"
)

// A caller that stops at any moment of an acquire has the lease if there was no
// error. Otherwise a second later nothing of it is left, neither in the table nor in
// the queue.
func TestClient_Acquire_CancelledAtAnyMoment(t *testing.T) {
	const workers, rounds = 10, 50
	synctest.Test(t, func(t *testing.T) {
		c, api := newCluster(t)
		// What an acquire takes here is a few links long.
		c.DelayAll(time.Millisecond)
		for _, id := range []string{"n1", "n2", "n3"} {
			c.Net.Delay("a:1", id+":8000", 2*time.Millisecond)
			c.Net.Delay(id+":8000", "a:1", 2*time.Millisecond)
		}
		s := &stopper{api: api, client: holder(t, c, "a"), other: holder(t, c, "b"), got: make(map[string]int)}
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for round := range rounds {
					s.round(t, fmt.Sprintf("jobs/%d/%d", i, round), round%2 == 0, random)
				}
			})
		}
		all.Wait()
		if s.got["held"] < 20 || s.got["given back"] < 20 || s.got["never held"] < 20 {
			t.Errorf("inconclusive: %v", s.got)
		}
		t.Log(s.got)
	})
}

// stopper stops acquires.
type stopper struct {
	api           *client.API
	client, other *client.Client

	mu  sync.Mutex // guards got
	got map[string]int
}

// round acquires a lease, one that another has and soon gives back if contended,
// stops at some moment, and looks a second later.
func (s *stopper) round(t *testing.T, name string, contended bool, random *rand.Rand) {
	t.Helper()
	o := client.AcquireOptions{TTL: time.Minute}
	if contended {
		o.Wait = time.Minute
		blocker, err := s.other.Acquire(t.Context(), name, client.AcquireOptions{TTL: time.Minute})
		if err != nil {
			t.Error(err)
			return
		}
		time.AfterFunc(time.Duration(random.IntN(60_000))*time.Microsecond, func() { _ = blocker.Release() })
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(random.IntN(25_000))*time.Microsecond, errStopped)
	l, err := s.client.Acquire(ctx, name, o)
	cancel()
	if err != nil && !errors.Is(err, errStopped) && !errors.Is(err, client.ErrWaitTimeout) {
		t.Errorf("%s: %v", name, err)
	}
	time.Sleep(time.Second)
	seen, e := s.api.Lease(t.Context(), name, client.Linearizable)
	outcome := "never held"
	switch {
	case e != nil:
		t.Error(e)
	case err == nil && (seen.Holder != "a" || seen.Token != l.Token()):
		t.Errorf("%s: no error, but the server has %+v", name, seen)
	case err != nil && (seen.Holder == "a" || seen.Waiters != 0):
		t.Errorf("%s: %v, but the server has %+v", name, err, seen)
	case err == nil:
		outcome = "held"
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	case seen.Last != nil && seen.Last.Holder == "a":
		outcome = "given back"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got[outcome]++
}

var errStopped = errors.New("stopped by the test")
