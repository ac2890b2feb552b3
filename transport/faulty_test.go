package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"leasehold/faults"
	"leasehold/faults/lab"
)

// labPair is two nodes of a lab, and a Raft connection from n1 to n2.
type labPair struct {
	t              *testing.T
	n1, n2         *Transport
	board1, board2 *lab.Board
	near, far      net.Conn // its ends at n1 and n2
}

// openLab makes a labPair over a network in memory, or over TCP without one.
func openLab(t *testing.T, m *Memory) *labPair {
	t.Helper()
	p := &labPair{t: t, board1: lab.New(nil, 1), board2: lab.New(nil, 2)}
	t.Cleanup(func() { p.board1.Close(); p.board2.Close() })
	node := func(name string, b *lab.Board) *Transport {
		if m == nil {
			return open(t, name, TCP(), "127.0.0.1:0", func(c *Config) { c.Lab = b })
		}
		return open(t, name, m.Host(name+":1"), name+":1", func(c *Config) { c.Lab = b })
	}
	p.n1, p.n2 = node("n1", p.board1), node("n2", p.board2)
	p.near, p.far = p.dial()
	return p
}

func (p *labPair) dial() (near, far net.Conn) {
	p.t.Helper()
	near, err := p.n1.Raft().Dial(raft.ServerAddress(p.n2.Addr().String()), 20*time.Second)
	if err != nil {
		p.t.Fatal(err)
	}
	if far, err = p.n2.Raft().Accept(); err != nil {
		p.t.Fatal(err)
	}
	return near, far
}

// begin puts a fault on a board. One without a duration lasts a minute.
func begin(t *testing.T, b *lab.Board, f faults.Fault) *lab.Active {
	t.Helper()
	if f.DurationMillis == 0 {
		f.DurationMillis = 60_000
	}
	a, err := b.Begin(f)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// wantNothing expects the connection to yield nothing for so long.
func wantNothing(t *testing.T, c net.Conn, d time.Duration) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(d))
	defer c.SetReadDeadline(time.Time{})
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: got %d bytes, %v, want silence", n, err)
	}
}

// Without a lab nothing lies between a connection and the network.
func TestFaults_WithoutLab_NothingIsWrapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n1, n2 := openPair(t)
		near, err := n1.Raft().Dial(raft.ServerAddress(n2.Addr().String()), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if c := near.(*conn); c.faulty != nil || n1.links != nil {
			t.Errorf("the connection is a %T over a %T", c, c.Conn)
		}
	})
}

// A cut stalls what either node sends over a connection that is there. When it heals
// by itself, all of it arrives, in order.
func TestFaults_Cut_StallsAndHealsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openLab(t, NewMemory())
		send(t, p.near, "be")
		wantText(t, p.far, "be")
		start := time.Now()
		begin(t, p.board1, faults.Fault{Kind: faults.Cut, Peers: []string{"n2"}, DurationMillis: 5000})
		send(t, p.near, "fore ")
		send(t, p.near, "and after")
		send(t, p.far, "answer")
		wantNothing(t, p.far, time.Second)
		wantNothing(t, p.near, time.Second)
		wantText(t, p.far, "fore and after")
		wantText(t, p.near, "answer")
		wantElapsed(t, start, 5*time.Second)
	})
}

// A cut in one direction leaves the other alone, whichever node has the fault.
func TestFaults_Cut_OneDirection(t *testing.T) {
	for direction, stalled := range map[faults.Direction]int{faults.Out: 0, faults.In: 1} {
		synctest.Test(t, func(t *testing.T) {
			p := openLab(t, NewMemory())
			start := time.Now()
			begin(t, p.board1, faults.Fault{Kind: faults.Cut, Direction: direction, DurationMillis: 3000})
			ends := []net.Conn{p.near, p.far}
			from, to := ends[stalled], ends[1-stalled]
			send(t, from, "stalls")
			send(t, to, "flows")
			wantText(t, from, "flows")
			wantElapsed(t, start, 0)
			wantText(t, to, "stalls")
			wantElapsed(t, start, 3*time.Second)
		})
	}
}

