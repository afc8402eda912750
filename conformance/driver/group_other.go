//go:build !unix

package driver

import "os/exec"

func ownGroup(*exec.Cmd) {}

// endGroup kills the process. Its children are left where there are no process groups.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = cmd.Process.Kill() // an error where it has ended
	}
}
