// Command leasehold is a lease server and its command line.
package main

import (
	"os"

	"leasehold/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
