package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// link2 makes a connection from a to b.
func link2(t *testing.T) (m *Memory, a, b net.Conn) {
	t.Helper()
	m = NewMemory()
	l := listen(t, m.Host("b"), "b")
	a, err := m.Host("a").Dial(soon(t), "b")
	if err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return m, a, b
}

func listen(t *testing.T, n Network, address string) net.Listener {
	t.Helper()
	l, err := n.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// wantText expects the connection to yield just that, waiting for it.
func wantText(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("Read: got %q, %v, want %q", got, err, want)
	}
}

// wantSilence expects the connection to yield nothing for a minute.
func wantSilence(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	defer c.SetReadDeadline(time.Time{})
	n, err := c.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: got %d bytes, %v, want silence", n, err)
	}
	if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v does not say that it is a timeout", err)
	}
}

// What is written over a cut stalls and arrives after healing, all of it and in
// order; so does the end of the connection.
func TestMemory_Cut_StallsAndHealsWithoutLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a, b := link2(t)
		send(t, a, "be")
		wantText(t, b, "be")
		m.Cut("a", "b")
		send(t, a, "fore ")
		send(t, a, "and after")
		a.Close()
		wantSilence(t, b)
		m.Heal("a", "b")
		wantText(t, b, "fore and after")
		wantEnd(t, b, io.EOF)
	})
}

// Who waits when a link heals is woken.
func TestMemory_Heal_WakesReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a, b := link2(t)
		m.Cut("a", "b")
		send(t, a, "x")
		start := time.Now()
		time.AfterFunc(time.Hour, m.HealAll)
		wantText(t, b, "x")
		wantElapsed(t, start, time.Hour)
	})
}

// A cut stops one direction only.
func TestMemory_Cut_OneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a, b := link2(t)
		m.Cut("a", "b")
		send(t, a, "stalled")
		send(t, b, "flows")
		wantText(t, a, "flows")
		wantSilence(t, b)
	})
}

// What had arrived before the cut can be read; what was under way can not.
func TestMemory_Cut_KeepsWhatHadArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a, b := link2(t)
		send(t, a, "arrived")
		m.Delay("a", "b", time.Second)
		send(t, a, "under way")
		m.Cut("a", "b")
		wantText(t, b, "arrived")
		wantSilence(t, b)
	})
}

// A dial waits while either direction is cut, and goes on when both are healed.
func TestMemory_Cut_HoldsDials(t *testing.T) {
	for _, cut := range [][2]string{{"a", "b"}, {"b", "a"}} {
		synctest.Test(t, func(t *testing.T) {
			m := NewMemory()
			listen(t, m.Host("b"), "b")
			m.Cut(cut[0], cut[1])

			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := m.Host("a").Dial(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Dial over a cut: got %v, want the deadline", err)
			}
			wantElapsed(t, start, time.Second)

			time.AfterFunc(time.Second, func() { m.Heal(cut[0], cut[1]) })
			c, err := m.Host("a").Dial(soon(t), "b")
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			wantElapsed(t, start, 2*time.Second)
		})
	}
}

// Where nobody listens, or does any more, a dial is refused at once.
func TestMemory_Dial_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		start := time.Now()
		for range 2 {
			if _, err := m.Host("a").Dial(context.Background(), "b"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("got %v, want connection refused", err)
			}
			listen(t, m.Host("b"), "b").Close()
		}
		wantElapsed(t, start, 0)
	})
}

// A host listens on its own address only.
func TestMemory_Listen_OtherAddress(t *testing.T) {
	if _, err := NewMemory().Host("a").Listen("b"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("got %v, want address not available", err)
	}
}

// A delay is the latency of one direction; to connect takes both. Nothing
// overtakes when it is shortened.
func TestMemory_Delay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a, b := link2(t)
		m.Delay("a", "b", 3*time.Second)
		m.Delay("b", "a", time.Second)
		start := time.Now()
		send(t, a, "slow ")
		wantElapsed(t, start, 0)
		m.Delay("a", "b", time.Second)
		send(t, a, "quick")
		wantText(t, b, "slow quick")
		wantElapsed(t, start, 3*time.Second)
		send(t, b, "back")
		wantText(t, a, "back")
		wantElapsed(t, start, 4*time.Second)

		c, err := m.Host("a").Dial(soon(t), "b")
		if err != nil {
			t.Fatal(err)
		}
		wantElapsed(t, start, 6*time.Second)
		c.Close()
	})
}

// Close delivers what was written before, then the end; the other side can no
// longer write, and the own side neither read nor write.
func TestMemory_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := link2(t)
		send(t, a, "last words")
		a.Close()
		wantEnd(t, a, net.ErrClosed)
		if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after Close: got %v, want net.ErrClosed", err)
		}
		if err := a.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second Close: got %v, want net.ErrClosed", err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write to a closed peer: got %v, want a broken pipe", err)
		}
		wantText(t, b, "last words")
		wantEnd(t, b, io.EOF)
	})
}

