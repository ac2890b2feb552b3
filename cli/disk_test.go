//go:build linux

package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/httpapi/wire"
)

// mount makes a small file system in memory. Only root may; elsewhere the test
// is skipped, and says so.
func mount(t *testing.T, size string) string {
	t.Helper()
	path := t.TempDir()
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("NOT TESTED: a full or read-only disk, since nothing can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(path, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return path
}

func remount(t *testing.T, path string, flags uintptr, data string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", path, "tmpfs", syscall.MS_REMOUNT|flags, data); err != nil {
		t.Fatal(err)
	}
}

// fill leaves no room on the disk, and gives a function that makes room again.
func fill(t *testing.T, disk string) (free func()) {
	t.Helper()
	name := filepath.Join(disk, "other")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// A disk that cannot be written to is refused, be the folder fresh or not, and
// serves again when it can.
func TestServe_ReadOnlyDisk_Refuses(t *testing.T) {
	disk := mount(t, "8m")
	u := useOnce(t, 3)
	path := filepath.Join(disk, "data")
	if err := os.CopyFS(path, os.DirFS(u.path)); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(disk, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	before := contents(t, path)
	remount(t, disk, syscall.MS_RDONLY, "")
	begin(t, path, u.address).refused(t, exitError, "data folder "+path+": raft.db cannot be opened: read-only file system")
	begin(t, empty, u.address).refused(t, exitError, "data folder "+empty+": raft.db cannot be created: read-only file system")
	absent := filepath.Join(disk, "absent")
	begin(t, absent, u.address).refused(t, exitError, "data folder "+absent+": it cannot be created: read-only file system")
	remount(t, disk, 0, "")
	before.unchanged(t, path)
	u.serves(t, path)
}

// The same for a disk without room.
func TestServe_FullDisk_Refuses(t *testing.T) {
	disk := mount(t, "8m")
	u := useOnce(t, 3)
	path := filepath.Join(disk, "data")
	if err := os.CopyFS(path, os.DirFS(u.path)); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(disk, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	free := fill(t, disk)
	s := begin(t, path, u.address)
	s.refused(t, exitError, "no space left on device")
	if !strings.Contains(s.stderr.String(), "data folder "+path+": ") {
		t.Errorf("it does not name the folder %s", path)
	}
	begin(t, empty, u.address).refused(t, exitError, "data folder "+empty+": raft.db cannot be created: no space left on device")
	if left := contents(t, empty); len(left) != 0 {
		t.Errorf("it leaves %d files behind", len(left))
	}
	free()
	sameState(t, path, u.path)
	u.serves(t, path)
	start(t, empty, u.address).stop(t)
}

// When the disk of a leader fills up, it answers what it can and says why it
// cannot do the rest, and every grant that it has answered is there when there
// is room again and it has been restarted.
func TestServe_DiskFillsUp_LosesNothing(t *testing.T) {
	disk := mount(t, "3m")
	u := used{path: filepath.Join(disk, "data"), address: dead(t)}
	s := start(t, u.path, u.address)
	value := strings.Repeat("v", 4000)
	var refusal result
	free := func() {}
	for i := range 3000 {
		if i == 20 {
			free = fill(t, disk)
		}
		r := run(t, u.address, "acquire", "--holder", "w1", "--ttl", "1h", "--value", value, "--timeout", "3s", "--json", "jobs/"+number(i))
		if r.code != exitDone {
			refusal = r
			break
		}
		var g wire.Grant
		if err := json.Unmarshal([]byte(r.stdout), &g); err != nil {
			t.Fatal(err)
		}
		u.grants = append(u.grants, g)
	}
	if refusal.code == exitDone {
		t.Fatal("the disk was never full; this test shows nothing")
	}
	t.Logf("%d grants, then exit code %d: %s", len(u.grants), refusal.code, refusal.stderr)
	select {
	case <-s.ended:
		s.refused(t, exitError, "no space left on device")
	case <-time.After(patience):
		t.Error("it goes on")
		s.cancel()
		s.wait(t)
	}
	s.plain(t)
	t.Logf("the node says:\n%s", s.stderr.String())
	free()
	u.serves(t, u.path)
}
