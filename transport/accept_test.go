package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// connect makes a connection that has said nothing yet.
func connect(t *testing.T, m *Memory, to string) net.Conn {
	t.Helper()
	c, err := m.Host("client").Dial(soon(t), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// A connection that does not say in time what it is, is closed, and one that
// says nonsense is closed at once.
func TestTransport_Undecided_IsClosed(t *testing.T) {
	hello, err := newFrame(kindRaft, someHello)
	if err != nil {
		t.Fatal(err)
	}
	preamble := string(hello.bytes())
	tests := map[string]struct {
		sent  string
		after time.Duration
	}{
		"silent":             {"", 10 * time.Second},
		"half the magic":     {preamble[:2], 10 * time.Second},
		"half a preamble":    {preamble[:20], 10 * time.Second},
		"all but a byte":     {preamble[:len(preamble)-1], 10 * time.Second},
		"garbage":            {"\x00garbage", 0},
		"garbage, 4 bytes":   {"\x00LSX", 0},
		"HTTP, not accepted": {"GET / HTTP/1.1\r\n\r\n", 10 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _, _ := openPair(t)
				start := time.Now()
				c := connect(t, m, "n1:1")
				send(t, c, test.sent)
				wantEnd(t, c, io.EOF)
				wantElapsed(t, start, test.after)
			})
		})
	}
}

// A preamble that trickles in does not get more time with every byte.
func TestTransport_TricklingPreamble_GetsNoMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, _ := openPair(t)
		start := time.Now()
		c := connect(t, m, "n1:1")
		trickled := make(chan struct{})
		go func() {
			defer close(trickled)
			for i := 0; ; i++ {
				if _, err := c.Write([]byte{(magic + "\x01\x01\xff\xff")[min(i, headerLen-1)]}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		wantEnd(t, c, io.EOF)
		wantElapsed(t, start, 10*time.Second)
		<-trickled
	})
}

// The HTTP server gets every byte the client sent, and its connection is not
// under the limit for silent ones any more.
func TestTransport_HTTP_IsPassedOnUntouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n1, _ := openPair(t)
		c := connect(t, m, "n1:1")
		send(t, c, "G")
		got, err := n1.HTTP().Accept()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		send(t, c, "ET / HTTP/1.1\r\n\r\n\x00\xff")
		c.Close()
		if text, err := io.ReadAll(got); err != nil || string(text) != "GET / HTTP/1.1\r\n\r\n\x00\xff" {
			t.Errorf("got %q, %v", text, err)
		}
		got.Close()
	})
}

// A Raft connection carries bytes both ways, from the first after the preamble
// on, and may rest for as long as Raft likes.
func TestTransport_Raft_IsPassedOnUntouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n1, n2 := openPair(t)
		near, err := n1.Raft().Dial("n2:1", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		send(t, near, "\x00LSH")
		far, err := n2.Raft().Accept()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		send(t, near, "!")
		send(t, far, "answer")
		got := make([]byte, 5)
		if _, err := io.ReadFull(far, got); err != nil || string(got) != "\x00LSH!" {
			t.Errorf("far: got %q, %v", got, err)
		}
		got = make([]byte, 6)
		if _, err := io.ReadFull(near, got); err != nil || string(got) != "answer" {
			t.Errorf("near: got %q, %v", got, err)
		}
		near.Close()
		far.Close()
	})
}

// Connections that say nothing, or half of something, do not delay another.
func TestTransport_SlowConnections_DelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, n2 := openPair(t)
		for i := range 100 {
			send(t, connect(t, m, "n1:1"), "\x00LSH\x01"[:i%6])
		}
		synctest.Wait()
		start := time.Now()
		p, err := n2.Probe(soon(t), "n1:1")
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		wantElapsed(t, start, 0)
	})
}

// Of too many connections that say nothing the oldest is closed, so that an
// honest client still gets in; but not while it may have spoken already.
func TestTransport_TooManyUndecided_ClosesOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, n2 := openPair(t)
		start := time.Now()
		silent := make([]net.Conn, maxUndecided)
		for i := range silent {
			silent[i] = connect(t, m, "n1:1")
		}
		synctest.Wait()
		ask := func() {
			p, err := n2.Probe(soon(t), "n1:1")
			if err != nil {
				t.Fatal(err)
			}
			p.Close()
		}
		time.Sleep(honestDelay - time.Nanosecond)
		ask()
		silent[0].SetReadDeadline(time.Now())
		if _, err := silent[0].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the oldest, before its time: got %v, want it to be open still", err)
		}
		silent[0].SetReadDeadline(time.Time{})
		time.Sleep(time.Nanosecond)
		ask()
		wantEnd(t, silent[0], io.EOF)
		wantElapsed(t, start, honestDelay)
		for _, c := range silent[1:] {
			c.SetReadDeadline(time.Now())
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("a newer one: got %v, want it to be open still", err)
			}
		}
	})
}

