package kshare_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// pages are the pages whose commands are run.
func pages(t *testing.T) []string {
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	return append([]string{"README.md"}, docs...)
}

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestCommandsOfThePages runs every command that the README and the pages behind it show.
func TestCommandsOfThePages(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts the binary for each command")
	}
	root, err := os.Getwd()
	require.NoError(t, err)
	binary := filepath.Join(t.TempDir(), "kshare")
	run(t, root, "go", "build", "-o", binary, "./cmd/kshare")
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			for _, command := range strings.Split(strings.TrimSpace(block[1]), "\n") {
				t.Run(page+"/"+command, func(t *testing.T) { runCommand(t, root, binary, command) })
			}
		}
	}
}

// runCommand runs one command of a page the way its reader would, in a directory of its own where it writes something.
func runCommand(t *testing.T, root, binary, command string) {
	words := strings.Fields(command)
	switch {
	case command == "make run":
		serves(t, exec.Command("make", "-C", root, "-s", "run", "LISTEN=127.0.0.1:0"), true)
	case command == "make test":
		text, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
		require.NoError(t, err)
		require.Contains(t, string(text), "\nmake test\n", "CI runs it")
	case command == "go build -o bin/kshare ./cmd/kshare":
		run(t, root, "go", "build", "-o", filepath.Join(t.TempDir(), "kshare"), "./cmd/kshare")
	case strings.HasPrefix(command, "bin/kshare serve "):
		cmd := exec.Command(binary, words[1:]...)
		cmd.Dir = t.TempDir()
		serves(t, cmd, false)
	case strings.HasPrefix(command, "go mod edit "):
		dir := t.TempDir()
		run(t, dir, "go", "mod", "init", "example")
		run(t, dir, words[0], words[1:]...)
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		require.NoError(t, err)
		require.Contains(t, string(text), "replace kshare => ../kshare")
	default:
		t.Fatalf("no test knows how to run %q: add it here", command)
	}
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
}

var readyLine = regexp.MustCompile(`(?m)^READY (\S+)$`)

// serves starts a command that serves Kafka clients, has a record go through it, and ends it. Under make the signal goes to the whole process group.
func serves(t *testing.T, cmd *exec.Cmd, roundTrip bool) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	defer func() {
		require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM))
		_, _ = io.Copy(io.Discard, out)
		err := cmd.Wait()
		if !strings.HasSuffix(cmd.Path, "make") {
			require.NoError(t, err, stderr.String())
		}
	}()
	var addrs string
	lines := bufio.NewScanner(out)
	for addrs == "" && lines.Scan() {
		if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
			addrs = m[1]
		}
	}
	require.NotEmpty(t, addrs, "it ended without READY: %s", stderr.String())
	if roundTrip {
		produceAndConsume(t, strings.Split(addrs, ","))
	}
}

// produceAndConsume has a record go to a broker and come back to a consumer and to a share consumer.
func produceAndConsume(t *testing.T, addrs []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	producer, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.AllowAutoTopicCreation())
	require.NoError(t, err)
	defer producer.Close()
	setGroupConfig(t, producer, "workers", "share.auto.offset.reset", "earliest")
	require.NoError(t, producer.ProduceSync(ctx, &kgo.Record{Topic: "round-trip", Value: []byte("a")}).FirstErr())
	for name, group := range map[string]kgo.GroupOpt{"consumer": kgo.ConsumerGroup("readers"), "share consumer": kgo.ShareGroup("workers")} {
		consumer, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ConsumeTopics("round-trip"), group, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		require.NoError(t, err, name)
		fetches := consumer.PollFetches(ctx)
		require.NoError(t, fetches.Err(), name)
		require.Len(t, fetches.Records(), 1, name)
		consumer.Close()
	}
}
