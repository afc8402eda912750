package kshare_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
		reader := &reader{t: t, root: root, binary: binary}
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			for _, command := range strings.Split(strings.TrimSpace(block[1]), "\n") {
				t.Run(page+"/"+command, func(t *testing.T) { reader.run(t, command) })
			}
		}
		if reader.leave != nil {
			reader.leave()
		}
	}
}

// controlAddress is where the control interface is on the pages.
const controlAddress = "127.0.0.1:8080"

// reader follows a page.
type reader struct {
	t            *testing.T // of all commands
	root, binary string
	http         string // where the control interface is of the kshare that the page has started
	leave        func() // ends that kshare
	trace        string // what kshare check has written last
	dir          string // where the page's reports of the judge are, "" before the first
}

// judgeDir is where the reports and recordings of a page are: one command reads what another has written.
func (r *reader) judgeDir() string {
	if r.dir == "" {
		r.dir = r.t.TempDir()
	}
	return r.dir
}

// judge runs kshare judge and its kin.
func (r *reader) judge(t *testing.T, words []string) {
	for i, w := range words {
		if strings.HasPrefix(w, "conformance/drivers/") {
			words[i] = filepath.Join(r.root, w)
		}
	}
	if words[1] != "proxy" {
		run(t, r.judgeDir(), r.binary, words...)
		return
	}
	i := slices.Index(words, kafkaAddress)
	require.Positive(t, i, "the proxy stands in front of %s", kafkaAddress)
	addrs, _, end := started(t, exec.Command(r.binary, "serve", "--listen", "127.0.0.1:0"), false)
	defer end()
	words[i] = addrs
	cmd := exec.Command(r.binary, words...)
	cmd.Dir = r.judgeDir()
	serves(t, cmd, true)
	for k, w := range words {
		if w == "--report" {
			require.FileExists(t, filepath.Join(cmd.Dir, words[k+1]))
		}
	}
}

// run runs one command of a page the way its reader would, in a directory of its own where it writes something.
func (r *reader) run(t *testing.T, command string) {
	root, binary := r.root, r.binary
	words := strings.Fields(command)
	switch {
	case command == "make run":
		serves(t, exec.Command("make", "-C", root, "-s", "run", "LISTEN=127.0.0.1:0", "HTTP=127.0.0.1:0"), true)
	case command == "make test":
		text, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
		require.NoError(t, err)
		require.Contains(t, string(text), "\nmake test\n", "CI runs it")
	case command == "go build -o bin/kshare ./cmd/kshare":
		run(t, root, "go", "build", "-o", filepath.Join(t.TempDir(), "kshare"), "./cmd/kshare")
	case strings.HasPrefix(command, "bin/kshare serve ") && strings.Contains(command, "--http "+controlAddress):
		cmd := exec.Command(binary, strings.Fields(strings.ReplaceAll(command, controlAddress, "127.0.0.1:0"))[1:]...)
		_, r.http, r.leave = started(r.t, cmd, true)
	case strings.HasPrefix(command, "bin/kshare sink "):
		r.runSink(t, words[1:])
	case words[0] == "curl":
		if _, err := exec.LookPath("curl"); err != nil {
			t.Skip("curl is not installed")
		}
		require.NotEmpty(t, r.http, "the page has started no kshare with --http %s", controlAddress)
		run(t, root, "bash", "-c", "curl --fail-with-body -S "+strings.NewReplacer(controlAddress, r.http, connectAddress, r.http).Replace(strings.TrimPrefix(command, "curl ")))
	case words[0] == "bin/kshare" && words[1] == "explore":
		r.explore(t, words[1:])
	case words[0] == "bin/kshare" && words[1] == "judge":
		r.judge(t, words[1:])
	case words[0] == "bin/kshare" && (words[1] == "run" || words[1] == "diff" || words[1] == "commands" || words[1] == "kip1289"):
		r.runScenario(t, words[1:])
	case words[0] == "bin/kshare" && words[1] == "check":
		r.check(t, words[1:])
	case strings.HasPrefix(command, "bin/kshare serve "):
		cmd := exec.Command(binary, strings.Fields(strings.ReplaceAll(command, kafkaAddress, "127.0.0.1:0"))[1:]...)
		cmd.Dir = t.TempDir()
		judged := strings.Contains(command, " --judge")
		if judged {
			cmd.Dir = r.judgeDir()
		}
		serves(t, cmd, judged)
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

// explore runs kshare explore, which somebody leaves at once; the kshare that it looks at is the one that the page has started.
func (r *reader) explore(t *testing.T, words []string) {
	cmd := exec.Command(r.binary, words...)
	cmd.Dir = r.root
	for i, w := range cmd.Args {
		if w == "run.ndjson" {
			cmd.Args[i] = filepath.Join(t.TempDir(), w)
		}
	}
	if i := slices.Index(cmd.Args, "--attach"); i >= 0 {
		require.NotEmpty(t, r.http, "the page has started no kshare with --http %s", controlAddress)
		cmd.Args[i+1] = "http://" + r.http
	}
	if i := slices.Index(cmd.Args, "--http"); i >= 0 {
		cmd.Args[i+1] = "127.0.0.1:0"
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, "EXPLORE http://127.0.0.1:")
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
		return
	}
	cmd.Stdin = strings.NewReader("quit\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v: %s", words, out)
}

var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")

// What pages show of kshare explore is what it shows: the lines behind > are typed, the others are the answers.
func TestTranscriptsOfThePages(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	root, err := os.Getwd()
	require.NoError(t, err)
	binary := filepath.Join(t.TempDir(), "kshare")
	run(t, root, "go", "build", "-o", binary, "./cmd/kshare")
	found := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
			found++
			var typed strings.Builder
			for line := range strings.Lines(block[1]) {
				if command, ok := strings.CutPrefix(line, "> "); ok {
					typed.WriteString(command)
				}
			}
			cmd := exec.Command(binary, "explore")
			cmd.Dir, cmd.Stdin = t.TempDir(), strings.NewReader(typed.String())
			out, err := cmd.Output()
			require.NoError(t, err, page)
			require.Equal(t, block[1], string(out), page)
		}
	}
	require.Equal(t, 2, found)
}

