package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/client"
	"leasehold/httpapi/wire"
)

var contentions = flag.Int("contentions", 6, "how many rounds of two contenders TestExec_Contenders plays")

// asWorker in the environment makes the test binary a command to run under a lease:
// it writes what it does into files of the folder named there.
const asWorker = "LEASEHOLD_TEST_WORKER"

// tick is a moment at which a process under a lease was alive.
type tick struct {
	Token uint64
	At    time.Duration // machineTime
}

// write is a write to a register under a lease, and when it was made.
type write struct {
	Token       uint64
	From, Until time.Duration
	Accepted    bool
}

// work notes each millisecond that this process lives, and writes to a register with
// its token again and again. The first of it starts a second one in a session of its
// own, which only notes that it lives.
func work(dir string, first bool) {
	token, _ := strconv.ParseUint(os.Getenv("LEASEHOLD_TOKEN"), 10, 64)
	file, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.%d", token, os.Getpid())))
	if err != nil {
		os.Exit(3)
	}
	if first {
		second := exec.Command(os.Args[0], "second")
		second.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if second.Start() != nil {
			os.Exit(3)
		}
		go writeAgainAndAgain(dir, token)
	}
	note := json.NewEncoder(file)
	for range time.Tick(time.Millisecond) {
		_ = note.Encode(tick{token, machineTime()})
	}
}

func writeAgainAndAgain(dir string, token uint64) {
	file, err := os.Create(filepath.Join(dir, fmt.Sprintf("writes.%d.%d", token, os.Getpid())))
	if err != nil {
		os.Exit(3)
	}
	api, err := client.NewAPI(client.Config{Servers: strings.Split(os.Getenv(serversVariable), ","), Timeout: time.Second})
	if err != nil {
		os.Exit(3)
	}
	note := json.NewEncoder(file)
	for range time.Tick(10 * time.Millisecond) {
		w := write{Token: token, From: machineTime()}
		_, err := api.PutRegister(context.Background(), "r", wire.WriteRequest{Token: token, Value: "x"})
		w.Until, w.Accepted = machineTime(), err == nil
		_ = note.Encode(w)
	}
}

// contenders are two exec that want the same lease of a cluster of three.
type contenders struct {
	dir, all string
	nodes    map[string]*process
	founders string
	pair     [2]*process
	stopped  map[uint64]bool // tokens whose command was stopped, with all that guards it
}

const contenderTTL = 2 * time.Second

