package realkafka

import (
	"os/exec"
	"syscall"
)

// bindToParent makes the program the leader of a process group and has the kernel kill it when its parent dies.
func bindToParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup kills the program and what it started.
func killGroup(cmd *exec.Cmd) { _ = signal(cmd, syscall.SIGKILL) }

// askToEnd asks the program, and what it started, to end.
func askToEnd(cmd *exec.Cmd) error { return signal(cmd, syscall.SIGTERM) }

// suspend keeps the program from running until it is resumed.
func (p *process) suspend() error { return signal(p.cmd, syscall.SIGSTOP) }

// resume ends suspend.
func (p *process) resume() error { return signal(p.cmd, syscall.SIGCONT) }

func signal(cmd *exec.Cmd, s syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, s) }
