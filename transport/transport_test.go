package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// open starts a transport that admits everybody, and closes it after the test.
// Its Hello carries the name as id.
func open(t *testing.T, name string, network Network, address string, changes ...func(*Config)) *Transport {
	t.Helper()
	cfg := Config{
		Address: address, Network: network,
		Self:  func() Hello { return Hello{ID: name, ClusterID: "c1"} },
		Admit: func(string, Hello) error { return nil },
	}
	for _, change := range changes {
		change(&cfg)
	}
	tr, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return tr
}

// soon is a context that ends before the test runs out of time.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// openPair starts the transports n1 and n2 on a network in memory.
func openPair(t *testing.T, changes ...func(*Config)) (m *Memory, n1, n2 *Transport) {
	t.Helper()
	m = NewMemory()
	n1 = open(t, "n1", m.Host("n1:1"), "n1:1", changes...)
	n2 = open(t, "n2", m.Host("n2:1"), "n2:1", changes...)
	return m, n1, n2
}

// One address serves HTTP clients, Raft and probes, all at the same time, over
// real TCP.
func TestTransport_OneAddress_TCP(t *testing.T) {
	n1 := open(t, "n1", TCP(), "127.0.0.1:0")
	n2 := open(t, "n2", TCP(), "127.0.0.1:0")
	checkOneAddress(t, TCP(), n1, n2)
}

// The same over the network in memory, inside a bubble: nothing in transport,
// net/http or raft.NetworkTransport is left waiting afterwards.
func TestTransport_OneAddress_Memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n1, n2 := openPair(t)
		checkOneAddress(t, m.Host("client"), n1, n2)
	})
}

func checkOneAddress(t *testing.T, client Network, n1, n2 *Transport) {
	serveHTTP(t, n2)
	for range 2 { // the second time, everything is connected already
		checkHTTP(t, client, n2.Addr().String())
	}
	checkAppendEntries(t, n1, n2)

	p, err := n1.Probe(soon(t), n2.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got, err := p.Ask(soon(t)); err != nil || got.ID != "n2" {
		t.Errorf("Ask: got %+v, %v, want the Hello of n2", got, err)
	}
}

// serveHTTP answers every request with its own body.
func serveHTTP(t *testing.T, n *Transport) {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(n.HTTP()) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: got %v, want %v", err, http.ErrServerClosed)
		}
	})
}

func checkHTTP(t *testing.T, network Network, address string) {
	t.Helper()
	dial := func(ctx context.Context, _, address string) (net.Conn, error) { return network.Dial(ctx, address) }
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	defer client.CloseIdleConnections()
	sent := strings.Repeat("lease", 50_000) // more than a window
	request, err := http.NewRequestWithContext(soon(t), "POST", "http://"+address+"/", strings.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); err != nil || string(got) != sent {
		t.Errorf("HTTP answer: got %d bytes, %v, want the %d that were sent", len(got), err, len(sent))
	}
}

// checkAppendEntries sends an AppendEntries from one to the other, each with a
// raft.NetworkTransport of its own.
func checkAppendEntries(t *testing.T, from, to *Transport) {
	t.Helper()
	sender, receiver := newRaft(t, from), newRaft(t, to)
	want := raft.AppendEntriesResponse{Term: 7, LastLog: 9, Success: true}
	request := raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, Addr: []byte(from.Addr().String())},
		Term:      7, PrevLogEntry: 8, PrevLogTerm: 7,
		Entries: []*raft.Log{{Index: 9, Term: 7, Data: bytes.Repeat([]byte("x"), 100_000)}},
	}
	go func() {
		select {
		case rpc := <-receiver.Consumer():
			got := rpc.Command.(*raft.AppendEntriesRequest)
			if !bytes.Equal(got.Entries[0].Data, request.Entries[0].Data) {
				rpc.Respond(nil, errors.New("the entry came out changed"))
				return
			}
			rpc.Respond(&want, nil)
		case <-t.Context().Done():
		}
	}()
	var got raft.AppendEntriesResponse
	if err := sender.AppendEntries("n2", receiver.LocalAddr(), &request, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("AppendEntries: got %+v, want %+v", got, want)
	}
}

func newRaft(t *testing.T, n *Transport) *raft.NetworkTransport {
	r := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: n.Raft(), MaxPool: 2, Timeout: 10 * time.Second, Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(func() {
		r.CloseStreams()
		r.Close()
	})
	return r
}

// Raft is told the advertised address, HTTP the one that is bound.
func TestTransport_Addr(t *testing.T) {
	advertised := func(c *Config) { c.Address, c.Bind = "n1.example:8001", "127.0.0.1:0" }
	n := open(t, "n1", TCP(), "", advertised)
	if got := n.Raft().Addr().String(); got != "n1.example:8001" {
		t.Errorf("Raft().Addr(): got %s, want the advertised address", got)
	}
	if got := n.Addr().String(); got != "n1.example:8001" {
		t.Errorf("Addr(): got %s, want the advertised address", got)
	}
	if got := n.HTTP().Addr().String(); !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("HTTP().Addr(): got %s, want the bound address", got)
	}
}

