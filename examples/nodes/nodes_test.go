package nodes_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"leasehold/client"
	"leasehold/examples/nodes"
)

// TestStart_Answers ensures that a cluster grants a lease as soon as Start has
// returned, and that after Close neither its ports nor its folder are left.
func TestStart_Answers(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	cluster, err := nodes.Start(3)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	servers := cluster.Servers()
	if len(slices.Compact(slices.Sorted(slices.Values(servers)))) != 3 {
		t.Errorf("Servers() = %v, want 3 addresses", servers)
	}
	for _, server := range servers { // each of them finds the leader
		c, err := client.New(client.Config{Servers: []string{server}})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := c.Acquire(t.Context(), "test", client.AcquireOptions{TTL: time.Minute})
		if err != nil || lease.Token() == 0 {
			t.Errorf("Acquire at %s = %v, %v", server, lease, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(temporary, "*", "n*")); len(left) != 3 {
		t.Errorf("the folders of the nodes are %v, want 3", left)
	}
	for range 2 {
		if err := cluster.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
	for _, server := range servers {
		if connection, err := net.Dial("tcp", server); err == nil {
			connection.Close()
			t.Errorf("%s is still open", server)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(temporary, "*")); len(left) > 0 {
		t.Errorf("after Close there is still %v", left)
	}
}

// TestStart_Fails ensures that a cluster that cannot start says why.
func TestStart_Fails(t *testing.T) {
	if _, err := nodes.Start(0); err == nil {
		t.Error("a cluster of 0 nodes started")
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	if _, err := nodes.Start(1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Start in %s = %v, want that it does not exist", os.TempDir(), err)
	}
}
