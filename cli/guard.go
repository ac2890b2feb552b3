package cli

import urfave "github.com/urfave/cli/v2"

// guardName is the command that exec and elect start as a process of their own.
const guardName = "guard"

func (p *program) guardCommand() *urfave.Command {
	return &urfave.Command{Name: guardName, Usage: "for use by exec and elect", Hidden: true, Action: p.guard}
}
