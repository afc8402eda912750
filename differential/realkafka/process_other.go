//go:build !linux

package realkafka

import "os/exec"

// bindToParent does nothing where the system cannot tell a program of its parent's death.
func bindToParent(*exec.Cmd) {}

// killGroup kills the program.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
