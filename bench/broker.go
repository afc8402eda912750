package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// broker is one of the programs that are compared.
type broker struct {
	name    string
	command []string // prints a line READY host:port once it accepts connections
	flag    string   // that goes before each configuration key=value in the command, "" for none
}

// with is the broker with more configurations key=value.
func (b *broker) with(configs ...string) *broker {
	more := *b
	more.command = slices.Clone(b.command)
	for _, c := range configs {
		if b.flag != "" {
			more.command = append(more.command, b.flag)
		}
		more.command = append(more.command, c)
	}
	return &more
}

// in is kshare with a directory.
func (b *broker) in(dir string) *broker {
	more := *b
	more.command = append(slices.Clone(b.command), dirFlag, dir)
	return &more
}

// transactional is kshare with acknowledgements in transactions (KIP-1289).
func (b *broker) transactional() *broker {
	more := *b
	more.command = append(slices.Clone(b.command), kip1289Flag)
	return &more
}

const kip1289Flag = "--kip1289"

// dirFlag goes before the directory in kshare's command.
const dirFlag = "--dir"

const (
	kshareBroker = 0
	kfakeBroker  = 1
)

// recordLocks is how many records of a partition a group may hold in both brokers, locksEach.
const recordLocks = "group.share.partition.max.record.locks=10000"

// build compiles the brokers into dir. With a directory for profiles, kshare runs inside a program that writes its CPU profile there.
func build(ctx context.Context, dir, profiles string) ([2]broker, error) {
	var brokers [2]broker
	kshare := filepath.Join(dir, "kshare")
	fake := filepath.Join(dir, "kfake")
	brokers[kshareBroker] = broker{"kshare", []string{kshare, "serve", "--listen", "127.0.0.1:0"}, "--config"}
	brokers[kfakeBroker] = broker{"kfake", []string{fake}, ""}
	targets := [][3]string{{"..", kshare, "./cmd/kshare"}, {".", fake, "./kfake"}}
	if profiles != "" {
		targets[0] = [3]string{".", kshare, "./profiled"}
		brokers[kshareBroker].command, brokers[kshareBroker].flag = []string{kshare, profiles}, ""
	}
	brokers[kshareBroker] = *brokers[kshareBroker].with(recordLocks, "group.share.max."+strings.TrimPrefix(recordLocks, "group.share."))
	brokers[kfakeBroker] = *brokers[kfakeBroker].with(recordLocks)
	for _, t := range targets {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", t[1], t[2])
		cmd.Dir = t[0]
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return brokers, fmt.Errorf("building %s: %w\n%s", t[2], err, out)
		}
	}
	return brokers, nil
}

// process is a running broker.
type process struct {
	cmd   *exec.Cmd
	addr  string
	begun time.Time // just before exec
}

// start runs a broker until it accepts connections.
func (b *broker) start(ctx context.Context) (*process, error) {
	cmd := exec.CommandContext(ctx, b.command[0], b.command[1:]...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, begun: time.Now()}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", b.name, err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ready := strings.CutPrefix(strings.TrimSpace(line), "READY ")
	if err != nil || !ready {
		p.stop()
		return nil, fmt.Errorf("%s is not ready, it printed %q: %v", b.name, line, err)
	}
	go io.Copy(io.Discard, out)
	p.addr = addr
	return p, nil
}

// stop ends the process.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.cmd.Wait()
}

// cpu is the CPU time that all threads of the process have taken so far. It comes from the scheduler's own clock, which counts ns.
func (p *process) cpu() (time.Duration, error) { return p.clock(2) }

// userCPU is the part of it outside of the kernel, which counts it in ticks.
func (p *process) userCPU() (time.Duration, error) { return p.clock(1) }

// clock is a CPU clock of the process, by the kernel's number for its kind.
func (p *process) clock(kind int32) (time.Duration, error) {
	var t unix.Timespec
	id := int32(^p.cmd.Process.Pid)<<3 | kind // MAKE_PROCESS_CPUCLOCK of the kernel
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", p.cmd.Process.Pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Fields of /proc/PID/status.
const (
	rssNow  = "VmRSS"
	rssPeak = "VmHWM"
)

// memory reads a size from the process's status, in MiB.
func (p *process) memory(field string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s", p.cmd.Process.Pid, field)
}
