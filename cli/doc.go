// Package cli is the leasehold command line: flags in, calls of package client,
// tables or JSON out. There is one file per subcommand.
//
//	Main ──▶ Run ──▶ interspersed ──▶ urfave/cli ──▶ the subcommand's action
//	signals  exit    flags may stand   parses flags   returns an error, and Run
//	         code    after the name    by command     turns it into text and code
//
// Three nouns: a program is one run, with its outputs and environment; a
// usageError is a command line that cannot be understood; a serveFlags is what
// the flags of serve say.
//
// Exit codes:
//
//	  0  done
//	  1  another error, an unknown outcome among them
//	  2  the command line, or an argument in it, is not acceptable
//	 75  not acquired, the lease is held
//	123  the lease is lost: the token, or the request id, names a grant that is over
//	125  no server could be reached, or none could serve
//	128+n ended by signal n while waiting
//
// exec and elect exit as the command that they run does, with 128+n if signal n
// ended it, 126 or 127 if it cannot be run, 123 if its lease was lost, and 125 for
// every failure of leasehold. What holds such a command is a job (job_unix.go), with
// its guard.
package cli
