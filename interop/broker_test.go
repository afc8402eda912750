//go:build unix

package interop

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/conformance/report"
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
	verdicts := filepath.Join(t.TempDir(), "verdicts.json")
	ready := serve(t, binary, func() { checkVerdicts(t, verdicts) }, 0, "--config", "group.share.min.record.lock.duration.ms=1000", "--judge-report", verdicts)
	return ready["READY"]
}

// secured is a kshare where clients have to say who they are and may do what rules say. It ends with the test.
type secured struct {
	plain   string // the listener without either, whose clients are super users
	saslSSL string // where alice:alice-secret can log in
	ssl     string // where clients show certificates; there is one of bob
	// certificates is the directory of ca.pem, bob.pem and bob.key.
	certificates string
}

func startSecured(t *testing.T, binary string) *secured {
	t.Helper()
	s := &secured{certificates: t.TempDir()}
	ready := serve(t, binary, func() {}, 3, "--listener", "SASL_SSL://127.0.0.1:0", "--listener", "SSL://127.0.0.1:0",
		"--sasl-user", "alice:alice-secret", "--tls-out", s.certificates, "--tls-client", "bob", "--config", "listener.name.ssl.ssl.client.auth=required",
		"--authorizer", "--super-user", "User:ANONYMOUS")
	s.plain, s.saslSSL, s.ssl = ready["PLAINTEXT"], ready["SASL_SSL"], ready["SSL"]
	return s
}

// arguments are what the programs about security take.
func (s *secured) arguments() []string { return []string{s.plain, s.saslSSL, s.ssl, s.certificates} }

// serve starts a kshare that ends with the test, and returns the address of READY and those of as many listeners, by name. ended is called once it has
// ended.
func serve(t *testing.T, binary string, ended func(), listeners int, args ...string) map[string]string {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"serve", "--listen", "127.0.0.1:0", "--config", "auto.create.topics.enable=false"}, args...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	t.Cleanup(func() {
		assert.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		kill := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_, err := io.Copy(io.Discard, lines)
		assert.NoError(t, err)
		assert.NoError(t, cmd.Wait(), "kshare must end cleanly on SIGTERM")
		ended()
		if t.Failed() {
			t.Logf("log of kshare:\n%s", tail(log.Bytes()))
		}
	})
	addrs := map[string]string{}
	for range 1 + listeners {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, "kshare ended before it was ready:\n%s", log.Bytes())
		words := strings.Fields(strings.TrimPrefix(line, "LISTENER "))
		require.Len(t, words, 2, "want READY host:port or LISTENER NAME host:port, got %q", line)
		addrs[words[0]] = words[1]
	}
	return addrs
}

// tail returns the end of an output that may be long.
func tail(out []byte) []byte {
	const most = 20_000
	if len(out) > most {
		out = out[len(out)-most:]
	}
	return out
}

// foundBroken are the rules that a client must keep and is known to break, with the API: docs/findings.md has the exchanges.
var foundBroken = map[string]string{
	"wire.schema.1": "rdkafka Metadata",
}

// checkVerdicts reads what the judge said of all clients: none breaks a rule that it must keep, but for what is known.
func checkVerdicts(t *testing.T, name string) {
	t.Helper()
	file, err := os.Open(name)
	if !assert.NoError(t, err) {
		return
	}
	defer file.Close()
	r, err := report.Read(file)
	if !assert.NoError(t, err) {
		return
	}
	for _, id := range r.Failures {
		for _, e := range r.Rule(id).Evidence {
			assert.Equal(t, foundBroken[id], e.Client+" "+e.API, "%s: %s", id, e.Says)
		}
	}
}
