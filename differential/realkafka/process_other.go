//go:build !linux

package realkafka

import (
	"errors"
	"os"
	"os/exec"
)

// bindToParent does nothing where the system cannot tell a program of its parent's death.
func bindToParent(*exec.Cmd) {}

// killGroup kills the program.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// askToEnd asks the program to end.
func askToEnd(cmd *exec.Cmd) error { return cmd.Process.Signal(os.Interrupt) }

// errNoSuspension says that this is done on Linux only.
var errNoSuspension = errors.New("realkafka: processes are suspended on Linux only")

// suspend fails.
func (*process) suspend() error { return errNoSuspension }

// resume fails.
func (*process) resume() error { return errNoSuspension }