// A fault for other peers touches nothing here, and one for clients no node.
func TestFaults_OtherPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openLab(t, NewMemory())
		start := time.Now()
		begin(t, p.board1, faults.Fault{Kind: faults.Cut, Peers: []string{"n3", faults.Clients}})
		begin(t, p.board2, faults.Fault{Kind: faults.Delay, DelayMillis: 1000, Peers: []string{"n2"}})
		send(t, p.near, "x")
		wantText(t, p.far, "x")
		wantElapsed(t, start, 0)
	})
}

// To heal ends the fault at once; of several cuts the last one counts.
func TestFaults_Cut_HealedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openLab(t, NewMemory())
		start := time.Now()
		first := begin(t, p.board1, faults.Fault{Kind: faults.Cut})
		begin(t, p.board2, faults.Fault{Kind: faults.Cut, Direction: faults.In, DurationMillis: 2000})
		begin(t, p.board1, faults.Fault{Kind: faults.Cut, DurationMillis: 4000})
		send(t, p.near, "x")
		time.Sleep(time.Second)
		p.board1.Heal(first.ID)
		wantText(t, p.far, "x")
		wantElapsed(t, start, 4*time.Second)
		begin(t, p.board1, faults.Fault{Kind: faults.Cut})
		send(t, p.near, "y")
		time.AfterFunc(time.Second, func() { p.board1.HealAll() })
		wantText(t, p.far, "y")
		wantElapsed(t, start, 5*time.Second)
	})
}

// Behind a cut a writer may go on until the buffer is full. Then it waits, as long as
// its deadline allows, and has sent all when the buffer has been emptied.
func TestFaults_Cut_WriterMeetsFullBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openLab(t, NewMemory())
		begin(t, p.board1, faults.Fault{Kind: faults.Cut, DurationMillis: 10_000})
		p.near.SetWriteDeadline(time.Now().Add(3 * time.Second))
		start := time.Now()
		n, err := p.near.Write(make([]byte, 2*maxHeld))
		if n != maxHeld || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write: got %d, %v, want %d bytes and a timeout", n, err, maxHeld)
		}
		wantElapsed(t, start, 3*time.Second)
		p.near.SetWriteDeadline(time.Time{})
		written := make(chan error, 1)
		go func() {
			_, err := p.near.Write(make([]byte, 2*maxHeld))
			written <- err
		}()
		if _, err := io.ReadFull(p.far, make([]byte, 3*maxHeld)); err != nil {
			t.Error(err)
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
		wantElapsed(t, start, 10*time.Second)
	})
}

// What was written before a Close arrives after the fault, and so does the end. The
// connection is not usable meanwhile, and can be closed only once.
func TestFaults_Close_DuringCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openLab(t, NewMemory())
		start := time.Now()
		begin(t, p.board1, faults.Fault{Kind: faults.Cut, DurationMillis: 2000})
		send(t, p.near, "last words")
		if err := p.near.Close(); err != nil {
			t.Error(err)
		}
		if _, err := p.near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after Close: %v", err)
		}
		if err := p.near.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a second Close: %v", err)
		}
		wantText(t, p.far, "last words")
		wantElapsed(t, start, 2*time.Second)
		wantEnd(t, p.far, io.EOF)
		near, far := p.dial()
		begin(t, p.board1, faults.Fault{Kind: faults.Cut, DurationMillis: 2000})
		near.Close() // with nothing to say before
		wantNothing(t, far, time.Second)
		wantEnd(t, far, io.EOF)
		wantElapsed(t, start, 4*time.Second)
	})
}