// net/http can end its half of a connection and leave the client the other.
func TestTransport_HTTP_CloseWrite(t *testing.T) {
	n := open(t, "n1", TCP(), "127.0.0.1:0")
	client, err := TCP().Dial(soon(t), n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	send(t, client, "G")
	server, err := n.HTTP().Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	send(t, client, "ET")
	wantEnd(t, client, io.EOF)
	if got, err := io.ReadAll(server); err != nil || string(got) != "GET" {
		t.Errorf("got %q, %v", got, err)
	}
	server.Close()
}

// A second node on the same address is told which address is taken.
func TestOpen_AddressInUse(t *testing.T) {
	m := NewMemory()
	networks := map[string]struct {
		network Network
		address string
	}{
		"tcp":    {TCP(), "127.0.0.1:0"},
		"memory": {m.Host("n1:1"), "n1:1"},
	}
	for name, test := range networks {
		t.Run(name, func(t *testing.T) {
			address := open(t, "n1", test.network, test.address).Addr().String()
			_, err := Open(Config{Address: address, Network: test.network})
			if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "cannot listen on "+address) {
				t.Errorf("got error %v, want one that names %s", err, address)
			}
		})
	}
}

// Close ends what was accepted, what was dialled and what is still being
// decided, for both sides, and leaves no goroutine behind.
func TestTransport_Close_EndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n1, n2 := openPair(t)
		dialled, err := n1.Raft().Dial("n2:1", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := n2.Raft().Accept()
		if err != nil {
			t.Fatal(err)
		}
		probe, err := n2.Probe(soon(t), "n1:1")
		if err != nil {
			t.Fatal(err)
		}
		silent, err := m.Host("client").Dial(soon(t), "n1:1")
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 2)
		go func() { _, err := n1.Raft().Accept(); waiting <- err }()
		go func() { _, err := n1.HTTP().Accept(); waiting <- err }()
		synctest.Wait()

		for range 2 {
			if err := n1.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		for range 2 {
			if err := <-waiting; !errors.Is(err, net.ErrClosed) {
				t.Errorf("Accept while closing: got %v, want net.ErrClosed", err)
			}
		}
		wantEnd(t, dialled, net.ErrClosed)
		wantEnd(t, accepted, io.EOF)
		wantEnd(t, silent, io.EOF)
		if _, err := probe.Ask(soon(t)); err == nil {
			t.Error("Ask of a closed node: no error")
		}
		if _, err := n1.Raft().Dial("n2:1", time.Second); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Dial after Close: got %v, want net.ErrClosed", err)
		}
		if len(n1.conns) != 0 || n1.undecided.Len() != 0 {
			t.Errorf("after Close: %d connections and %d undecided are kept", len(n1.conns), n1.undecided.Len())
		}
	})
}

// Close does not wait for a dial that is held up by the network, it ends it.
func TestTransport_Close_EndsDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n1, _ := openPair(t)
		m.Cut("n1:1", "n2:1")
		failed := make(chan error)
		go func() { _, err := n1.Raft().Dial("n2:1", time.Hour); failed <- err }()
		synctest.Wait()
		start := time.Now()
		n1.Close()
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, want net.ErrClosed", err)
		}
		wantElapsed(t, start, 0)
	})
}

// A connection that its user closes is forgotten, or a long life would fill the
// memory.
func TestTransport_ForgetsClosedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n1, n2 := openPair(t)
		for range 3 {
			c, err := n1.Raft().Dial("n2:1", time.Second)
			if err != nil {
				t.Fatal(err)
			}
			p, err := n1.Probe(soon(t), "n2:1")
			if err != nil {
				t.Fatal(err)
			}
			accepted, err := n2.Raft().Accept()
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			p.Close()
			accepted.Close()
		}
		synctest.Wait()
		for _, n := range []*Transport{n1, n2} {
			n.mu.Lock()
			if len(n.conns) != 0 {
				t.Errorf("%d connections are kept after all were closed", len(n.conns))
			}
			n.mu.Unlock()
		}
	})
}

// wantEnd expects the connection to be over for its reader.
func wantEnd(t *testing.T, c net.Conn, want error) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, want) {
		t.Errorf("Read: got %d bytes, %v, want %v", n, err, want)
	}
	c.Close()
}

// wantElapsed expects exactly that much time of the bubble to have passed.
func wantElapsed(t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(start); got != want {
		t.Errorf("elapsed: got %v, want %v", got, want)
	}
}