// A writer waits when the window is full and goes on when the peer reads; a
// deadline ends its wait.
func TestMemory_Write_WaitsForReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := link2(t)
		start := time.Now()
		a.SetWriteDeadline(start.Add(time.Second))
		n, err := a.Write(make([]byte, memoryWindow+1))
		if n != memoryWindow || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write: got %d bytes, %v, want %d and the deadline", n, err, memoryWindow)
		}
		wantElapsed(t, start, time.Second)

		a.SetWriteDeadline(time.Time{})
		sent := bytes.Repeat([]byte("0123456789"), memoryWindow)
		go func() { a.Write(sent); a.Close() }()
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got[memoryWindow:], sent) {
			t.Errorf("ReadAll: got %d bytes, %v, want %d", len(got), err, memoryWindow+len(sent))
		}
	})
}

// A writer that waits for room learns that either side was closed.
func TestMemory_Write_EndedByClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, want := range []error{net.ErrClosed, syscall.EPIPE} {
			_, a, b := link2(t)
			ended := make(chan error)
			go func() { _, err := a.Write(make([]byte, memoryWindow+1)); ended <- err }()
			synctest.Wait()
			if want == net.ErrClosed {
				a.Close()
			} else {
				b.Close()
			}
			if err := <-ended; !errors.Is(err, want) {
				t.Errorf("Write: got %v, want %v", err, want)
			}
		}
	})
}

// A deadline set while somebody reads ends that read, and a later one lets the
// connection be used again.
func TestMemory_SetDeadline_WhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := link2(t)
		start := time.Now()
		time.AfterFunc(time.Second, func() { b.SetDeadline(time.Now().Add(time.Second)) })
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read: got %v, want the deadline", err)
		}
		wantElapsed(t, start, 2*time.Second)
		if _, err := b.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write: got %v, want the deadline", err)
		}
		b.SetDeadline(time.Time{})
		send(t, a, "again")
		wantText(t, b, "again")
	})
}

// After a crash nothing of the process is left on the network, its peers see the
// end, and a new process can take its place while the old one stays cut off.
func TestMemory_Crash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		old := m.Host("b")
		l := listen(t, old, "b")
		listen(t, m.Host("a"), "a")
		a, err := m.Host("a").Dial(soon(t), "b")
		if err != nil {
			t.Fatal(err)
		}
		queued, err := old.Dial(soon(t), "a")
		if err != nil {
			t.Fatal(err)
		}

		m.Crash("b")
		wantEnd(t, a, io.EOF)
		wantEnd(t, queued, net.ErrClosed)
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: got %v, want net.ErrClosed", err)
		}
		if _, err := m.Host("a").Dial(soon(t), "b"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Dial to the crashed: got %v, want connection refused", err)
		}

		listen(t, m.Host("b"), "b")
		for _, again := range []struct {
			from Network
			to   string
			want error
		}{{m.Host("a"), "b", nil}, {m.Host("b"), "a", nil}, {old, "a", syscall.ENETDOWN}} {
			c, err := again.from.Dial(soon(t), again.to)
			if !errors.Is(err, again.want) {
				t.Errorf("Dial to %s: got %v, want %v", again.to, err, again.want)
			}
			if c != nil {
				c.Close()
			}
		}
	})
}

// The old listener of a crashed process cannot take the new one down.
func TestMemory_Crash_OldListener(t *testing.T) {
	m := NewMemory()
	old := listen(t, m.Host("b"), "b")
	m.Crash("b")
	listen(t, m.Host("b"), "b")
	old.Close()
	c, err := m.Host("a").Dial(soon(t), "b")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// reach says which of the hosts can connect to which, as "ab ba …".
func reach(t *testing.T, m *Memory, hosts ...string) string {
	t.Helper()
	var pairs []string
	for _, from := range hosts {
		for _, to := range hosts {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if c, err := m.Host(from).Dial(ctx, to); err == nil {
				pairs = append(pairs, from+to)
				c.Close()
			}
			cancel()
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}

// A partition separates sides, an isolation one host from all, also from those
// that come later; both heal.
func TestMemory_PartitionAndIsolate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		for _, host := range []string{"a", "b", "c", "d"} {
			listen(t, m.Host(host), host)
		}
		check := func(what, want string, hosts ...string) {
			t.Helper()
			if got := reach(t, m, hosts...); got != want {
				t.Errorf("%s: got %s, want %s", what, got, want)
			}
		}
		m.Partition([]string{"a", "b"}, []string{"c"})
		check("partitioned", "aa ab ba bb cc", "a", "b", "c")
		check("on no side", "cc cd dc dd", "c", "d")
		m.HealAll()
		check("healed", "aa ab ac ba bb bc ca cb cc", "a", "b", "c")

		m.Isolate("a")
		check("isolated", "aa bb bc cb cc", "a", "b", "c")
		listen(t, m.Host("e"), "e") // no link to it was ever used
		check("comes later", "aa bb be eb ee", "a", "b", "e")
		m.HealAll()
		check("healed again", "aa ae ea ee", "a", "e")
	})
}

// Nothing is kept of connections that are closed on both sides.
func TestMemory_ForgetsClosedConnections(t *testing.T) {
	m, a, b := link2(t)
	a.Close()
	b.Close()
	if len(m.connected) != 0 {
		t.Errorf("%d ends are kept", len(m.connected))
	}
}