// Close frees at once who reads or writes at that moment, whichever direction has the
// fault.
func TestFaults_Close_FreesReaderAndWriter(t *testing.T) {
	for _, m := range []bool{true, false} {
		for _, direction := range []faults.Direction{faults.Out, faults.In, faults.Both} {
			check := func(t *testing.T, p *labPair) {
				ended := make(chan error, 2)
				go func() { _, err := p.near.Read(make([]byte, 1)); ended <- err }()
				begin(t, p.board1, faults.Fault{Kind: faults.Cut, Direction: direction})
				writing := make(chan struct{})
				go func() {
					close(writing)
					_, err := p.near.Write(make([]byte, 64<<20)) // more than the network takes, too
					ended <- err
				}()
				<-writing
				start := time.Now()
				if m {
					synctest.Wait()
				}
				p.near.Close()
				for range 2 {
					select {
					case err := <-ended:
						if !errors.Is(err, net.ErrClosed) {
							t.Errorf("cut %s: got %v, want %v", direction, err, net.ErrClosed)
						}
					case <-time.After(5 * time.Second):
						t.Errorf("cut %s: somebody is stuck", direction)
					}
				}
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("cut %s: it took %v", direction, took)
				}
			}
			if m {
				synctest.Test(t, func(t *testing.T) { check(t, openLab(t, NewMemory())) })
			} else {
				check(t, openLab(t, nil))
			}
		}
	}
}

// A transport that closes under a fault leaves nothing behind, and does not wait for
// its end.
func TestFaults_TransportCloses_DuringCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openLab(t, NewMemory())
		start := time.Now()
		begin(t, p.board1, faults.Fault{Kind: faults.Cut})
		send(t, p.near, "x")
		send(t, p.far, "y")
		wantNothing(t, p.near, time.Second) // and so it reads by way of its queue
		var dialled sync.WaitGroup
		dialled.Go(func() {
			if _, err := p.n1.Raft().Dial(raft.ServerAddress(p.n2.Addr().String()), time.Minute); err == nil {
				t.Error("a connection was made over a cut")
			}
		})
		dialled.Go(func() { // stalls at n1
			if c, err := p.n2.Raft().Dial(raft.ServerAddress(p.n1.Addr().String()), 10*time.Second); err == nil {
				t.Errorf("a connection was made over a cut: %v", c)
			}
		})
		time.Sleep(time.Second)
		if err := p.n1.Close(); err != nil {
			t.Error(err)
		}
		wantElapsed(t, start, 2*time.Second)
		dialled.Wait()
	})
}

// New connections, those for probes and of clients too, stall as long as a cut lasts,
// be it of the one who dials or of the one who is dialled, in either direction.
func TestFaults_Cut_StallsNewConnections(t *testing.T) {
	for _, direction := range []faults.Direction{faults.Out, faults.In} {
		for _, at := range []string{"n1", "n2"} {
			synctest.Test(t, func(t *testing.T) {
				m := NewMemory()
				p := openLab(t, m)
				board := map[string]*lab.Board{"n1": p.board1, "n2": p.board2}[at]
				start := time.Now()
				begin(t, board, faults.Fault{Kind: faults.Cut, Direction: direction, DurationMillis: 7000})
				begin(t, p.board2, faults.Fault{Kind: faults.Cut, Peers: []string{faults.Clients}, DurationMillis: 7000})
				var all sync.WaitGroup
				all.Go(func() { p.dial() })
				all.Go(func() {
					probe, err := p.n1.Probe(soon(t), p.n2.Addr().String())
					if err != nil {
						t.Error(err)
						return
					}
					probe.Close()
				})
				serveHTTP(t, p.n2)
				all.Go(func() { checkHTTP(t, m.Host("client"), p.n2.Addr().String()) })
				time.Sleep(6999 * time.Millisecond)
				synctest.Wait()
				ended := make(chan struct{})
				go func() { all.Wait(); close(ended) }()
				<-ended
				wantElapsed(t, start, 7*time.Second)
			})
		}
	}
}

// A jam keeps back what is written to the connections that there are, and delivers it
// at once at its end. A connection that is made meanwhile overtakes.
func TestFaults_Jam_IsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openLab(t, NewMemory())
		send(t, p.near, "on time")
		wantText(t, p.far, "on time")
		start := time.Now()
		time.Sleep(time.Millisecond)
		begin(t, p.board1, faults.Fault{Kind: faults.Jam, Peers: []string{"n2"}, DurationMillis: 5000})
		send(t, p.near, "old")
		time.Sleep(time.Second)
		near, far := p.dial()
		send(t, near, "new")
		wantText(t, far, "new")
		wantElapsed(t, start, 1001*time.Millisecond)
		p.near.Close() // as Raft does with one that has timed out
		wantText(t, p.far, "old")
		wantEnd(t, p.far, io.EOF)
		wantElapsed(t, start, 5001*time.Millisecond)
	})
}

