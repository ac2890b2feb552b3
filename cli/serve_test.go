package cli

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	urfave "github.com/urfave/cli/v2"

	"leasehold/cluster"
)

// parseServe gives what serve makes of a command line.
func parseServe(t *testing.T, line string) (serveFlags, error) {
	t.Helper()
	p := &program{stdout: io.Discard, stderr: io.Discard}
	app := p.app()
	var got serveFlags
	command := p.serveCommand(func(_ context.Context, f serveFlags) error { got = f; return nil })
	settle(command)
	app.Commands = []*urfave.Command{command}
	args, err := interspersed(app, append([]string{"leasehold", "serve"}, strings.Fields(line)...))
	if err == nil {
		err = app.RunContext(t.Context(), args)
	}
	return got, err
}

const threeNodes = " --cluster n3=10.0.0.3:8001,n1=10.0.0.1:8001,n2=10.0.0.2:8001"

// The defaults are those of the documentation; bind follows the address, and the
// list may be in any order.
func TestServe_Defaults(t *testing.T) {
	f, err := parseServe(t, "--id n1 --address 10.0.0.1:8001 --data d"+threeNodes)
	if err != nil {
		t.Fatal(err)
	}
	if f.id != "n1" || f.address != "10.0.0.1:8001" || f.bind != "" || f.data != "d" || len(f.members) != 3 ||
		f.members[0] != (cluster.Peer{ID: "n3", Address: "10.0.0.3:8001"}) {
		t.Errorf("%+v", f)
	}
	if f.minTTL != 100*time.Millisecond || f.maxTTL != 24*time.Hour || f.maxLeases != 1_000_000 ||
		f.heartbeatTimeout != 500*time.Millisecond || f.electionTimeout != 500*time.Millisecond ||
		f.snapshotThreshold != 8192 || f.snapshotInterval != 30*time.Second || f.trailingLogs != 10240 || f.logLevel != "info" {
		t.Errorf("%+v", f)
	}
}

// Each flag ends up in its own field.
func TestServe_EveryFlagIsRead(t *testing.T) {
	f, err := parseServe(t, "--id n1 --address h:1 --bind 0.0.0.0:2 --data d --min-ttl 1s --max-ttl 2s --max-leases 3 "+
		"--heartbeat-timeout 4s --election-timeout 5s --snapshot-threshold 6 --snapshot-interval 7s --trailing-logs 8 --lab --lab-seed 9 --log-level warn")
	want := serveFlags{
		id: "n1", address: "h:1", bind: "0.0.0.0:2", data: "d", minTTL: time.Second, maxTTL: 2 * time.Second, maxLeases: 3, maxWaiters: 1000,
		heartbeatTimeout: 4 * time.Second, electionTimeout: 5 * time.Second,
		snapshotThreshold: 6, snapshotInterval: 7 * time.Second, trailingLogs: 8, lab: true, labSeed: 9, logLevel: "warn",
	}
	if err != nil || !reflect.DeepEqual(f, want) {
		t.Errorf("got %+v, %v; want %+v", f, err, want)
	}
}

// A command line that cannot be right is refused, with both sides of a
// contradiction in the message.
func TestServe_UsageErrors(t *testing.T) {
	own := "--id n1 --address 10.0.0.1:8001 --data d "
	for _, tt := range []struct{ line, want string }{
		{"--address h:1 --data d", "--id is missing"},
		{"--id n1 --data d", "--address is missing"},
		{"--id n1 --address h:1", "--data is missing"},
		{own + "extra", "no arguments are expected"},
		{"--id n=1 --address h:1 --data d", `"n=1" is no node id`},
		{"--id n1 --address h --data d", `the address of node n1 is "h", it must be HOST:PORT`},
		{"--id n1 --address :1 --data d", `the address of node n1 is ":1", which stands for every address`},
		{"--id n1 --address h:0 --data d", "its port must be a number from 1 to 65535"},
		{"--id n1 --address 0.0.0.0:1 --data d", "which stands for every address of this machine"},
		{"--id n1 --address [::]:1 --data d", "which stands for every address of this machine"},
		{own + "--bind nowhere", `the address to bind is "nowhere"`},
		{own + "--cluster n1", `"n1" is not ID=HOST:PORT`},
		{own + "--cluster=", `"" is not ID=HOST:PORT`},
		{own + "--cluster n1=10.0.0.1:8001,", `"" is not ID=HOST:PORT`},
		{own + "--cluster n1=10.0.0.1:8001,=h:1", `"" is no node id`},
		{own + "--cluster n1=10.0.0.1:8001,n2=h", `the address of node n2 is "h", it must be HOST:PORT`},
		{own + "--cluster n1=10.0.0.1:8001,n1=h:1", "the cluster list names n1 twice: at 10.0.0.1:8001 and at h:1"},
		{own + "--cluster n1=10.0.0.1:8001,n2=10.0.0.1:8001", "the cluster list gives 10.0.0.1:8001 to two nodes: n1 and n2"},
		{own + "--cluster n2=h:2,n3=h:3", "the cluster list does not contain this node (n1): n2=h:2,n3=h:3"},
		{own + "--cluster n1=h:1,n2=h:2", "the cluster list gives n1 the address h:1, but it was started with 10.0.0.1:8001"},
		{own + "--min-ttl 2s --max-ttl 1s", "the greatest TTL (1s) is less than the least TTL (2s)"},
		{own + "--min-ttl 1500us", "whole milliseconds"},
		{own + "--max-leases 0", "it must be at least 1"},
		{own + "--snapshot-threshold 0", "the snapshot threshold is 0"},
		{own + "--heartbeat-timeout 2s --election-timeout 1s", "the election timeout (1s) is less than the heartbeat timeout (2s)"},
		{own + "--log-level loud", `--log-level "loud"`},
	} {
		_, err := parseServe(t, tt.line)
		var usage *usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: err = %v; want a usage error with %q", tt.line, err, tt.want)
		}
	}
}
