package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

// program is one run of the command line.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string
}

// Main runs the command line of this process and gives its exit code. An
// interrupt or a TERM ends a command that waits; a second one ends the process.
func Main(args []string) int {
	ctx, stop := withSignals(context.Background())
	defer stop()
	return Run(ctx, args, os.Stdout, os.Stderr, os.Getenv)
}

// Run runs the command line args, of which the first is the program's name, and
// gives the exit code. env looks up environment variables.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, env func(string) string) int {
	return (&program{stdin: os.Stdin, stdout: stdout, stderr: stderr, env: env}).run(ctx, args)
}

func (p *program) run(ctx context.Context, args []string) int {
	app := p.app()
	args, err := interspersed(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	if err != nil {
		p.report(err)
	}
	return exitCode(err)
}

func (p *program) app() *urfave.App {
	app := &urfave.App{
		Name:  "leasehold",
		Usage: "leases with fencing tokens, agreed on by Raft",
		Description: "Exit codes: 0 done · 1 error, an unknown outcome among them · 2 usage · 75 not acquired, the lease is held ·\n" +
			"123 the lease is lost · 125 no server could be reached, or none could serve · 128+n ended by signal n ·\n" +
			"exec and elect: that of the command, 126 or 127 if it cannot be run",
		Version: version(),
		Commands: []*urfave.Command{
			p.serveCommand(p.serve),
			p.acquireCommand(),
			p.renewCommand(),
			p.releaseCommand(),
			p.revokeCommand(),
			p.getCommand(),
			p.listCommand(),
			p.watchCommand(),
			p.requestsCommand(),
			p.registerCommand(),
			p.execCommand(),
			p.electCommand(),
			p.guardCommand(),
			p.statusCommand(),
			p.inspectCommand(),
			p.faultCommand(),
			p.benchCommand(),
			p.versionCommand(),
		},
		EnableBashCompletion: true,
		Writer:               p.stdout,
		ErrWriter:            p.stderr,
		Action:               p.noCommand,
		// Run reports errors and gives the exit code; the library would end the process.
		ExitErrHandler: func(*urfave.Context, error) {},
		OnUsageError: func(_ *urfave.Context, err error, _ bool) error {
			return &usageError{message: plainFlagError(err)}
		},
	}
	for _, c := range app.Commands {
		settle(c)
	}
	return app
}

// settle gives a command, and those below it, what the library does not take over
// from the app. above are the names of the commands above it.
func settle(c *urfave.Command, above ...string) {
	path := append(slices.Clone(above), c.Name)
	// Otherwise "get help" shows a help text instead of the lease called help.
	c.HideHelpCommand = true
	c.CustomHelpTemplate = urfave.CommandHelpTemplate
	if len(c.Subcommands) > 0 {
		c.CustomHelpTemplate = urfave.SubcommandHelpTemplate
	}
	c.OnUsageError = func(_ *urfave.Context, err error, _ bool) error {
		return &usageError{command: strings.Join(path, " "), message: plainFlagError(err)}
	}
	for _, sub := range c.Subcommands {
		settle(sub, path...)
	}
}

// noCommand is reached when the first argument is not a command.
func (p *program) noCommand(c *urfave.Context) error {
	if name := c.Args().First(); name != "" {
		return &usageError{message: fmt.Sprintf("there is no command %q", name)}
	}
	return &usageError{message: "a command is missing"}
}

// noSubcommand is reached when what follows a command with subcommands is none
// of them.
func (p *program) noSubcommand(c *urfave.Context) error {
	if name := c.Args().First(); name != "" {
		return usagef(c, "there is no command %q", name)
	}
	return usagef(c, "a command is missing")
}
