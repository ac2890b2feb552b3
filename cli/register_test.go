package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/client"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// Fencing on the command line: the holder writes, is replaced, and is refused.
func TestRun_Register(t *testing.T) {
	server := handle(t, newFakeNode().ServeHTTP)
	for _, tt := range []struct {
		line           string
		code           int
		stdout, stderr string
	}{
		{"register get config/a", 0, "value          (never written)\nhighest token  none seen yet\nwrites         0 accepted, 0 refused\n", ""},
		{"acquire --holder w1 jobs/a", 0, "token       1\n", ""},
		{"register put --token 1 --lease jobs/a config/a one", 0, "verdict        accepted\nfenced         by token 1, which is live for jobs/a\nhighest token  1\n", ""},
		{"register put config/a two --token 1", 0, "fenced         by token 1\n", ""},
		{"revoke jobs/a --token 1 --reason stuck", 0, "jobs/a: token 1 revoked at index 4\n", ""},
		{"revoke --reason again jobs/a --token 1", 0, "jobs/a: token 1 already revoked at index 4\n", ""},
		{"revoke jobs/a --token 1 --reason stuck --json", 0, `{"name":"jobs/a","token":1,"index":4,"already":true}`, ""},
		{"register put config/a --lease jobs/a three --token 1", 1, "", "leasehold: stale_token: token is stale\n"},
		{"acquire --holder w2 jobs/a", 0, "token       8\n", ""},
		{"register put config/a four --token 8 --lease jobs/a", 0, "writes         3 accepted, 1 refused\n", ""},
		{"register put --token 1 config/a five", 1, "", "leasehold: stale_token: token is stale\n"},
		{"register put config/a six", 0, "fenced         no: it came without a token, so nothing was checked\nhighest token  8\n", ""},
		{"register put --json config/a -- -7", 0, `{"name":"config/a","value":"-7","index":12,"token":0,"lease":"","fenced":false,"verdict":"accepted",`, ""},
		{"register get config/a", 0, "value          -7\nhighest token  8\nwrites         5 accepted, 2 refused\n", ""},
		{"register get config/a", 0, "\nINDEX  TOKEN  LEASE   VERDICT      WHEN\n2      1      jobs/a  accepted     2h30m ago\n", ""},
		{"register get config/a", 0, "7      1      jobs/a  not_live     2h30m ago\n", ""},
		{"register get config/a", 0, "11     none   -       accepted     2h30m ago\n", ""},
		{"register get config/a --json", 0, `"highest_token":8,"accepted":5,"refused":2,"writes":[{"index":2,"token":1,"lease":"jobs/a","verdict":"accepted","at":"`, ""},
		{"revoke jobs/a --token 1 --reason x", 0, "already", ""},
		{"revoke jobs/a --token 99 --reason x", 123, "", "leasehold: lease_lost: no such grant\n"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			run(t, server, strings.Fields(tt.line)...).expect(t, tt.code, tt.stdout, tt.stderr)
		})
	}
}

// An empty value is a value.
func TestRun_RegisterPut_EmptyValue(t *testing.T) {
	node := newFakeNode()
	server := handle(t, node.ServeHTTP)
	run(t, server, "register", "put", "a", "").expect(t, exitDone, "accepted", "")
	if reg := node.table.Register("a"); reg == nil || reg.Value != "" || reg.Accepted != 1 {
		t.Errorf("%+v", reg)
	}
}

// The value - is all of standard input, byte for byte.
func TestRun_RegisterPut_StandardInput(t *testing.T) {
	node := newFakeNode()
	server := handle(t, node.ServeHTTP)
	put := func(ctx context.Context, stdin io.Reader) result {
		var stdout, stderr bytes.Buffer
		p := &program{stdin: stdin, stdout: &stdout, stderr: &stderr, env: func(string) string { return server }}
		code := p.run(ctx, []string{"leasehold", "register", "put", "a", "-"})
		return result{code, stdout.String(), stderr.String()}
	}
	value := strings.Repeat("v\n", lease.MaxValueLen/2)
	put(t.Context(), strings.NewReader(value)).expect(t, exitDone, "accepted", "")
	if got := node.table.Register("a").Value; got != value {
		t.Errorf("%d bytes were written, want %d", len(got), len(value))
	}
	put(t.Context(), strings.NewReader(value+"x")).expect(t, exitUsage, "", "leasehold register put: value: is 4097 bytes long")
	put(t.Context(), strings.NewReader("\xff")).expect(t, exitUsage, "", "leasehold register put: value: is not valid UTF-8")
	put(t.Context(), broken{}).expect(t, exitError, "", "standard input cannot be read: it is broken")
	if got := node.table.Register("a").Accepted; got != 1 {
		t.Errorf("%d writes, want 1", got)
	}

	// A signal ends the command though nothing comes.
	silent, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&signalError{syscall.SIGINT})
	put(ctx, silent).expect(t, 128+int(syscall.SIGINT), "", "ended by signal")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("it is broken") }

