package transport

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// clocked makes a node's Hello say, as its term, how many milliseconds into the
// test it was sampled.
func clocked(c *Config) {
	id, start := c.Self().ID, time.Now()
	c.Self = func() Hello { return Hello{ID: id, Term: uint64(time.Since(start).Milliseconds())} }
}

func probe(t *testing.T, from *Transport, to string) *Probe {
	t.Helper()
	p, err := from.Probe(soon(t), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// An answer was sampled after the question had reached the peer, neither when
// it was sent nor when the connection was made.
func TestProbe_Ask_IsSampledAfterTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n1, _ := openPair(t, clocked)
		p := probe(t, n1, "n2:1")
		if got := p.Hello(); got.ID != "n2" || got.Term != 0 {
			t.Errorf("Hello: got %+v, want that of n2 at 0 ms", got)
		}
		m.Delay("n1:1", "n2:1", time.Second)
		m.Delay("n2:1", "n1:1", 3*time.Second)
		for _, want := range []uint64{1000, 5000, 9000} {
			got, err := p.Ask(soon(t))
			if err != nil {
				t.Fatal(err)
			}
			if got.Term != want {
				t.Errorf("sampled at %d ms, want %d", got.Term, want)
			}
		}
	})
}

// The late answer to a question that was given up is never taken for the answer
// to a newer one: the probe is broken, and a new one works.
func TestProbe_Ask_AfterTimeout_Fails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n1, _ := openPair(t, clocked)
		p := probe(t, n1, "n2:1")

		m.Cut("n2:1", "n1:1") // the question arrives, the answer does not
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Ask(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Ask over a cut: got %v, want the deadline", err)
		}
		m.HealAll()
		time.Sleep(time.Second)
		for range 2 {
			if got, err := p.Ask(soon(t)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Ask of a broken probe: got %+v, %v, want the error that broke it", got, err)
			}
		}
		if got, err := probe(t, n1, "n2:1").Ask(soon(t)); err != nil || got.Term != 2000 {
			t.Errorf("a new probe: got %+v, %v, want one sampled at 2000 ms", got, err)
		}
	})
}

// A probe may rest for as long as its owner likes.
func TestProbe_Ask_AfterLongRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n1, _ := openPair(t, clocked)
		p := probe(t, n1, "n2:1")
		for i := range 3 {
			got, err := p.Ask(t.Context())
			if want := uint64(i) * 3_600_000; err != nil || got.Term != want {
				t.Errorf("got one sampled at %d ms, %v, want %d", got.Term, err, want)
			}
			time.Sleep(time.Hour)
		}
	})
}

// A context that ended before the question breaks the probe too, whether or not
// the answer was quicker than the end was noticed.
func TestProbe_Ask_EndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n1, _ := openPair(t)
		p := probe(t, n1, "n2:1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 {
			if got, err := p.Ask(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("got %+v, %v, want context.Canceled", got, err)
			}
		}
	})
}

// Of two who ask at the same time the second is turned away, and the first gets
// its answer.
func TestProbe_Ask_OneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n1, _ := openPair(t)
		p := probe(t, n1, "n2:1")
		m.Delay("n1:1", "n2:1", time.Second)
		first := make(chan error)
		go func() { _, err := p.Ask(soon(t)); first <- err }()
		synctest.Wait()
		if _, err := p.Ask(soon(t)); !errors.Is(err, errAsking) {
			t.Errorf("second Ask: got %v, want %v", err, errAsking)
		}
		if err := <-first; err != nil {
			t.Errorf("first Ask: %v", err)
		}
	})
}

// Close, of the probe or of its transport, ends an Ask that waits for a peer
// that says nothing, and closing again does no harm.
func TestProbe_Close_EndsAsk(t *testing.T) {
	closers := map[string]func(*Transport, *Probe) error{
		"probe":     func(_ *Transport, p *Probe) error { return p.Close() },
		"transport": func(n *Transport, _ *Probe) error { return n.Close() },
	}
	for name, closeIt := range closers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, n1, _ := openPair(t)
				p := probe(t, n1, "n2:1")
				m.Cut("n1:1", "n2:1")
				asked := make(chan error)
				go func() { _, err := p.Ask(context.Background()); asked <- err }()
				synctest.Wait()
				for range 2 {
					if err := closeIt(n1, p); err != nil {
						t.Errorf("Close: %v", err)
					}
				}
				if err := <-asked; !errors.Is(err, net.ErrClosed) {
					t.Errorf("Ask: got %v, want net.ErrClosed", err)
				}
			})
		})
	}
}

// A probe over a cut link gives up after 10 seconds, also for a caller who set
// no limit.
func TestTransport_Probe_IsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n1, _ := openPair(t)
		m.Cut("n1:1", "n2:1")
		start := time.Now()
		if _, err := n1.Probe(context.Background(), "n2:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		wantElapsed(t, start, 10*time.Second)
	})
}

// A peer that asks and does not read is let go, and does not keep a goroutine
// busy for ever.
func TestTransport_ProbeAnswers_NotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers atomic.Int64
		m, n1, _ := openPair(t, func(c *Config) {
			self := c.Self
			c.Self = func() Hello { answers.Add(1); return self() }
		})
		p := probe(t, n1, "n2:1")
		start := time.Now()
		m.Cut("n2:1", "n1:1")
		questions := make([]byte, 32<<10)
		for i := range questions {
			questions[i] = question
		}
		if _, err := p.conn.Write(questions); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		n := answers.Load()
		if n == 0 || n >= int64(len(questions)) {
			t.Fatalf("%d answers to %d questions: the answers did not fill the window", n, len(questions))
		}
		if _, err := p.conn.Write(questions[:1]); err != nil {
			t.Errorf("before the end came through: %v", err)
		}
		m.HealAll()
		if _, err := p.conn.Write(questions[:1]); err == nil {
			t.Error("the peer keeps the connection open")
		}
		wantElapsed(t, start, 10*time.Second)
	})
}

// What is not a question ends the connection.
func TestTransport_ProbeGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n1, _ := openPair(t)
		p := probe(t, n1, "n2:1")
		send(t, p.conn, "!")
		if _, err := p.Ask(soon(t)); err == nil {
			t.Error("Ask after garbage: no error")
		}
	})
}
