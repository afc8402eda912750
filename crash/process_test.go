// Package crash tests that what a cluster has answered outlives it: a kill of the process, a restart, a loss of
// power, a full disk and damaged files.
package crash

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var binary struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if binary.dir != "" {
		_ = os.RemoveAll(binary.dir)
	}
	os.Exit(code)
}

// kshareBinary builds the command once for all tests and returns its path.
func kshareBinary(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "kshare"); binary.err != nil {
			return
		}
		var out []byte
		if out, binary.err = exec.Command("go", "build", "-o", binary.dir, "kshare/cmd/kshare").CombinedOutput(); binary.err != nil {
			binary.err = fmt.Errorf("%w: %s", binary.err, out)
		}
	})
	require.NoError(t, binary.err)
	name := "kshare"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(binary.dir, name)
}

// fixedPort finds a port that is free and lies below the ports that the system hands out to clients, so that
// none takes it while the broker is down.
func fixedPort(t *testing.T, rng *rand.Rand) int {
	t.Helper()
	for range 100 {
		port := 20000 + rng.IntN(10000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	t.Fatal("no port from 20000 to 30000 is free")
	return 0
}

// process is a running kshare serve.
type process struct {
	cmd  *exec.Cmd
	logs *bytes.Buffer
	done chan error // what Wait returned
}

// startProcess starts kshare serve and returns once it accepts connections.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(kshareBinary(t), append([]string{"serve"}, args...)...), logs: &bytes.Buffer{}, done: make(chan error, 1)}
	p.cmd.Stderr = p.logs
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	ready, err := bufio.NewReader(out).ReadString('\n')
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // where the test has failed before it ended the process
	if err != nil {
		<-p.done
		t.Fatalf("kshare %s did not start: %s", strings.Join(args, " "), p.logs)
	}
	require.Regexp(t, `^READY \S+\n$`, ready)
	return p
}

// kill ends the process without a chance to do anything.
func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	<-p.done
	require.NotContains(t, p.logs.String(), "panic")
}

// terminate asks the process to end and expects that it does so well.
func (p *process) terminate(t *testing.T, ctx context.Context) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	select {
	case err := <-p.done:
		require.NoError(t, err, "%s", p.logs)
	case <-ctx.Done():
		t.Fatal("kshare does not end")
	}
	require.NotContains(t, p.logs.String(), "panic")
}
