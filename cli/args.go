package cli

import (
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

// The library stops looking for flags at the first argument that is not one, so
// that "release NAME --token 7" would leave --token among the arguments. The
// whole line is put in order here, before the library sees it:
//
//	release jobs/a --token 7 --json   →   release --token 7 --json -- jobs/a
//
// It is done once for all commands, by their flag definitions: only those tell
// whether the word after a flag is its value. What follows a "--" is never a flag.

// runsCommand are the commands for which a "--" also divides their arguments: what
// follows it is another command.
var runsCommand = []string{"exec", "elect"}

// completionFlag ends a line that the shell wants completed.
const completionFlag = "--generate-bash-completion"

// interspersed puts the flags of the command in args before its arguments.
func interspersed(app *urfave.App, args []string) ([]string, error) {
	if len(args) == 0 {
		return []string{app.Name}, nil
	}
	if args[len(args)-1] == completionFlag {
		return args, nil // the library completes what stands before the cursor
	}
	// Flags of leasehold itself take no values, so the first word without a dash
	// is the command.
	commands, at := app.Commands, 0
	var command *urfave.Command
	var path []string
	for at+1 < len(args) {
		word := args[at+1]
		if command == nil && isFlag(word) {
			at++
			continue
		}
		next := slices.IndexFunc(commands, func(c *urfave.Command) bool { return c.HasName(word) })
		if next < 0 {
			break
		}
		command, commands, at = commands[next], commands[next].Subcommands, at+1
		path = append(path, command.Name)
	}
	if command == nil {
		return args, nil
	}
	flags, rest, err := split(command, strings.Join(path, " "), args[at+1:])
	if err != nil {
		return nil, err
	}
	ordered := append(slices.Clone(args[:at+1]), flags...)
	if len(rest) > 0 {
		ordered = append(append(ordered, "--"), rest...)
	}
	return ordered, nil
}

// split tells the flags of a command, with their values, from its arguments. Its
// path is its name after those of the commands above it.
func split(command *urfave.Command, path string, words []string) (flags, rest []string, err error) {
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		switch {
		case word == "--" && len(rest) > 0 && slices.Contains(runsCommand, command.Name):
			return flags, append(append(rest, word), words...), nil
		case word == "--":
			return flags, append(rest, words...), nil
		case !isFlag(word):
			rest = append(rest, word)
		case isHelp(word):
			// Alone, because the library takes an argument beside it for a topic.
			return []string{"--help"}, nil, nil
		case !takesValue(command, word):
			flags = append(flags, word)
		case len(words) == 0:
			return nil, nil, &usageError{
				command: path,
				message: fmt.Sprintf("flag needs an argument: --%s", strings.TrimLeft(word, "-")),
			}
		default:
			// The next word is the value, even when it starts with a dash.
			flags = append(flags, word, words[0])
			words = words[1:]
		}
	}
	return flags, rest, nil
}

// isFlag: a lone dash is an argument.
func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' }

func isHelp(word string) bool {
	return word == "--help" || word == "-help" || word == "-h" || word == "--h"
}

// takesValue says whether the word after this flag belongs to it. An unknown
// flag takes none; the library then says that it is unknown.
func takesValue(command *urfave.Command, word string) bool {
	name := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, flag := range command.Flags {
		if slices.Contains(flag.Names(), name) {
			documented, ok := flag.(urfave.DocGenerationFlag)
			return ok && documented.TakesValue()
		}
	}
	return false
}
