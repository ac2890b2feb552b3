package cli

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/httpapi/wire"
)

// The command runs again with a higher token after its lease was taken away, and
// after it has exited 0; with another code that is the end. Who observes sees each
// leader, its value, and the vacancies.
func TestElect_CampaignsAgain(t *testing.T) {
	s := alone(t)
	watcher := launch(t, s.address, "elect", "--observe", "jobs/a")
	if line := watcher.line(t); !strings.HasSuffix(line, "nobody") {
		t.Errorf("at first the watcher sees %q", line)
	}
	dir := t.TempDir()
	// The first term lasts until it is lost, the second one exits 0, the third 9.
	const script = `echo $LEASEHOLD_TOKEN; touch $0/$LEASEHOLD_TOKEN; case $(ls $0 | wc -l) in 1) exec sleep 100;; 2) exit 0;; *) exit 9;; esac`
	p := launch(t, s.address, "elect", "--ttl", "2s", "--value", "here:1", "--holder", "h1", "jobs/a", "--", "sh", "-c", script, dir)
	first, _ := strconv.ParseUint(p.line(t), 10, 64)
	if line, want := watcher.line(t), "h1  token "+strconv.FormatUint(first, 10)+"  here:1"; !strings.HasSuffix(line, want) {
		t.Errorf("the watcher sees %q, want %q", line, want)
	}
	if _, err := s.api(t).Revoke(t.Context(), wire.RevokeRequest{Name: "jobs/a", Token: first, Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	if line := watcher.line(t); !strings.HasSuffix(line, "nobody") {
		t.Errorf("then the watcher sees %q", line)
	}
	second, _ := strconv.ParseUint(p.line(t), 10, 64)
	third, _ := strconv.ParseUint(p.line(t), 10, 64)
	if first == 0 || second <= first || third <= second {
		t.Errorf("tokens %d, %d, %d", first, second, third)
	}
	if code := p.code(t); code != 9 {
		t.Errorf("exit code %d", code)
	}
	p.allGone(t, time.Now().Add(time.Second))
	s.given(t, "jobs/a")
	watcher.signal(t, syscall.SIGTERM)
	if code := watcher.code(t); code != 143 {
		t.Errorf("the watcher exits %d", code)
	}
}

// A stop ends the command and then the campaign, with the code of the command; one
// that comes while another leads leaves the queue.
func TestElect_Stop(t *testing.T) {
	s := alone(t)
	leader := launch(t, s.address, "elect", "a", "--", "sh", "-c", "trap 'exit 5' TERM; echo up; while :; do sleep 0.02; done")
	leader.line(t)
	other := launch(t, s.address, "elect", "a", "--", "echo", "up")
	s.until(t, "the other waits", func() bool { return s.lease(t, "a").Waiters == 1 })
	other.signal(t, syscall.SIGINT)
	if code := other.code(t); code != 130 {
		t.Errorf("the other exits %d", code)
	}
	leader.signal(t, syscall.SIGTERM)
	if code := leader.code(t); code != 5 {
		t.Errorf("the leader exits %d", code)
	}
	leader.allGone(t, time.Now().Add(time.Second))
	s.given(t, "a")
}

// What it can never have, or not in time, it does not campaign for.
func TestElect_Codes(t *testing.T) {
	s := alone(t)
	s.acquire(t, "taken")
	for args, code := range map[string]int{
		"--wait 50ms taken -- true": 75, "--ttl 1ms a -- true": 2, "a -- nosuch": 127, "--observe a -- true": 2, "--observe": 2,
	} {
		p := launch(t, s.address, append([]string{"elect"}, strings.Fields(args)...)...)
		if got := p.code(t); got != code {
			t.Errorf("elect %s: exit code %d, want %d", args, got, code)
		}
	}
}