// check runs kshare check. A trace that it writes is there for the commands behind it; with a switch there is one.
func (r *reader) check(t *testing.T, words []string) {
	at := slices.Index(words, "--trace")
	if at < 0 {
		run(t, r.root, r.binary, words...)
		return
	}
	require.Equal(t, "trace.txt", words[at+1])
	r.trace = filepath.Join(r.t.TempDir(), words[at+1])
	words[at+1] = r.trace
	out, err := exec.Command(r.binary, words...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "broken: ")
	require.FileExists(t, r.trace)
}

// kafkaAddress is where the pages take a Kafka to be.
const kafkaAddress = "127.0.0.1:9092"

// connectAddress is where the REST interface of a sink worker is on the pages.
const connectAddress = "127.0.0.1:8083"

// runSink runs kshare sink until it is ready, against a kshare of its own, in a directory of its own. One with --http runs on for the page.
func (r *reader) runSink(t *testing.T, words []string) {
	addrs, _, end := started(r.t, exec.Command(r.binary, "serve", "--listen", "127.0.0.1:0", "--kip1289", "--topic", "orders:1", "--topic", "invoices:1"), false)
	dir, http := r.t.TempDir(), false
	for i, w := range words {
		switch {
		case w == connectAddress:
			words[i], http = "127.0.0.1:0", true
		case strings.HasSuffix(w, ".properties"):
			text, err := os.ReadFile(filepath.Join(r.root, w))
			require.NoError(t, err)
			words[i] = filepath.Join(dir, filepath.Base(w))
			require.NoError(t, os.WriteFile(words[i], []byte(strings.ReplaceAll(string(text), kafkaAddress, addrs)), 0o600))
		}
	}
	cmd := exec.Command(r.binary, words...)
	cmd.Dir = dir
	_, address, leave := started(r.t, cmd, http)
	stop := func() { leave(); end() }
	if !http {
		stop()
		return
	}
	if r.leave != nil {
		r.leave()
	}
	r.http, r.leave = address, stop
}

// runScenario runs kshare run and its kin in the root of the module; what it writes goes elsewhere, and the Kafka is a kshare.
func (r *reader) runScenario(t *testing.T, words []string) {
	dir := t.TempDir()
	for i, w := range words {
		switch w {
		case kafkaAddress:
			addrs, _, end := started(t, exec.Command(r.binary, "serve", "--listen", "127.0.0.1:0", "--timing", "kafka", "--config", "group.initial.rebalance.delay.ms=0"), false)
			defer end()
			words[i] = addrs
		case "trace.txt":
			require.NotEmpty(t, r.trace, "the page has written no trace")
			words[i] = r.trace
		case "report.xml":
			words[i] = filepath.Join(dir, w)
		case "my-scenario.txt":
			words[i] = filepath.Join(dir, w)
			require.NoError(t, os.WriteFile(words[i], []byte("topic orders\n"), 0o644))
		}
	}
	run(t, r.root, r.binary, words...)
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
}

var (
	readyLine = regexp.MustCompile(`(?m)^READY (\S+)$`)
	httpLine  = regexp.MustCompile(`(?m)^HTTP (\S+)$`)
)

// serves starts a command that serves Kafka clients, has a record go through it, and ends it.
func serves(t *testing.T, cmd *exec.Cmd, roundTrip bool) {
	t.Helper()
	addrs, _, end := started(t, cmd, false)
	defer end()
	if roundTrip {
		produceAndConsume(t, strings.Split(addrs, ","))
	}
}

// started starts a command that serves Kafka clients and returns what it says of its addresses and how it is ended. Under make the signal goes to the whole
// process group.
func started(t *testing.T, cmd *exec.Cmd, http bool) (addrs, httpAddr string, end func()) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	end = func() {
		require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM))
		_, _ = io.Copy(io.Discard, out)
		err := cmd.Wait()
		if !strings.HasSuffix(cmd.Path, "make") {
			require.NoError(t, err, stderr.String())
		}
	}
	lines := bufio.NewScanner(out)
	for (addrs == "" || http && httpAddr == "") && lines.Scan() {
		if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
			addrs = m[1]
		}
		if m := httpLine.FindStringSubmatch(lines.Text()); m != nil {
			httpAddr = m[1]
		}
	}
	if addrs == "" || http && httpAddr == "" {
		end()
		require.Fail(t, "it ended without READY, or without HTTP", stderr.String())
	}
	return addrs, httpAddr, end
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
