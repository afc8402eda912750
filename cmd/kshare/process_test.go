package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asCommand in the environment makes the test binary the command itself.
const asCommand = "KSHARE_TEST_RUNS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// run runs the command to its end.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := commandOf(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode(), out.String(), errs.String()
	}
	require.NoError(t, err)
	return 0, out.String(), errs.String()
}

func commandOf(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// server is a running kshare serve.
type server struct {
	cmd    *exec.Cmd
	ready  string
	addrs  []string
	stdout *bufio.Reader
	stderr *bytes.Buffer
}

// serving starts kshare serve and returns once it is ready. It is stopped with the test.
func serving(t *testing.T, args ...string) *server {
	t.Helper()
	return starting(t, append([]string{"serve"}, args...)...)
}

// starting starts a command that serves and returns once it is ready. It is stopped with the test.
func starting(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{cmd: commandOf(args...), stderr: &bytes.Buffer{}}
	s.cmd.Stderr = s.stderr
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.stdout = bufio.NewReader(out)
	require.NoError(t, s.cmd.Start())
	s.ready, err = s.stdout.ReadString('\n')
	if err != nil {
		_ = s.cmd.Wait()
		t.Fatalf("kshare %s did not start: %s", strings.Join(args, " "), s.stderr)
	}
	list, ok := strings.CutPrefix(s.ready, "READY ")
	require.True(t, ok, s.ready)
	s.addrs = strings.Split(strings.TrimSuffix(list, "\n"), ",")
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			s.stop(t, syscall.SIGTERM)
		}
	})
	return s
}

// stop sends a signal and expects a clean end. It returns how long that took.
func (s *server) stop(t *testing.T, signal os.Signal) time.Duration {
	t.Helper()
	began := time.Now()
	require.NoError(t, s.cmd.Process.Signal(signal))
	rest, err := s.stdout.ReadString(0) // to its end
	require.ErrorContains(t, err, "EOF")
	require.Empty(t, rest, "nothing else goes to standard output")
	require.NoError(t, s.cmd.Wait(), "%s", s.stderr)
	require.NotContains(t, s.stderr.String(), "panic")
	return time.Since(began)
}
