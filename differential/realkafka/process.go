package realkafka

import (
	"bytes"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// process is a running program that dies with its parent.
type process struct {
	cmd    *exec.Cmd
	output output
	ended  chan struct{}
	err    error // valid once ended
}

// run starts a program in a process group of its own.
func run(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	bindToParent(cmd)
	started := make(chan error)
	go func() {
		// The signal on a parent's death is bound to the thread that started the program, so the thread must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	return p, <-started
}

// kill ends the program and returns once it has ended.
func (p *process) kill() {
	killGroup(p.cmd)
	<-p.ended
}

// terminate asks the program to end, kills it if it has not after so long, and returns once it has ended.
func (p *process) terminate(within time.Duration) {
	if askToEnd(p.cmd) != nil {
		p.kill()
		return
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.kill()
	}
}

// log is the end of the program's output.
func (p *process) log() []byte { return p.output.end() }

// output keeps the end of what is written to it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// mostOutput is how many bytes of output are kept at least, where there are as many.
const mostOutput = 64 << 10

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(b)
	if o.b.Len() > 2*mostOutput {
		o.b.Next(o.b.Len() - mostOutput)
	}
	return len(b), nil
}

func (o *output) end() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(tail(o.b.Bytes()))
}
