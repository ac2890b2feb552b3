//go:build !unix

package cli

import (
	"errors"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
)

var passedOn []syscall.Signal

var errNoGroups = errors.New("exec and elect need a system with process groups")

// job cannot be had here.
type job struct{}

func startJob(*program, *client.Lease, []string) (*job, error) { return nil, errNoGroups }
func (*job) supervise(<-chan syscall.Signal) jobResult         { return jobResult{} }
func (*job) close()                                            {}
func (p *program) guard(*urfave.Context) error                 { return errNoGroups }