func startContenders(t *testing.T) *contenders {
	c := &contenders{dir: t.TempDir(), nodes: make(map[string]*process), stopped: make(map[uint64]bool)}
	var addresses, founders []string
	for i := range 3 {
		addresses = append(addresses, dead(t))
		founders = append(founders, fmt.Sprintf("n%d=%s", i+1, addresses[i]))
	}
	c.all, c.founders = strings.Join(addresses, ","), strings.Join(founders, ",")
	for id := range 3 {
		c.serve(t, fmt.Sprintf("n%d", id+1), addresses[id])
	}
	t.Setenv(asWorker, filepath.Join(c.dir, "work"))
	if err := os.Mkdir(filepath.Join(c.dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *contenders) serve(t *testing.T, id, address string) {
	c.nodes[id] = launch(t, c.all, "serve", "--id", id, "--address", address, "--data", filepath.Join(c.dir, id), "--cluster", c.founders)
}

// contend sees to it that both contenders run.
func (c *contenders) contend(t *testing.T) {
	for i, p := range c.pair {
		if p != nil {
			select {
			case <-p.ended:
			default:
				continue
			}
		}
		c.pair[i] = launch(t, c.all, "exec", "--ttl", contenderTTL.String(), "--wait", "1m", "job", "--", os.Args[0], "first")
	}
}

// holder waits for a contender whose command runs, and gives it with its guard, its
// command and its token.
func (c *contenders) holder(t *testing.T) (p *process, guard, command int, token uint64) {
	t.Helper()
	for deadline := time.After(patience); ; {
		for _, p := range c.pair {
			guards := children(p.cmd.Process.Pid)
			if len(guards) != 1 {
				continue
			}
			for _, pid := range children(guards[0]) {
				files, _ := filepath.Glob(filepath.Join(c.dir, "work", fmt.Sprintf("[0-9]*.%d", pid)))
				if len(files) == 1 {
					name, _, _ := strings.Cut(filepath.Base(files[0]), ".")
					token, _ := strconv.ParseUint(name, 10, 64)
					return p, guards[0], pid, token
				}
			}
		}
		select {
		case <-deadline:
			t.Fatal("nobody runs the command")
		case <-time.After(2 * time.Millisecond):
			c.contend(t)
		}
	}
}

// leader is the node that leads, with its address.
func (c *contenders) leader(t *testing.T) (id, address string) {
	t.Helper()
	for deadline := time.After(patience); ; {
		for line := range strings.Lines(run(t, c.all, "status", "--json").stdout) {
			var st wire.Status
			if json.Unmarshal([]byte(line), &st) == nil && st.Role == "leader" {
				return st.ID, st.Address
			}
		}
		select {
		case <-deadline:
			t.Fatal("nobody leads")
		default:
		}
	}
}

// disturbances are what happens to the holder or the leader. Whatever is stopped goes
// on after the pause.
var disturbances = map[string]func(t *testing.T, c *contenders, pause time.Duration){
	"exec killed": func(t *testing.T, c *contenders, _ time.Duration) {
		p, _, _, _ := c.holder(t)
		signalAll(syscall.SIGKILL, p.cmd.Process.Pid)
	},
	"guard killed": func(t *testing.T, c *contenders, _ time.Duration) {
		_, guard, _, _ := c.holder(t)
		signalAll(syscall.SIGKILL, guard)
	},
	"command killed": func(t *testing.T, c *contenders, _ time.Duration) {
		_, _, pid, _ := c.holder(t)
		signalAll(syscall.SIGKILL, pid)
	},
	"TERM": func(t *testing.T, c *contenders, _ time.Duration) {
		p, _, _, _ := c.holder(t)
		signalAll(syscall.SIGTERM, p.cmd.Process.Pid)
	},
	"exec stopped": func(t *testing.T, c *contenders, pause time.Duration) {
		p, _, _, _ := c.holder(t)
		stopped(pause, p.cmd.Process.Pid)
	},
	"guard stopped": func(t *testing.T, c *contenders, pause time.Duration) {
		_, guard, _, _ := c.holder(t)
		stopped(pause, guard)
	},
	"command stopped": func(t *testing.T, c *contenders, pause time.Duration) {
		_, _, pid, _ := c.holder(t)
		stopped(pause, pid)
	},
	"exec and command stopped": func(t *testing.T, c *contenders, pause time.Duration) {
		p, _, pid, _ := c.holder(t)
		stopped(pause, p.cmd.Process.Pid, pid)
	},
	"all stopped, the command goes on first": func(t *testing.T, c *contenders, pause time.Duration) {
		p, guard, pid, token := c.holder(t)
		c.stopped[token] = true
		stopped(pause, append([]int{p.cmd.Process.Pid, guard, pid}, descendants(pid, nil)...)...)
	},
	"leader killed": func(t *testing.T, c *contenders, _ time.Duration) {
		id, address := c.leader(t)
		signalAll(syscall.SIGKILL, c.nodes[id].cmd.Process.Pid)
		<-c.nodes[id].ended
		c.serve(t, id, address)
	},
	"leader stopped": func(t *testing.T, c *contenders, pause time.Duration) {
		id, _ := c.leader(t)
		stopped(pause, c.nodes[id].cmd.Process.Pid)
	},
}

func signalAll(sig syscall.Signal, pids ...int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}

// stopped stops processes for a while. The last goes on a little before the others.
func stopped(pause time.Duration, pids ...int) {
	signalAll(syscall.SIGSTOP, pids...)
	<-time.After(pause)
	for _, pid := range slices.Backward(pids) {
		signalAll(syscall.SIGCONT, pid)
		<-time.After(20 * time.Millisecond)
	}
}

// Two contenders, and at random moments something happens to the one that holds the
// lease, or to the leader. By the clock that all processes of the machine share, the
// commands of two grants never live at once, unless a command was stopped together
// with all that could have ended it. Then its writes are refused.
func TestExec_Contenders(t *testing.T) {
	c := startContenders(t)
	var kinds []string
	for kind := range disturbances {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for round := range *contentions {
		if round%len(kinds) == 0 {
			rand.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		}
		c.contend(t)
		c.holder(t)
		<-time.After(rand.N(contenderTTL / 2))
		kind, pause := kinds[round%len(kinds)], contenderTTL/4+rand.N(2*contenderTTL)
		t.Logf("round %d: %s, %v", round, kind, pause)
		disturbances[kind](t, c, pause)
	}
	c.contend(t)
	c.holder(t) // whatever happened, it goes on
	for _, p := range c.pair {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails if it has just ended by itself
		p.code(t)
		p.allGone(t, time.Now().Add(time.Second))
	}
	c.judge(t)
}

// judge holds what the commands have noted against the promise.
func (c *contenders) judge(t *testing.T) {
	t.Helper()
	born, died := make(map[uint64]time.Duration), make(map[uint64]time.Duration)
	var tokens []uint64
	for _, alive := range readNotes[tick](t, filepath.Join(c.dir, "work", "[0-9]*")) {
		if at, known := born[alive.Token]; !known {
			tokens = append(tokens, alive.Token)
			born[alive.Token] = alive.At
		} else {
			born[alive.Token] = min(at, alive.At)
		}
		died[alive.Token] = max(died[alive.Token], alive.At)
	}
	slices.Sort(tokens)
	if len(tokens) < *contentions/3 {
		t.Errorf("only %d grants: too few to tell anything", len(tokens))
	}
	overlaps, smallest := 0, time.Duration(1<<62)
	for i, token := range tokens[1:] {
		before := tokens[i]
		gap := born[token] - died[before]
		switch {
		case gap >= 0:
			smallest = min(smallest, gap)
		case c.stopped[before]:
			overlaps++
		default:
			t.Errorf("the command of token %d still lived %v after that of token %d had begun", before, -gap, token)
		}
	}
	accepted, refused := c.judgeWrites(t)
	t.Logf("%d grants, smallest gap %v, %d overlaps after a stop of all; %d writes accepted, %d not", len(tokens), smallest, overlaps, accepted, refused)
}

// judgeWrites: no write is accepted that began when one with a higher token had been.
func (c *contenders) judgeWrites(t *testing.T) (accepted, refused int) {
	t.Helper()
	writes := readNotes[write](t, filepath.Join(c.dir, "work", "writes.*"))
	slices.SortFunc(writes, func(a, b write) int { return int(a.Until - b.Until) })
	highest := make([]uint64, len(writes)) // of those accepted until then
	for i, w := range writes {
		if i > 0 {
			highest[i] = highest[i-1]
		}
		if !w.Accepted {
			refused++
			continue
		}
		accepted++
		highest[i] = max(highest[i], w.Token)
		until, _ := slices.BinarySearchFunc(writes[:i], w.From, func(w write, at time.Duration) int { return int(w.Until - at) })
		if until > 0 && highest[until-1] > w.Token {
			t.Errorf("a write with token %d was accepted after one with token %d", w.Token, highest[until-1])
		}
	}
	if accepted == 0 {
		t.Error("no write was accepted")
	}
	return accepted, refused
}

// readNotes reads lines of JSON. The last one may be torn: its writer was killed.
func readNotes[T any](t *testing.T, pattern string) (all []T) {
	t.Helper()
	files, _ := filepath.Glob(pattern)
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for notes := json.NewDecoder(file); ; {
			var note T
			if notes.Decode(&note) != nil {
				break
			}
			all = append(all, note)
		}
		file.Close()
	}
	return all
}