// A delay holds up each packet for so long, and not the next one for longer. Those of
// both nodes, and several of one, add up.
func TestFaults_Delay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openLab(t, NewMemory())
		begin(t, p.board1, faults.Fault{Kind: faults.Delay, DelayMillis: 300, Direction: faults.Out})
		begin(t, p.board1, faults.Fault{Kind: faults.Delay, DelayMillis: 100})
		begin(t, p.board2, faults.Fault{Kind: faults.Delay, DelayMillis: 50, Direction: faults.In})
		start := time.Now()
		for _, word := range []string{"a", "b", "c"} {
			send(t, p.near, word)
			time.Sleep(100 * time.Millisecond)
		}
		for i, word := range []string{"a", "b", "c"} {
			wantText(t, p.far, word)
			wantElapsed(t, start, 450*time.Millisecond+time.Duration(i)*100*time.Millisecond)
		}
		start = time.Now()
		send(t, p.far, "back")
		wantText(t, p.near, "back")
		wantElapsed(t, start, 100*time.Millisecond)
		start = time.Now()
		p.dial() // there and back for the handshake, which n2 has no part in, then for the preamble and its answer
		wantElapsed(t, start, 500*time.Millisecond+550*time.Millisecond)
		send(t, p.near, "x")
		p.board1.HealAll()
		start = time.Now()
		wantText(t, p.far, "x")
		wantElapsed(t, start, 50*time.Millisecond)
	})
}

// Jitter and loss make packets late by various times, and never change their order.
func TestFaults_JitterAndLoss_KeepOrder(t *testing.T) {
	for _, f := range []faults.Fault{
		{Kind: faults.Delay, DelayMillis: 10, JitterMillis: 400},
		{Kind: faults.Loss, Percent: 50},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := openLab(t, NewMemory())
			begin(t, p.board1, f)
			var sent, got bytes.Buffer
			took := make(map[time.Duration]bool)
			go func() {
				for i := range 200 {
					word := strings.Repeat(string(rune('a'+i%26)), i)
					sent.WriteString(word)
					send(t, p.near, word)
					time.Sleep(7 * time.Millisecond)
				}
				p.near.Close()
			}()
			last, b := time.Now(), make([]byte, 1<<10)
			for {
				n, err := p.far.Read(b)
				got.Write(b[:n])
				took[time.Since(last)] = true
				last = time.Now()
				if err != nil {
					break
				}
			}
			if got.String() != sent.String() {
				t.Errorf("%v: %d bytes came, not in order or not the %d that were sent", f, got.Len(), sent.Len())
			}
			if len(took) < 5 {
				t.Errorf("%v: only %d different gaps; nothing was late", f, len(took))
			}
		})
	}
}

// With all packets lost nothing arrives until the fault ends; with half of them, what
// is lost comes some retransmissions later.
func TestFaults_Loss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openLab(t, NewMemory())
		start := time.Now()
		begin(t, p.board1, faults.Fault{Kind: faults.Loss, Percent: 100, DurationMillis: 9000})
		send(t, p.near, "x")
		wantText(t, p.far, "x")
		wantElapsed(t, start, 9*time.Second)
		begin(t, p.board1, faults.Fault{Kind: faults.Loss, Percent: 50, DurationMillis: 600_000})
		seen := make(map[time.Duration]int)
		for range 400 {
			start = time.Now()
			send(t, p.near, "x")
			wantText(t, p.far, "x")
			seen[time.Since(start)]++
		}
		for late, share := range map[time.Duration]int{0: 200, retransmission: 100, 3 * retransmission: 50} {
			if n := seen[late]; n < share/2 || n > share*2 {
				t.Errorf("%d of 400 packets were late by %v, want about %d: %v", n, late, share, seen)
			}
		}
	})
}

