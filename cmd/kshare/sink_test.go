package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// properties writes a properties file.
func properties(t *testing.T, name string, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return file
}

// workerFile is a worker whose connectors are in share groups.
func workerFile(t *testing.T, addrs ...string) string {
	return properties(t, "worker.properties", "bootstrap.servers="+strings.Join(addrs, ","), "consumer.group.protocol = share",
		"key.converter=org.apache.kafka.connect.storage.StringConverter", "value.converter: org.apache.kafka.connect.storage.StringConverter")
}

// sinking starts kshare sink and returns what it says first, and how it is ended.
func sinking(t *testing.T, lines int, args ...string) (said []string, stop func()) {
	t.Helper()
	cmd := commandOf(append([]string{"sink"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		_, _ = io.Copy(io.Discard, out)
		require.NoError(t, cmd.Wait(), "it ends cleanly: %s", &stderr)
	}
	t.Cleanup(stop)
	scanner := bufio.NewScanner(out)
	for len(said) < lines && scanner.Scan() {
		said = append(said, scanner.Text())
	}
	require.Len(t, said, lines, "%s", &stderr)
	return said, stop
}

// write writes values to a topic.
func write(t *testing.T, addr, topic string, values ...string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic))
	require.NoError(t, err)
	defer client.Close()
	for _, v := range values {
		require.NoError(t, client.ProduceSync(context.Background(), kgo.StringRecord(v)).FirstErr())
	}
}

// Two connectors in one worker: one posts, one copies exactly once.
func TestSink(t *testing.T) {
	t.Parallel()
	s := serving(t, with("--kip1289", "--topic", "orders:1", "--topic", "invoices:1")...)
	bodies := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		bodies <- string(data)
	}))
	defer receiver.Close()
	said, stop := sinking(t, 2, "--worker", workerFile(t, s.addrs...), "--http", "127.0.0.1:0",
		properties(t, "post.properties", "name=post", "connector.class=HTTPSink", "topics=orders", "tasks.max=3", "http.url="+receiver.URL),
		properties(t, "copy.properties", "name=copy", "connector.class=KafkaSink", "topics=orders", "tasks.max=2", "kafka.topic=invoices", "exactly.once.support=required"))
	require.Equal(t, "READY post,copy", said[0])
	at, ok := strings.CutPrefix(said[1], "HTTP ")
	require.True(t, ok, said[1])
	write(t, s.addrs[0], "orders", "a", "b", "c")
	var got []string
	for len(got) < 3 {
		var records []struct{ Value string }
		require.NoError(t, json.Unmarshal([]byte(<-bodies), &records))
		for _, r := range records {
			got = append(got, r.Value)
		}
	}
	require.ElementsMatch(t, []string{"a", "b", "c"}, got)
	consumer, err := kgo.NewClient(kgo.SeedBrokers(s.addrs...), kgo.ConsumeTopics("invoices"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, err)
	defer consumer.Close()
	got = nil
	for len(got) < 3 {
		for _, r := range consumer.PollFetches(context.Background()).Records() {
			got = append(got, string(r.Value))
		}
	}
	slices.Sort(got)
	require.Equal(t, []string{"a", "b", "c"}, got)
	for path, want := range map[string]string{"/connectors": `["copy","post"]`, "/connectors/post/status": `"type":"sink"`, "/metrics": `sink_record_acquire_total{connector="post",task="2"}`} {
		resp, err := http.Get("http://" + at + path)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Contains(t, string(body), want)
	}
	stop()
}

// What is wrong with the command or a file ends it before anything runs, and is named.
func TestSinkRefuses(t *testing.T) {
	t.Parallel()
	worker := workerFile(t, "127.0.0.1:1")
	good := []string{"name=a", "connector.class=FileSink", "topics=orders"}
	one := properties(t, "one.properties", good...)
	for want, args := range map[string][]string{
		"--worker is missing":                                   {one},
		"sink needs the properties file of a connector":         {"--worker", worker},
		"--worker: open none.properties":                        {"--worker", "none.properties", one},
		"bootstrap.servers is missing":                          {"--worker", one, one},
		"open none.properties":                                  {"--worker", worker, "none.properties"},
		`two.properties: name "a" is that of`:                   {"--worker", worker, one, properties(t, "two.properties", good...)},
		`bad.properties: connector.class "FileSnk"`:             {"--worker", worker, properties(t, "bad.properties", "name=b", "topics=x", "connector.class=FileSnk")},
		`bad.properties: share.acknowledgement.mode "sometime"`: {"--worker", worker, properties(t, "bad.properties", append(good, "share.acknowledgement.mode=sometime")...)},
		`--http "here" is not host:port`:                        {"--worker", worker, "--http", "here", one},
		"add --http":                                            {"--worker", worker, "--http-name", "x", one},
		`--log-level "loud"`:                                    {"--worker", worker, "--log-level", "loud", one},
	} {
		code, stdout, stderr := run(t, append([]string{"sink"}, args...)...)
		require.Equal(t, 1, code, want)
		require.Empty(t, stdout)
		require.Contains(t, stderr, want)
	}
}

// Without brokers the worker waits, and ends at once when it is told to.
func TestSinkWithoutBrokers(t *testing.T) {
	t.Parallel()
	said, stop := sinking(t, 1, "--worker", workerFile(t, "127.0.0.1:1"), properties(t, "a.properties", "name=a", "connector.class=FileSink", "topics=orders"))
	require.Equal(t, "READY a", said[0])
	stop()
}
