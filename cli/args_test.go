package cli

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// Flags are understood wherever they stand, and each keeps its value.
func TestInterspersed_PutsFlagsBeforeArguments(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"get NAME", "get -- NAME"},
		{"get NAME --json", "get --json -- NAME"},
		{"get --json NAME --stale", "get --json --stale -- NAME"},
		{"release NAME --token 7 --holder h", "release --token 7 --holder h -- NAME"},
		{"release --token=7 NAME --holder=h", "release --token=7 --holder=h -- NAME"},
		{"acquire NAME --value --json", "acquire --value --json -- NAME"}, // a value that looks like a flag
		{"acquire NAME --value -5 -ttl 3s", "acquire --value -5 -ttl 3s -- NAME"},
		{"acquire NAME --value -- --json", "acquire --value -- --json -- NAME"},
		{"acquire --value= NAME", "acquire --value= -- NAME"},
		{"acquire --value=a=b NAME", "acquire --value=a=b -- NAME"},
		{"acquire --json=false NAME", "acquire --json=false -- NAME"},
		{"acquire --json -- --ttl 5s", "acquire --json -- --ttl 5s"}, // after -- nothing is a flag
		{"acquire a -- -b", "acquire -- a -b"},
		{"acquire - --json", "acquire --json -- -"},
		{"get NAME --nosuch x", "get --nosuch -- NAME x"},
		{"get NAME --help", "get --help"},
		{"get NAME -h --json", "get --help"},
		{"acquire --value -h NAME", "acquire --value -h -- NAME"},
		{"help get", "help get"},
		{"--version", "--version"},
		{"nosuch NAME --json", "nosuch NAME --json"},
		{"get NAME --js --generate-bash-completion", "get NAME --js --generate-bash-completion"},
		{"", ""},
	} {
		app := (&program{stdout: io.Discard, stderr: io.Discard}).app()
		got, err := interspersed(app, append([]string{"leasehold"}, strings.Fields(tt.line)...))
		if want := append([]string{"leasehold"}, strings.Fields(tt.want)...); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q becomes %q, %v; want %q", tt.line, got, err, want)
		}
	}
}

// A flag at the end of the line without its value does not swallow the name.
func TestRun_FlagWithoutItsValue_IsAUsageError(t *testing.T) {
	run(t, dead(t), "acquire", "NAME", "--ttl").expect(t, exitUsage, "", "leasehold acquire: flag needs an argument: --ttl\n")
}

// A lease may be called as a command of the library is.
func TestRun_LeaseCalledHelp_IsALease(t *testing.T) {
	server := handle(t, newFakeNode().ServeHTTP)
	for _, name := range []string{"help", "h", "get"} {
		run(t, server, "get", name).expect(t, exitDone, "name   "+name, "")
	}
}

// Help comes on stdout, whatever else the line says.
func TestRun_Help_IsNoError(t *testing.T) {
	for _, line := range []string{"--help", "help", "help acquire", "acquire --help", "acquire NAME --ttl 5s -h"} {
		run(t, dead(t), strings.Fields(line)...).expect(t, exitDone, "USAGE:", "")
	}
}

// The shell is offered commands, and flags of a command.
func TestRun_Completion_OffersCommandsAndFlags(t *testing.T) {
	was := os.Args // where the library looks for the word before the cursor
	defer func() { os.Args = was }()

	os.Args = []string{"leasehold", completionFlag}
	run(t, dead(t), completionFlag).expect(t, exitDone, "acquire\n", "")

	os.Args = []string{"leasehold", "acquire", "--rec", completionFlag}
	run(t, dead(t), "acquire", "--rec", completionFlag).expect(t, exitDone, "--reclaim\n", "")
}
