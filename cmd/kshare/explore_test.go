package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/term"

	"kshare/explore"
)

// typed runs kshare explore with lines on its standard input.
func typed(t *testing.T, lines string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := commandOf(append([]string{"explore"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(lines), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), out.String(), errs.String()
	}
	require.NoError(t, err)
	return 0, out.String(), errs.String()
}

const lockExpires = `topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a b
join workers m1 orders
fetch workers m1
next
`

// Lines of a pipe are commands: each is shown with what it has shown and what it has changed.
func TestExploreLines(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "saved.txt")
	code, out, errs := typed(t, lockExpires+"undo\nundo\nredo\nstate workers\ntimers\nevents 2\nevent 1\nhelp next\nhelp fetch\nsave "+file+"\nsave "+file+"\nquit\nnonsense\n")
	require.Equal(t, 0, code, "%s%s", out, errs)
	require.Contains(t, out, `> fetch workers m1
orders-0: acquired 0-1 count 1, lock 30s
  0 a | 1 b
  * m1: a share session with node 1, of orders-0
  * orders-0 of workers: start 0
  * orders-0 of workers: 0-1 AVAILABLE -> ACQUIRED by m1 (delivery 1, lock ends 00:00:30)
> next
advance 30s
  time 00:00:00 -> 00:00:30
  * orders-0 of workers: 0-1 ACQUIRED by m1 -> AVAILABLE (delivery 1)
  * state log: ShareUpdate orders-0 of workers: start 0; 0-1 AVAILABLE count 1
> undo
undone: advance 30s
`)
	require.Contains(t, out, "undone: fetch workers m1\n")
	require.Contains(t, out, "done again: fetch workers m1\n")
	require.Contains(t, out, "  0-1       ACQUIRED by m1 (delivery 1, lock ends 00:00:30)\n")
	require.Contains(t, out, "in 30s        the lock of m1 on orders-0 0-1 ends\n")
	require.Contains(t, out, "<- ShareFetch v2 workers/m1 node 1 workers m1 orders-0")
	require.Contains(t, out, "Lets time pass until the next thing is due.")
	require.Contains(t, out, "fetch GROUP MEMBER")
	require.NotContains(t, out, "nonsense")

	code, out, errs = run(t, "run", file)
	require.Equal(t, 0, code, "what was saved is a scenario: %s%s", out, errs)
	code, out, _ = typed(t, "undo\nredo\n", "--script", file)
	require.Equal(t, 0, code)
	require.Contains(t, out, "done again: fetch workers m1\n")
	code, out, errs = typed(t, "load "+file+"\nsave "+filepath.Join(filepath.Dir(file), "other.txt")+"\nload "+filepath.Join(filepath.Dir(file), "none")+"\n")
	require.Equal(t, 1, code)
	require.Contains(t, out, "none: no such file")
	require.Contains(t, errs, "1 command was refused")
	first, err := os.ReadFile(file)
	require.NoError(t, err)
	second, err := os.ReadFile(filepath.Join(filepath.Dir(file), "other.txt"))
	require.NoError(t, err)
	require.Equal(t, string(first), string(second))
	_, out, _ = typed(t, "topic orders\nsave "+file+"\nsave --force "+file+"\n")
	require.Contains(t, out, "is there already: save --force")
}