// What the command line of the new commands cannot mean is refused before any
// server is asked.
func TestRun_RegisterAndRevoke_UsageErrors(t *testing.T) {
	asked := false
	server := handle(t, func(http.ResponseWriter, *http.Request) { asked = true })
	for _, tt := range []struct{ line, stderr string }{
		{"register", "leasehold register: a command is missing\nsee leasehold register --help\n"},
		{"register nosuch", `leasehold register: there is no command "nosuch"`},
		{"register --json put a v", "leasehold register: flag provided but not defined: --json"},
		{"register put", "leasehold register put: a NAME and a VALUE are expected, but there are 0 arguments\nsee leasehold register put --help\n"},
		{"register put a", "but there are 1 arguments"},
		{"register put a b c", "but there are 3 arguments"},
		{"register put a//b v", "leasehold register put: name: "},
		{"register put a v --lease b", "leasehold register put: --lease needs the --token of its grant"},
		{"register put a v --token 1 --lease b//c", "leasehold register put: --lease: "},
		{"register put a v --token 1 --lease=", "leasehold register put: --lease: "},
		{"register put a v --token 0", "flag --token: a token is a positive whole number"},
		{"register put a v --token", "leasehold register put: flag needs an argument: --token"},
		{"register put a v --nosuch", "leasehold register put: flag provided but not defined: --nosuch"},
		{"register put a " + strings.Repeat("v", 4097), "leasehold register put: value: is 4097 bytes long"},
		{"register get", "leasehold register get: the NAME of a register is missing"},
		{"register get a b", "leasehold register get: one NAME is expected, but there are 2"},
		{"revoke a --token 1", "leasehold revoke: --reason is missing"},
		{"revoke a --reason r", "leasehold revoke: --token is missing"},
		{"revoke --token 1 --reason r", "leasehold revoke: the NAME of a lease is missing"},
		{"revoke a --token 1 --reason=", "leasehold revoke: reason: is empty"},
		{"revoke a --token 1 --reason " + strings.Repeat("r", 256), "leasehold revoke: reason: is 256 bytes long"},
		{"requests", "leasehold requests: the ID of a request is missing"},
		{"requests a b", "leasehold requests: one request ID is expected, but there are 2"},
		{"requests a/b", "leasehold requests: request_id: "},
	} {
		t.Run(tt.line, func(t *testing.T) {
			r := run(t, server, strings.Fields(tt.line)...)
			r.expect(t, exitUsage, "", tt.stderr)
			if r.stdout != "" || strings.Count(r.stderr, "\n") != 2 {
				t.Errorf("stdout %q, stderr %q; want two lines on stderr", r.stdout, r.stderr)
			}
		})
	}
	if asked {
		t.Error("a server was asked")
	}
}

// When nobody knows what came of a write, the command says how to find out, and
// does not try again.
func TestRun_RegisterPut_UnknownOutcome(t *testing.T) {
	puts := 0
	server := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		puts++
		answer(w, 504, wire.Problem{Code: "outcome_unknown", Detail: "leadership was lost"})
	})
	run(t, server, "register", "put", "a", "v").
		expect(t, exitError, "", "leasehold: outcome_unknown: leadership was lost\nto learn it: leasehold register get a\n")
	if puts != 1 {
		t.Errorf("it was sent %d times, want once", puts)
	}
}

// With no server to reach, the new commands end with 125 as the others do.
func TestRun_RegisterAndRevoke_NoServer(t *testing.T) {
	for _, line := range []string{"register put a v", "register get a", "revoke a --token 1 --reason r", "requests r1"} {
		run(t, dead(t), append(strings.Fields(line), "--timeout", "50ms")...).expect(t, exitUnavailable, "", "unreachable: ")
	}
}

// Help of a command with commands below it names them.
func TestRun_Register_Help(t *testing.T) {
	for _, line := range []string{"register --help", "register put --help", "register get a --help"} {
		r := run(t, dead(t), strings.Fields(line)...)
		r.expect(t, exitDone, "leasehold register", "")
	}
	run(t, dead(t), "register", "--help").expect(t, exitDone, "show a value and the latest writes", "")
}

// A request is shown wherever it stands; one of which nothing is known says what
// that means.
func TestRun_Requests(t *testing.T) {
	known := []wire.Request{
		{Name: "jobs/a", Holder: "h", State: "granted", Token: 7, Index: 7},
		{Name: "jobs/b", Holder: "h", State: "queued", Index: 9},
		{Name: "jobs/c", Holder: "h", State: "ended", Token: 3, How: "revoked", Reason: "stuck since noon", Index: 5},
	}
	server := handle(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/requests/r 1" {
			t.Errorf("asked for %q", r.URL.Path)
		}
		answer(w, 200, known)
	})
	const table = "NAME    HOLDER  STATE    TOKEN  INDEX  REASON\n" +
		"jobs/a  h       granted  7      7      -\n" +
		"jobs/b  h       queued   -      9      -\n" +
		"jobs/c  h       revoked  3      5      stuck since noon\n"
	run(t, server, "requests", "r 1").expect(t, exitDone, table, "")
	run(t, server, "requests", "--json", "r 1").expect(t, exitDone, `{"name":"jobs/b","holder":"h","state":"queued","token":0,"index":9}`+"\n", "")
	known = []wire.Request{}
	run(t, server, "requests", "r 1").expect(t, exitDone, "nothing is known of this request", "")
	if r := run(t, server, "requests", "r 1", "--json"); r.stdout != "" || r.code != exitDone {
		t.Errorf("JSON of an empty list is %q, code %d; want nothing", r.stdout, r.code)
	}
}

