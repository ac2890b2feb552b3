package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"leasehold/httpapi/wire"
)

// The life of a lease on the command line, with the exit code of each step.
func TestRun_AcquireRenewReleaseGet(t *testing.T) {
	node := newFakeNode()
	server := handle(t, node.ServeHTTP)
	for _, tt := range []struct {
		line           string
		code           int
		stdout, stderr string
	}{
		{"get jobs/a", 0, "state  free\nlast   token 3 of w0, expired at index 9\n       no renewal of token 3", ""},
		{"acquire --holder w1 --ttl 5s jobs/a --request-id r1 --value here", 0, "token       1\nholder      w1\nttl         5s\n", ""},
		{"acquire --holder w1 --request-id r1 jobs/a", 0, "replayed    yes", ""},
		{"acquire jobs/a --holder w2", 75, "", "leasehold: held: token is live\nretry after: 1.5s\n"},
		{"get jobs/a", 0, "remaining  7.2s", ""},
		{"get jobs/a", 0, "granted    1m30s ago", ""},
		{"renew --holder w1 --token 1 jobs/a", 0, "token       1\n", ""},
		{"renew --holder w2 --token 1 jobs/a", 1, "", "leasehold: not_holder: "},
		{"renew --holder w1 --token 9 jobs/a", 123, "", "leasehold: lease_lost: "},
		{"release jobs/a --holder w1 --token 9", 123, "", "leasehold: lease_lost: "},
		{"release jobs/a --holder w1 --token 1", 0, "jobs/a: token 1 released at index", ""},
		{"release jobs/a --holder w1 --token 1", 0, "jobs/a: token 1 already released at index", ""},
		{"acquire --holder w1 --request-id r1 jobs/a", 123, "", "leasehold: request_ended: "},
		{"acquire --holder w1 jobs/a --json", 0, `"holder":"w1"`, ""},
		{"acquire --holder w1 jobs/a --reclaim --json", 0, `"token":`, ""},
	} {
		t.Run(tt.line, func(t *testing.T) {
			run(t, server, strings.Fields(tt.line)...).expect(t, tt.code, tt.stdout, tt.stderr)
		})
	}
}

// Without --holder each acquire is another holder.
func TestRun_Acquire_DefaultHolder_IsUnique(t *testing.T) {
	server := handle(t, newFakeNode().ServeHTTP)
	var holders []string
	for _, name := range []string{"a", "b"} {
		r := run(t, server, "acquire", name, "--json")
		var g wire.Grant
		if err := json.Unmarshal([]byte(r.stdout), &g); err != nil {
			t.Fatalf("%v in %q", err, r.stdout)
		}
		if g.TTLMillis != 10_000 || !strings.Contains(g.Holder, fmt.Sprint(os.Getpid())) {
			t.Errorf("grant %+v; want 10 s for a holder with the process id", g)
		}
		holders = append(holders, g.Holder)
	}
	if holders[0] == holders[1] {
		t.Errorf("both are %q", holders[0])
	}
}

// A command line that cannot be right is refused before any server is asked,
// in one line and a hint.
func TestRun_UsageErrors(t *testing.T) {
	asked := false
	server := handle(t, func(http.ResponseWriter, *http.Request) { asked = true })
	for _, tt := range []struct{ line, stderr string }{
		{"", "leasehold: a command is missing"},
		{"nosuch", `leasehold: there is no command "nosuch"`},
		{"help nosuch", "nosuch"},
		{"--nosuch", "leasehold: flag provided but not defined: --nosuch"},
		{"acquire", "leasehold acquire: the NAME of a lease is missing"},
		{"acquire a b", "leasehold acquire: one NAME is expected, but there are 2"},
		{"acquire a --nosuch", "leasehold acquire: flag provided but not defined: --nosuch"},
		{"acquire a//b", "leasehold acquire: name: "},
		{"acquire a --ttl 5", "flag --ttl: a duration is written like"},
		{"acquire a --ttl 1500us", "flag --ttl: a duration is in whole milliseconds"},
		{"acquire a --ttl 0s", "flag --ttl: a duration is more than 0"},
		{"acquire a --ttl -5s", "flag --ttl: a duration is more than 0"},
		{"acquire a --holder=", "leasehold acquire: holder: is empty"},
		{"acquire a --request-id x/y", "leasehold acquire: request_id: "},
		{"acquire a --request-id=", "leasehold acquire: request_id: is empty"},
		{"acquire a --value " + strings.Repeat("v", 4097), "leasehold acquire: value: "},
		{"acquire a --server nowhere", `leasehold acquire: server "nowhere"`},
		{"renew a --token 7", "leasehold renew: --holder is missing"},
		{"renew a --holder h", "leasehold renew: --token is missing"},
		{"release a --holder h --token 0", "flag --token: a token is a positive whole number"},
		{"release a --holder h --token 0x7", "flag --token: a token is a positive whole number"},
		{"release a --holder h --token -7", "flag --token: a token is a positive whole number"},
		{"list a", "leasehold list: no arguments are expected"},
		{"status a", "leasehold status: no arguments are expected"},
		{"bench --work nosuch", `leasehold bench: --work "nosuch"`},
		{"bench --clients 0", "leasehold bench: --clients 0"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			r := run(t, server, strings.Fields(tt.line)...)
			r.expect(t, exitUsage, "", tt.stderr)
			if r.stdout != "" || strings.Count(r.stderr, "\n") != 2 && tt.line != "help nosuch" {
				t.Errorf("stdout %q, stderr %q; want two lines on stderr", r.stdout, r.stderr)
			}
		})
	}
	if asked {
		t.Error("a server was asked")
	}
}