// A line that is wrong is said to be, with what was meant, and the exit status tells that there was one.
func TestExploreMistakes(t *testing.T) {
	t.Parallel()
	code, out, errs := typed(t, "fech workers m1\nundo\nredo 0\nevent x\nstate nobody\nfetch workers\nsave\nwait f\nevents 1 2\ntopic orders\n")
	require.Equal(t, 1, code)
	for _, want := range []string{`error: there is no command "fech": did you mean fetch?; help lists them`, "error: there is nothing to undo", `error: "0" is no number from 1 to 10000`, `error: "x" is no number of an event`,
		`error: there is no group "nobody"`, "error: usage: fetch GROUP MEMBER", "error: usage: save FILE", "error: nothing runs under the name f", "error: usage: events [N]", "orders: 1 partition"} {
		require.Contains(t, out, want)
	}
	require.Contains(t, errs, "9 commands were refused")
	for want, args := range map[string][]string{
		"--export runs a script":       {"--export", "x"},
		"--write is for a cluster":     {"--write"},
		"--attach looks at":            {"--attach", "127.0.0.1:1", "--script", "x"},
		"--http serves a page":         {"--http", ":0", "--script", "x"},
		"--http-name is a name":        {"--http-name", "x"},
		"is not http://host:port":      {"--attach", "ftp://x"},
		"connection refused":           {"--attach", "127.0.0.1:1"},
		"--http \"nowhere\" is not":    {"--http", "nowhere"},
		"no such file":                 {"--script", "none"},
		`explore takes no arguments`:   {"file"},
		"has no flag --atach: did you": {"--atach", "x"},
	} {
		code, _, errs := typed(t, "", args...)
		require.Equal(t, 1, code, args)
		require.Contains(t, errs, want, args)
	}
}

// A script is exported without a word, and a mistake in it leaves no file.
func TestExploreExport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "script.txt")
	require.NoError(t, os.WriteFile(script, []byte(strings.Replace(lockExpires, "next", "advance 30s", 1)), 0o600))
	code, out, errs := typed(t, "", "--script", script, "--export", filepath.Join(dir, "a.ndjson"))
	require.Equal(t, "0", strings.Join([]string{string(rune('0' + code)), out, errs}, ""))
	a, err := os.ReadFile(filepath.Join(dir, "a.ndjson"))
	require.NoError(t, err)
	require.Contains(t, string(a), `"action":"expire"`)
	code, _, _ = typed(t, "load "+script+"\nexport "+filepath.Join(dir, "b.ndjson")+"\n")
	require.Equal(t, 0, code)
	b, err := os.ReadFile(filepath.Join(dir, "b.ndjson"))
	require.NoError(t, err)
	require.Equal(t, string(a), string(b))
	require.NoError(t, os.WriteFile(script, []byte("topic orders\nwait f\n"), 0o600))
	code, _, errs = typed(t, "", "--script", script, "--export", filepath.Join(dir, "c.ndjson"))
	require.Equal(t, 1, code)
	require.Contains(t, errs, "nothing runs under the name f")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3, "no half of a trace is left")
}

// The page is served by itself, and ends with a signal.
func TestExplorePage(t *testing.T) {
	t.Parallel()
	cmd := commandOf("explore", "--http", ":0")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	out := bufio.NewReader(stdout)
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^EXPLORE http://127\.0\.0\.1:[1-9][0-9]*/explore/\n$`, line)
	url := strings.TrimSuffix(strings.TrimPrefix(line, "EXPLORE "), "\n")
	get := func(url string) (string, int) {
		r, err := http.Get(url)
		require.NoError(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return string(text), r.StatusCode
	}
	page, _ := get(strings.TrimSuffix(url, "explore/"))
	require.Contains(t, page, "<title>kshare explorer</title>")
	sessions, _ := get(url + "api/sessions")
	require.JSONEq(t, `{"sessions":[]}`, sessions)
	_, status := get(url + "api/sessions/live")
	require.Equal(t, 404, status)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, out)
	require.NoError(t, cmd.Wait())
}

// attached is kshare explore --attach.
type attached struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	all strings.Builder
}

func attach(t *testing.T, args ...string) *attached {
	t.Helper()
	a := &attached{t: t, cmd: commandOf(append([]string{"explore", "--attach"}, args...)...)}
	var err error
	a.in, err = a.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := a.cmd.StdoutPipe()
	require.NoError(t, err)
	a.out = bufio.NewScanner(out)
	a.out.Buffer(nil, 1<<20)
	require.NoError(t, a.cmd.Start())
	t.Cleanup(func() {
		if a.cmd.ProcessState == nil {
			_ = a.cmd.Process.Kill()
			_ = a.cmd.Wait()
		}
	})
	return a
}

// until reads lines up to one that has a text in it.
func (a *attached) until(text string) {
	a.t.Helper()
	for a.out.Scan() {
		a.all.WriteString(a.out.Text() + "\n")
		if strings.Contains(a.out.Text(), text) {
			return
		}
	}
	require.Fail(a.t, "it ended without "+text, a.all.String())
}