// Whatever the faults, on a network in memory and on TCP: what is read is what was
// written, of both directions, whole and in order.
func TestFaults_Random(t *testing.T) {
	check := func(t *testing.T, p *labPair, unit time.Duration) {
		random := rand.New(rand.NewPCG(7, 7))
		const size = 2 << 20
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		var all sync.WaitGroup
		turns := make(chan struct{}, 4) // to write, so that not all is sent before anything goes wrong
		pour := func(c net.Conn, seed uint64) {
			random := rand.New(rand.NewPCG(seed, 0))
			for rest := data; len(rest) > 0; {
				<-turns
				n := min(len(rest), 1+random.IntN(64<<10))
				if _, err := c.Write(rest[:n]); err != nil {
					t.Error(err)
					return
				}
				rest = rest[n:]
			}
			c.Close()
		}
		drain := func(c net.Conn) {
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, data) {
				t.Errorf("got %d bytes, %v, want the %d that were written", len(got), err, len(data))
			}
		}
		near, far := p.dial()
		all.Go(func() { pour(p.near, 1) })
		all.Go(func() { drain(p.far) })
		all.Go(func() { pour(far, 2) })
		all.Go(func() { drain(near) })
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		ms := func() int64 { return 1 + random.Int64N(int64(20*unit/time.Millisecond)) }
		kinds := []faults.Kind{faults.Cut, faults.Jam, faults.Delay, faults.Loss}
		for begun := 0; ; begun++ {
			f := faults.Fault{
				Kind:           kinds[random.IntN(len(kinds))],
				Direction:      []faults.Direction{faults.In, faults.Out, faults.Both}[random.IntN(3)],
				DurationMillis: ms(),
			}
			switch f.Kind {
			case faults.Delay:
				f.DelayMillis, f.JitterMillis = ms(), ms()
			case faults.Loss:
				f.Percent = 1 + random.Int64N(100)
			}
			select {
			case <-done:
				if begun < 20 {
					t.Errorf("only %d faults had begun; this test shows nothing", begun)
				}
				return
			case <-time.After(time.Duration(random.Int64N(int64(unit)))):
			}
			for range 4 {
				select {
				case turns <- struct{}{}:
				default:
				}
			}
			begin(t, []*lab.Board{p.board1, p.board2}[random.IntN(2)], f)
			if random.IntN(4) == 0 {
				p.board1.HealAll()
			}
		}
	}
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { check(t, openLab(t, NewMemory()), 20*time.Millisecond) })
	})
	t.Run("tcp", func(t *testing.T) { check(t, openLab(t, nil), 2*time.Millisecond) })
}

// Over TCP a cut stalls both directions, deadlines hold, the rest arrives.
func TestFaults_Cut_TCP(t *testing.T) {
	p := openLab(t, nil)
	send(t, p.near, "before")
	wantText(t, p.far, "before")
	cut := begin(t, p.board1, faults.Fault{Kind: faults.Cut})
	send(t, p.near, "out")
	send(t, p.far, "in")
	wantNothing(t, p.far, 100*time.Millisecond)
	wantNothing(t, p.near, 100*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.n1.Probe(ctx, p.n2.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a probe over a cut: %v", err)
	}
	p.board1.Heal(cut.ID)
	wantText(t, p.far, "out")
	wantText(t, p.near, "in")
	p.near.Close()
	wantEnd(t, p.far, io.EOF)
}

// A node asks the kernel whether a client is gone, but not while a fault would keep
// the news from it.
func TestFaults_SyscallConn_TCP(t *testing.T) {
	p := openLab(t, nil)
	raw, err := p.near.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	asked := func() (yes bool) {
		if err := raw.Control(func(uintptr) { yes = true }); err != nil {
			t.Error(err)
		}
		return yes
	}
	before := asked()
	cut := begin(t, p.board1, faults.Fault{Kind: faults.Cut})
	during := asked()
	p.board1.Heal(cut.ID)
	if after := asked(); !before || during || !after {
		t.Errorf("the kernel was asked before, during and after the cut: %v %v %v, want it not during", before, during, after)
	}
}