// A cooling lease shows when it opens again, who waits and how its last grant
// ended, in get and in list.
func TestRun_CoolingLease(t *testing.T) {
	at := func(ago time.Duration) string { return time.Now().Add(-ago).Format(time.RFC3339Nano) }
	cooling := wire.Lease{
		Name: "jobs/a", State: "cooling", LockDelayMillis: 5000, CoolingSince: 18, RemainingMillis: new(int64(1900)), Waiters: 2,
		Last: &wire.Last{Token: 12, Holder: "h", How: "revoked", Reason: "stuck", Index: 18, At: at(150 * time.Minute), Why: "an operator revoked it at index 18: stuck"},
	}
	held := wire.Lease{
		Name: "jobs/b", State: "held", Holder: "g", Token: 30, TTLMillis: 10_000, LockDelayMillis: 5000, RemainingMillis: new(int64(7000)), Waiters: 1,
		GrantedAt: at(150 * time.Minute), Last: &wire.Last{Token: 20, Holder: "f", How: "expired", Index: 25, At: at(25*time.Hour + time.Minute)},
	}
	server := handle(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/leases":
			answer(w, 200, wire.Leases{Leases: []wire.Lease{cooling, held}, Index: 40})
		case "/v1/leases/jobs/a":
			answer(w, 200, cooling)
		default:
			answer(w, 200, held)
		}
	})
	run(t, server, "get", "jobs/a").expect(t, exitDone,
		"state    cooling\nreopens  in 1.9s: a lock delay of 5s runs since index 18\nwaiters  2\n"+
			"last     token 12 of h, revoked 2h30m ago at index 18\n         an operator revoked it at index 18: stuck\n", "")
	run(t, server, "get", "jobs/b").expect(t, exitDone, "ttl         10s\nlock_delay  5s\nremaining   7s\n", "")
	r := run(t, server, "list")
	lines := strings.Split(r.stdout, "\n")
	for i, want := range []string{
		"NAME    STATE    HOLDER  TOKEN  TTL  REMAINING  WAITERS  GRANTED    RENEWED  LAST GRANT            VALUE",
		"jobs/a  cooling  -       -      -    1.9s       2        -          -        12 revoked 2h30m ago  -",
		"jobs/b  held     g       30     10s  7s         1        2h30m ago  never    20 expired 1d1h ago   -",
	} {
		if i >= len(lines) || strings.TrimSpace(lines[i]) != want {
			t.Errorf("line %d is\n%s, want\n%s", i, lines[i], want)
		}
	}
	// A follower does not know the time left, and an old server not how it ended.
	cooling.RemainingMillis = nil
	cooling.Last = &wire.Last{Token: 12, Index: 18, At: at(150 * time.Minute)}
	run(t, server, "get", "jobs/a").expect(t, exitDone, "reopens  in ?: a", "")
	run(t, server, "get", "jobs/a").expect(t, exitDone, "last     token 12 ended 2h30m ago at index 18\n", "")
}

// The exit code of a refused write is 1; 123 is for leases that are lost.
func TestExitCode_StaleToken(t *testing.T) {
	if code := exitCode(&client.Error{Problem: wire.Problem{Code: "stale_token"}}); code != exitError {
		t.Errorf("exit code %d, want %d", code, exitError)
	}
}

// A log entry shows all its fields, also a value that looks like no value.
func TestEntryDetails(t *testing.T) {
	for _, tt := range []struct {
		entry wire.LogEntry
		want  string
	}{
		{
			wire.LogEntry{Kind: "acquire", Name: "a", Holder: "h", RequestID: "r", TTLMillis: 1000, WaitMillis: 2000, LockDelayMillis: 3000},
			"name=a holder=h ttl=1s wait=2s lock_delay=3s request_id=r",
		},
		{wire.LogEntry{Kind: "abandon", Name: "a", Holder: "h", RequestID: "r", Place: 8, Reason: "its wait was over"}, "name=a holder=h request_id=r place=8 reason=its wait was over"},
		{wire.LogEntry{Kind: "revoke", Name: "a", Token: 8, Reason: "stuck"}, "name=a token=8 reason=stuck"},
		{wire.LogEntry{Kind: "reopen", Name: "a", Token: 8}, "name=a token=8"},
		{wire.LogEntry{Kind: "write", Register: "c", Token: 8, Lease: "a", Value: new("0")}, "register=c token=8 lease=a value=0"},
		{wire.LogEntry{Kind: "write", Register: "c", Value: new("a\nb")}, `register=c value="a\nb"`},
		{wire.LogEntry{Kind: "write", Register: "c", Value: new("")}, "register=c"},
	} {
		if got := entryDetails(tt.entry); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
