package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Raft's dial waits for a node that comes up within its timeout, and otherwise
// says in the end what was wrong.
func TestTransport_RaftDial_WaitsForNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		n1 := open(t, "n1", m.Host("n1:1"), "n1:1")
		start := time.Now()
		if _, err := n1.Raft().Dial("n2:1", time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want connection refused", err)
		}
		wantElapsed(t, start, time.Second)

		go func() {
			time.Sleep(10*dialPause + time.Millisecond)
			open(t, "n2", m.Host("n2:1"), "n2:1")
		}()
		start = time.Now()
		c, err := n1.Raft().Dial("n2:1", 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		wantElapsed(t, start, 11*dialPause)
	})
}

// A refused peer is told why and by whom, and the refusing node was shown who
// asked for what.
func TestTransport_Refusal_Arrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []string
		m := NewMemory()
		open(t, "n1", m.Host("n1:1"), "n1:1", func(c *Config) {
			c.Admit = func(channel string, from Hello) error {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, channel+" "+from.ID)
				return errors.New("another cluster")
			}
		})
		n2 := open(t, "n2", m.Host("n2:1"), "n2:1")

		_, raftErr := n2.Raft().Dial("n1:1", dialPause/2) // too short for a second try
		_, probeErr := n2.Probe(soon(t), "n1:1")
		for _, err := range []error{raftErr, probeErr} {
			var refused *RefusedError
			if !errors.As(err, &refused) {
				t.Fatalf("got %v, want a *RefusedError", err)
			}
			if refused.Text != "another cluster" || refused.From.ID != "n1" || refused.Address != "n1:1" {
				t.Errorf("got %+v", refused)
			}
		}
		if got, want := fmt.Sprint(asked), "[raft n2 probe n2]"; got != want {
			t.Errorf("Admit was asked %s, want %s", got, want)
		}
	})
}

// Refusals over real TCP arrive too: the receiver reads all that was sent before
// it closes, or the peer's system would throw the answer away.
func TestTransport_Refusal_Arrives_TCP(t *testing.T) {
	refuse := func(c *Config) { c.Admit = func(string, Hello) error { return errors.New("another cluster") } }
	n1 := open(t, "n1", TCP(), "127.0.0.1:0", refuse)
	n2 := open(t, "n2", TCP(), "127.0.0.1:0")
	var refused *RefusedError
	if _, err := n2.Probe(soon(t), n1.Addr().String()); !errors.As(err, &refused) || refused.Text != "another cluster" {
		t.Errorf("got %v, want a *RefusedError", err)
	}
}

// A peer of another version is told, in words, whichever side it is on.
func TestTransport_OtherVersion(t *testing.T) {
	other := frame{version: 9, kind: 77, body: []byte("not even JSON")}
	t.Run("dials", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, _, _ := openPair(t)
			c := connect(t, m, "n1:1")
			send(t, c, string(other.bytes()))
			answer, err := readFrame(c)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := answer.answered("n1:1"); !strings.Contains(fmt.Sprint(err), "the other node speaks version 9") {
				t.Errorf("answer: got %v", err)
			}
			wantEnd(t, c, io.EOF)
		})
	})
	t.Run("is dialled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, n1, _ := openPair(t)
			answerWith(t, m, "other:1", string(other.bytes()))
			_, err := n1.Probe(soon(t), "other:1")
			if !strings.Contains(fmt.Sprint(err), "the other node speaks version 9") {
				t.Errorf("got %v", err)
			}
		})
	})
}

// answerWith listens at an address, answers one connection with some bytes and
// keeps it open until the test is over.
func answerWith(t *testing.T, m *Memory, at, answer string) {
	l, err := m.Host(at).Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		if c, err := l.Accept(); err == nil {
			io.WriteString(c, answer)
			<-t.Context().Done()
			c.Close()
		}
	}()
}

// Dialling what is no node ends in time and in an error that says what is wrong.
func TestTransport_Dial_NoNode(t *testing.T) {
	tests := map[string]struct {
		answer string
		want   string
		after  time.Duration
	}{
		"another server": {"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak as a leasehold node", 0},
		"no answer":      {"", "context deadline exceeded", 3 * time.Second},
		"half an answer": {magic + "\x01\x01\x00\x05", "context deadline exceeded", 3 * time.Second},
		"no hello":       {magic + "\x01\x01\x00\x01{", "hello is not readable", 0},
		"odd kind":       {magic + "\x01\x05\x00\x01{", "does not speak as a leasehold node", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, n1, _ := openPair(t)
				answerWith(t, m, "other:1", test.answer)
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				_, err := n1.Probe(ctx, "other:1")
				if got := fmt.Sprint(err); !strings.Contains(got, test.want) || !strings.Contains(got, "other:1") {
					t.Errorf("got %v, want it to name the address and say %q", err, test.want)
				}
				wantElapsed(t, start, test.after)
			})
		})
	}
	t.Run("hangs up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, n1, _ := openPair(t)
			l := listen(t, m.Host("other:1"), "other:1")
			go func() {
				if c, err := l.Accept(); err == nil {
					readFrame(c)
					c.Close()
				}
			}()
			if _, err := n1.Probe(soon(t), "other:1"); !strings.Contains(fmt.Sprint(err), "closed the connection without an answer") {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("nobody", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, n1, _ := openPair(t)
			if _, err := n1.Probe(context.Background(), "nobody:1"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("got %v, want connection refused", err)
			}
		})
	})
}