func (a *attached) line(text string) {
	a.t.Helper()
	_, err := io.WriteString(a.in, text+"\n")
	require.NoError(a.t, err)
}

// A running kshare is watched while a client works, and changed only by who may.
func TestExploreAttach(t *testing.T) {
	t.Parallel()
	s, url := controlled(t, "--topic", "orders:1", "--config", "group.share.record.lock.duration.ms=15000")
	watching := attach(t, url)
	watching.line("state")
	watching.until("> state")
	writing := attach(t, url, "--write")
	writing.line("config group workers share.auto.offset.reset=earliest")
	writing.until("workers: ok")
	producer, err := kgo.NewClient(kgo.SeedBrokers(s.addrs...), kgo.DefaultProduceTopic("orders"))
	require.NoError(t, err)
	defer producer.Close()
	require.NoError(t, producer.ProduceSync(context.Background(), &kgo.Record{Value: []byte("a")}).FirstErr())
	watching.until("orders-0: offsets 0 appended")
	consumer, err := kgo.NewClient(kgo.SeedBrokers(s.addrs...), kgo.ConsumeTopics("orders"), kgo.ShareGroup("workers"))
	require.NoError(t, err)
	require.Len(t, consumer.PollFetches(context.Background()).Records(), 1)
	watching.until("orders-0 of workers: 0 AVAILABLE -> ACQUIRED by ")
	consumer.Close()
	watching.until("is no member of workers any more")
	watching.line("produce orders-0 b")
	watching.until("error: this only looks at the cluster: --write lets commands change it")
	watching.line("undo")
	watching.until("error: a running cluster has no script")
	watching.line("events 1")
	watching.until("<- ")

	writing.line("fault slow api=Produce delay=1s")
	writing.until("slow: set")
	watching.until("fault slow: ")
	writing.line("produce orders-0 b")
	writing.until("orders-0: offset 1")
	writing.line("state")
	writing.until("orders-0 of workers")
	writing.line("quit")
	require.False(t, writing.out.Scan() && writing.out.Text() == "", "it ends")
	require.NoError(t, writing.cmd.Wait())
	s.stop(t, syscall.SIGTERM)
	for watching.out.Scan() {
	}
	require.Error(t, watching.cmd.Wait(), "kshare has ended")
}

// A tabulator completes a line as far as there is no choice, and lists the choices.
func TestTabulator(t *testing.T) {
	t.Parallel()
	s := explore.New()
	defer s.Close()
	for _, c := range []string{"topic orders", "topic orders-more", "join workers m1 orders"} {
		_, err := s.Do(context.Background(), c)
		require.NoError(t, err)
	}
	var shown bytes.Buffer
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{strings.NewReader(""), &shown}, "")
	c := completing{explore.NewTerminal(s, screen), screen}
	for line, want := range map[string]string{"prod": "produce ", "und": "undo ", "produce o": "produce orders-", "fetch wo": "fetch workers ", "help unf": "help unfault ", "nothing at all": "nothing at all"} {
		got, pos, ok := c.key(line, len(line), '\t')
		require.True(t, ok)
		require.Equal(t, want, got)
		require.Equal(t, len(want), pos)
	}
	_, _, ok := c.key("prod", 4, 'x')
	require.False(t, ok)
	require.NotContains(t, shown.String(), "orders-more-0")
	_, _, _ = c.key("produce orders-", len("produce orders-"), '\t')
	require.Contains(t, shown.String(), "orders-more-0")
}

// Lines that were typed are there the next time.
func TestHistory(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "history")
	h, err := openHistory(name)
	require.NoError(t, err)
	require.NoError(t, h.save())
	require.NoFileExists(t, name)
	for _, l := range []string{"a", "b", "b", ""} {
		h.Add(l)
	}
	require.NoError(t, h.save())
	h, err = openHistory(name)
	require.NoError(t, err)
	require.Equal(t, 2, h.Len())
	require.Equal(t, "b", h.At(0))
	for range 2 * maxHistory {
		h.Add("c")
		h.Add("d")
	}
	require.Equal(t, maxHistory, h.Len())
}
