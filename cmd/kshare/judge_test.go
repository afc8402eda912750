package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// breaks sends a ShareAcknowledge with the epoch 0 straight after connecting, which three rules forbid.
func breaks(t *testing.T, address string) {
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer c.Close()
	q := kmsg.NewPtrShareAcknowledgeRequest()
	group, member := "workers", "7e0a7c3c-2f6b-4d2e-9f1a-6a4b2f1f0c01"
	q.Version, q.GroupID, q.MemberID = 2, &group, &member
	_, err = c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("wrong")).AppendRequest(nil, q, 1))
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 1))
	require.NoError(t, err)
}

// ended ends a command that serves and returns what it has printed to standard error.
func ended(t *testing.T, s *server) string {
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(s.stdout)
	require.NoError(t, err)
	require.Empty(t, rest, "READY is all that goes to standard output: who has read it may have gone")
	require.NoError(t, s.cmd.Wait(), s.stderr.String())
	return s.stderr.String()
}

var brokenRules = []string{"wire.api.1", "wire.member.1", "share.session.epoch.4"}

// Verdicts are printed and written when kshare serve ends, and --judge-strict makes a broken MUST its failure.
func TestServeJudges(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	p := starting(t, "serve", "--listen", "127.0.0.1:0", "--judge", "--judge-report", file("report.json"), "--judge-report", file("report.xml"), "--judge-report", file("report.html"),
		"--judge-report", file("badge.svg"), "--judge-record", file("frames.jsonl"))
	breaks(t, p.addrs[0])
	out := ended(t, p)
	require.Contains(t, out, "FAIL share.session.epoch.4 (MUST, broken 1 times of 1)")
	for _, name := range []string{"report.json", "report.xml", "report.html"} {
		text, err := os.ReadFile(file(name))
		require.NoError(t, err)
		require.Contains(t, string(text), "share.session.epoch.4", name)
	}

	// What was recorded is judged again, with the same verdicts.
	code, again, _ := run(t, "judge", "recording", file("frames.jsonl"), "--report", file("again.json"))
	require.Zero(t, code)
	for _, rule := range brokenRules {
		require.Contains(t, again, "FAIL "+rule)
	}
	code, merged, stderr := run(t, "judge", "merge", file("report.json"), file("again.json"), "--strict")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "clients have broken 3 rules that they must keep: "+strings.Join(brokenRules, ", "))
	require.Contains(t, merged, "FAIL share.session.epoch.4 (MUST, broken 2 times of 2)")
}

// A proxy in front of a kshare judges a client, which reaches all of it through the proxy.
func TestProxyJudges(t *testing.T) {
	behind := starting(t, "serve", "--listen", "127.0.0.1:0", "--brokers", "3", "--topic", "orders:3")
	p := starting(t, "judge", "proxy", "--upstream", behind.addrs[0], "--record", filepath.Join(t.TempDir(), "frames.jsonl"), "--fault", "api=Metadata times=1 delay=1ms")
	require.Len(t, p.addrs, 3)
	client, err := kgo.NewClient(kgo.SeedBrokers(p.addrs[0]))
	require.NoError(t, err)
	require.NoError(t, client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("v")}).FirstErr())
	client.Close()
	breaks(t, p.addrs[1])
	out := ended(t, p)
	for _, rule := range brokenRules {
		require.Contains(t, out, "FAIL "+rule)
	}
	require.NotContains(t, out, "FAIL txn")
}

func TestMistakesOfTheJudgesFlags(t *testing.T) {
	for line, want := range map[string]string{
		"serve --judge-report report.pdf":                     `--judge-report: a report is .txt, .json, .xml (JUnit), .html or .svg (a badge); "report.pdf" ends otherwise`,
		"judge proxy":                                         "--upstream host:port",
		"judge proxy --upstream a:1 --report x":               `"x" ends otherwise`,
		"judge proxy --upstream a:1 --fault hold":             "hold",
		"judge proxy --upstream 127.0.0.1:1 --log-level loud": `--log-level "loud"`,
		"judge proxy --upstream 127.0.0.1:1":                  "the cluster behind 127.0.0.1:1 cannot be asked for its nodes",
		"judge recording nowhere.jsonl":                       "nowhere.jsonl",
		"judge list all":                                      "takes no arguments",
	} {
		code, _, stderr := run(t, strings.Fields(line)...)
		require.Equal(t, 1, code, line)
		require.Contains(t, stderr, want, line)
	}
	_, out, _ := run(t, "judge", "list")
	require.Contains(t, out, "share.session.epoch.2  MUST   The session epoch moves on by one")
}
