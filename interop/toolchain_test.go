//go:build unix

package interop

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cache holds what is fetched or built once: a Python environment and the Rust build.
const cache = ".cache"

// buildLimit bounds one step of a build, a first download with it.
const buildLimit = 15 * time.Minute

// need fails the test when a program is not installed.
func need(t *testing.T, program, install string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%s is not installed: install %s", program, install)
	}
}

// run runs one command in dir and returns what it printed. A status other than 0 or the end of the limit fails the
// test with that output. The command's whole process group is gone afterwards.
func run(t *testing.T, limit time.Duration, dir string, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	err := cmd.Run()
	if cmd.Process != nil {
		_ = kill()
	}
	took := time.Since(start).Round(100 * time.Millisecond)
	if ctx.Err() != nil {
		t.Fatalf("%s: not done within %s; its output:\n%s", strings.Join(args, " "), limit, tail(out.Bytes()))
	}
	if err != nil {
		t.Fatalf("%s: %v after %s; its output:\n%s", strings.Join(args, " "), err, took, tail(out.Bytes()))
	}
	return out.String()
}

// once runs make unless it has already succeeded with the same content of the file that pins the versions.
func once(t *testing.T, pins, marker string, make func()) {
	t.Helper()
	want, err := os.ReadFile(pins)
	require.NoError(t, err)
	if got, err := os.ReadFile(marker); err == nil && bytes.Equal(want, got) {
		return
	}
	make()
	require.NoError(t, os.WriteFile(marker, want, 0o644))
}

// javaCommand compiles the Maven module and returns the start of a command line that runs one of its classes.
func javaCommand(t *testing.T) []string {
	t.Helper()
	need(t, "java", "a JDK, version 17 or later")
	need(t, "javac", "a JDK, version 17 or later")
	need(t, "mvn", "Maven")
	run(t, buildLimit, "java", nil, "mvn", "-q", "-B", "compile", "dependency:build-classpath")
	classpath, err := os.ReadFile("java/target/classpath.txt")
	require.NoError(t, err)
	return []string{
		"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", "target/classes:" + string(classpath),
	}
}

// pythonCommand makes a virtual environment with the pinned packages and returns its interpreter.
func pythonCommand(t *testing.T) []string {
	t.Helper()
	need(t, "python3", "Python 3.10 or later with venv")
	venv, err := filepath.Abs(filepath.Join(cache, "python"))
	require.NoError(t, err)
	python := filepath.Join(venv, "bin", "python")
	once(t, "python/requirements.txt", filepath.Join(venv, "installed"), func() {
		run(t, buildLimit, ".", nil, "python3", "-m", "venv", "--clear", venv)
		run(t, buildLimit, "python", nil, python, "-m", "pip", "install", "--quiet", "-r", "requirements.txt")
	})
	return []string{python, "-B"}
}

// nodeCommand installs the locked packages and returns the interpreter.
func nodeCommand(t *testing.T) []string {
	t.Helper()
	need(t, "node", "Node.js 18 or later")
	need(t, "npm", "npm, which comes with Node.js")
	once(t, "node/package-lock.json", "node/node_modules/.installed", func() {
		run(t, buildLimit, "node", nil, "npm", "ci", "--no-audit", "--no-fund")
	})
	return []string{"node"}
}

// rustCommand builds the crate and returns its binary.
func rustCommand(t *testing.T) []string {
	t.Helper()
	need(t, "cargo", "Rust 1.95 or later with cargo")
	need(t, "cc", "a C compiler: krafka's TLS library compiles C")
	target, err := filepath.Abs(filepath.Join(cache, "rust"))
	require.NoError(t, err)
	writeCargoLock(t)
	run(t, buildLimit, "rust", []string{"CARGO_TARGET_DIR=" + target}, "cargo", "build", "--quiet", "--locked")
	return []string{filepath.Join(target, "debug", "kshare-interop")}
}

// writeCargoLock completes versions.lock to a Cargo.lock. The former is the lock file without the lines that say where
// a package comes from; cargo names its registry itself when it makes a lock file of its own.
func writeCargoLock(t *testing.T) {
	t.Helper()
	const source = "source = "
	once(t, "rust/versions.lock", filepath.Join(cache, "versions.lock"), func() {
		pinned, err := os.ReadFile("rust/versions.lock")
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll("rust/Cargo.lock"))
		run(t, buildLimit, "rust", nil, "cargo", "generate-lockfile", "--quiet")
		made, err := os.ReadFile("rust/Cargo.lock")
		require.NoError(t, err)
		_, rest, ok := strings.Cut(string(made), "\n"+source)
		require.True(t, ok, "no source in the lock file that cargo made")
		registry, _, _ := strings.Cut(rest, "\n")
		lock := strings.ReplaceAll(string(pinned), "\nchecksum = ", "\n"+source+registry+"\nchecksum = ")
		require.NoError(t, os.WriteFile("rust/Cargo.lock", []byte(lock), 0o644))
	})
}
