//go:build unix

package interop

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// buildKshare builds kshare and returns the path of its binary.
func buildKshare(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "kshare")
	build := exec.Command("go", "build", "-o", binary, "./cmd/kshare")
	build.Dir = ".."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "go build ./cmd/kshare:\n%s", out)
	return binary
}

// startBroker starts a kshare that ends with the test, and returns its bootstrap address; KSHARE_BOOTSTRAP names another
// broker to use instead.
func startBroker(t *testing.T, binary string) string {
	t.Helper()
	if bootstrap := os.Getenv("KSHARE_BOOTSTRAP"); bootstrap != "" {
		return bootstrap
	}
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0",
		"--config", "auto.create.topics.enable=false",
		"--config", "group.share.min.record.lock.duration.ms=1000")
	var log bytes.Buffer
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		assert.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		kill := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		assert.NoError(t, cmd.Wait(), "kshare must end cleanly on SIGTERM")
		if t.Failed() {
			t.Logf("log of kshare:\n%s", tail(log.Bytes()))
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, "kshare ended before it was ready:\n%s", log.Bytes())
	bootstrap, ok := strings.CutPrefix(strings.TrimSpace(line), "READY ")
	require.True(t, ok, "want READY host:port, got %q", line)
	return bootstrap
}

// tail returns the end of an output that may be long.
func tail(out []byte) []byte {
	const most = 20_000
	if len(out) > most {
		out = out[len(out)-most:]
	}
	return out
}
