package torture

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// machine watches how late this machine is: a busy one lets processes and disks wait,
// and what the nodes do then is not their doing.
type machine struct {
	path string

	mu   sync.Mutex    // guards what follows
	cpu  time.Duration // the longest that a timer was late
	disk time.Duration // the longest that a write took to reach the disk
}

func newMachine(folder string) *machine { return &machine{path: filepath.Join(folder, "pulse")} }

// watch runs until ctx ends.
func (m *machine) watch(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { m.watchTimer(ctx) })
	both.Go(func() { m.watchDisk(ctx) })
	both.Wait()
	_ = os.Remove(m.path)
}

func (m *machine) watchTimer(ctx context.Context) {
	const beat = 10 * time.Millisecond
	for last := time.Now(); sleep(ctx, beat); {
		now := time.Now()
		m.note(now.Sub(last)-beat, 0)
		last = now
	}
}

func (m *machine) watchDisk(ctx context.Context) {
	f, err := os.Create(m.path)
	if err != nil {
		return // then so it is with the nodes
	}
	defer f.Close()
	for sleep(ctx, 250*time.Millisecond) {
		begun := time.Now()
		if _, err := f.WriteAt([]byte{1}, 0); err != nil || f.Sync() != nil {
			return
		}
		m.note(0, time.Since(begun))
	}
}

func (m *machine) note(cpu, disk time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cpu, m.disk = max(m.cpu, cpu), max(m.disk, disk)
}

// late is the longest that a process, and the disk, were waited for.
func (m *machine) late() (cpu, disk time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cpu, m.disk
}
