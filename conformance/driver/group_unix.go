//go:build unix

package driver

import (
	"os/exec"
	"syscall"
)

// ownGroup has a process lead a group of its own, so that its children can be ended with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup kills what is left of the group.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // ESRCH where nothing is left
	}
}