// A connection that has said what it is does not count, and is not closed
// however many come after it.
func TestTransport_Decided_StaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n1, n2 := openPair(t)
		client := connect(t, m, "n1:1")
		send(t, client, "G")
		server, err := n1.HTTP().Accept()
		if err != nil {
			t.Fatal(err)
		}
		p := probe(t, n2, "n1:1")
		silent := make([]net.Conn, maxUndecided)
		for i := range silent {
			silent[i] = connect(t, m, "n1:1")
		}
		synctest.Wait()
		time.Sleep(honestDelay)
		connect(t, m, "n1:1") // the one too many
		synctest.Wait()

		send(t, server, "H")
		wantText(t, client, "H")
		if _, err := p.Ask(soon(t)); err != nil {
			t.Errorf("Ask: %v", err)
		}
		wantEnd(t, silent[0], io.EOF) // the oldest of those that do count
		server.Close()
	})
}

// A closed listener ends its Accept and its arrivals; the other one and probes
// go on.
func TestTransport_ClosedSubListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n1, n2 := openPair(t)
		n1.HTTP().Close()
		if _, err := n1.HTTP().Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: got %v, want net.ErrClosed", err)
		}
		c := connect(t, m, "n1:1")
		send(t, c, "GET / HTTP/1.1\r\n\r\n")
		wantEnd(t, c, io.EOF)

		checkAppendEntries(t, n2, n1)
		n1.Raft().Close()
		var refused *RefusedError
		if _, err := n2.Raft().Dial("n1:1", time.Second); !errors.As(err, &refused) {
			t.Errorf("Dial of a closed Raft: got %v, want a refusal", err)
		}
		p, err := n2.Probe(soon(t), "n1:1")
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
	})
}

// flakyNetwork fails to accept as often as told, then works.
type flakyNetwork struct {
	Network
	errs []error
}

type flakyListener struct {
	net.Listener
	errs []error
}

func (n flakyNetwork) Listen(address string) (net.Listener, error) {
	l, err := n.Network.Listen(address)
	return &flakyListener{l, n.errs}, err
}

func (l *flakyListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	return l.Listener.Accept()
}

// When the process is out of file descriptors, the node says so and accepts
// again when there are some, at most a second later.
func TestTransport_AcceptErrors_AreSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		var log bytes.Buffer
		flaky := flakyNetwork{m.Host("n1:1"), make([]error, 12)}
		for i := range flaky.errs {
			flaky.errs[i] = &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
		}
		logging := func(c *Config) { c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log}) }
		n1 := open(t, "n1", flaky, "n1:1", logging)
		n2 := open(t, "n2", m.Host("n2:1"), "n2:1")

		start := time.Now()
		p, err := n2.Probe(soon(t), "n1:1")
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		// 5, 10, 20, …, 640 ms, then a second for each of the last four.
		wantElapsed(t, start, 1275*time.Millisecond+4*time.Second)
		n1.Close()
		if got := strings.Count(log.String(), "too many open files"); got != len(flaky.errs) {
			t.Errorf("logged %d times, want %d:\n%s", got, len(flaky.errs), log.String())
		}
	})
}

// A listener that is gone for good does not leave its users waiting for ever.
func TestTransport_ListenerGone_EndsAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n1, _ := openPair(t)
		m.Crash("n1:1")
		for _, l := range []net.Listener{n1.HTTP(), n1.Raft()} {
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Accept: got %v, want net.ErrClosed", err)
			}
		}
	})
}

// A peer that is refused many times a second is warned of once a second, with a
// count of the rest.
func TestTransport_Warnings_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := warnings{logger: hclog.New(&hclog.LoggerOptions{Output: &log})}
		for range 250 {
			w.warn("refused")
			time.Sleep(10 * time.Millisecond)
		}
		if got := strings.Count(log.String(), "refused"); got != 3 {
			t.Errorf("got %d lines in 2.5 seconds, want 3:\n%s", got, log.String())
		}
		if !strings.Contains(log.String(), "more_not_shown=99") {
			t.Errorf("the rest is not counted:\n%s", log.String())
		}
	})
}