// An argument that only the server finds wrong is a usage error too.
func TestRun_InvalidArgumentOfTheServer_IsAUsageError(t *testing.T) {
	server := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 400, wire.Problem{Code: "invalid_argument", Detail: "ttl_ms is below 100", Field: "ttl_ms"})
	})
	run(t, server, "acquire", "a", "--ttl", "1ms").expect(t, exitUsage, "", "leasehold: invalid_argument: ttl_ms is below 100\n")
}

// Errors that have no exit code of their own end with 1, and say their code.
func TestRun_OtherErrors_ExitWith1(t *testing.T) {
	server := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 429, wire.Problem{Code: "too_many_leases", Detail: "there are 10 already"})
	})
	run(t, server, "acquire", "a").expect(t, exitError, "", "leasehold: too_many_leases: there are 10 already\n")
}

// With no server to reach, every command ends with 125.
func TestRun_NoServer_ExitsWith125(t *testing.T) {
	for _, line := range []string{
		"acquire a", "renew --holder h --token 7 a", "release --holder h --token 7 a", "get a", "list",
		"status", "bench --duration 100ms", "version --server " + dead(t),
	} {
		t.Run(line, func(t *testing.T) {
			run(t, dead(t), append(strings.Fields(line), "--timeout", "50ms")...).
				expect(t, exitUnavailable, "", "unreachable: ")
		})
	}
}

// Servers that are up but cannot serve are no better.
func TestRun_NoQuorum_ExitsWith125(t *testing.T) {
	server := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 503, wire.Problem{Code: "no_quorum", Detail: "n1 reaches only itself"})
	})
	run(t, server, "get", "a", "--timeout", "50ms").expect(t, exitUnavailable, "", "leasehold: no_quorum: n1 reaches only itself\n")
}

// When nobody knows what came of an acquire, the request id to ask with is told.
func TestRun_Acquire_UnknownOutcome_TellsTheRequestID(t *testing.T) {
	server := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			conn.Close()
		}
	})
	run(t, server, "acquire", "a", "--request-id", "r-77", "--timeout", "50ms").
		expect(t, exitError, "", "request id: r-77\n")
}

// --server goes before the environment, and takes several in both forms.
func TestRun_Server_SeveralAndBeforeTheEnvironment(t *testing.T) {
	server := handle(t, newFakeNode().ServeHTTP)
	for _, flags := range [][]string{
		{"--server", server},
		{"--server", dead(t) + "," + server},
		{"--server=" + dead(t), "--server", server},
	} {
		run(t, dead(t), append([]string{"get", "a"}, flags...)...).expect(t, exitDone, "free", "")
	}
	run(t, dead(t)+", "+server, "get", "a").expect(t, exitDone, "free", "")
}

// A signal while a command waits gives 128 and the signal's number.
func TestRun_SignalWhileWaiting_ExitsWith128AndItsNumber(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		ctx, cancel := context.WithCancelCause(t.Context())
		server := handle(t, func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 503, wire.Problem{Code: "no_leader", Detail: "an election is under way"})
			cancel(&signalError{sig})
		})
		runWith(ctx, server, "get", "a").expect(t, 128+int(sig), "", "leasehold: cancelled: ended by signal")
	}
}

// A real signal to the process ends the context, with the signal as its cause.
func TestWithSignals_TERM_EndsTheContext(t *testing.T) {
	ctx, stop := withSignals(t.Context())
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if code := exitCode(context.Cause(ctx)); code != 128+15 {
		t.Errorf("exit code %d for %v, want 143", code, context.Cause(ctx))
	}
}

// Output that cannot be written is an error, not a success.
func TestRun_StdoutBroken_IsAnError(t *testing.T) {
	server := handle(t, newFakeNode().ServeHTTP)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here: ", err)
	}
	defer full.Close()
	for _, line := range []string{"get a", "get a --json", "acquire b", "list", "version", "status"} {
		var stderr strings.Builder
		code := Run(t.Context(), append([]string{"leasehold"}, strings.Fields(line)...), full, &stderr,
			func(string) string { return server })
		if code != exitError {
			t.Errorf("%s: exit code %d, want 1; stderr %q", line, code, stderr.String())
		}
	}
}
