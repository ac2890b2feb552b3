package work

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// While a player is paused nothing comes and nothing goes; what was under way
// arrives after it. A pause within another ends with the longer one.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		near, far := net.Pipe()
		dial := g.through(func(context.Context, string, string) (net.Conn, error) { return near, nil })
		c, err := dial(t.Context(), "tcp", "n1:8000")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		defer far.Close()
		begun := time.Now()
		g.close()
		g.close()
		time.AfterFunc(time.Second, g.open)
		time.AfterFunc(3*time.Second, g.open)
		go far.Write([]byte("in"))
		buffer := make([]byte, 8)
		n, err := c.Read(buffer)
		if took := time.Since(begun); string(buffer[:n]) != "in" || err != nil || took != 3*time.Second {
			t.Errorf("read %q, %v after %v", buffer[:n], err, took)
		}
		g.close()
		time.AfterFunc(time.Second, g.open)
		written := make(chan error)
		go func() {
			_, err := c.Write([]byte("out"))
			written <- err
		}()
		n, err = far.Read(buffer)
		if took := time.Since(begun); string(buffer[:n]) != "out" || err != nil || took != 4*time.Second || <-written != nil {
			t.Errorf("%q arrived, %v after %v", buffer[:n], err, took)
		}
		g.close()
		time.AfterFunc(time.Second, g.open)
		if _, err := dial(t.Context(), "tcp", "n1:8000"); err != nil || time.Since(begun) != 5*time.Second {
			t.Errorf("dialled after %v, %v", time.Since(begun), err)
		}
	})
}
