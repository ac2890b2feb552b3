//go:build !linux

package torture

import "os/exec"

// starter starts processes. They end with us when we end them; a crash of ours leaves
// them behind, for only Linux can tell them of it.
func starter(<-chan struct{}) (start func(*exec.Cmd) error) {
	return func(cmd *exec.Cmd) error { return cmd.Start() }
}
