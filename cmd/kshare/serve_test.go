package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// anyPort are the arguments of a server that stands in nobody's way.
var anyPort = []string{"--listen", "127.0.0.1:0"}

func with(more ...string) []string { return append(append([]string{}, anyPort...), more...) }

func admin(t *testing.T, addrs ...string) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

func TestReady(t *testing.T) {
	t.Parallel()
	s := serving(t, anyPort...)
	require.Regexp(t, `^READY 127\.0\.0\.1:[1-9][0-9]*\n$`, s.ready)
	metadata, err := admin(t, s.addrs...).BrokerMetadata(context.Background())
	require.NoError(t, err)
	require.Len(t, metadata.Brokers, 1)
	require.Equal(t, s.addrs[0], fmt.Sprintf("%s:%d", metadata.Brokers[0].Host, metadata.Brokers[0].Port))
	s.stop(t, syscall.SIGTERM)
	require.Empty(t, s.stderr.String(), "nothing is worth a warning")
}

func TestReadyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "ready")
	require.NoError(t, os.WriteFile(name, []byte("READY of another time\n"), 0o600))
	s := serving(t, with("--ready-file", name)...)
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, s.ready, string(content))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "it was written whole, without a trace of how")

	code, stdout, stderr := run(t, append([]string{"serve"}, with("--ready-file", filepath.Join(dir, "none", "ready"))...)...)
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "--ready-file")
}

// A file that is left of an earlier run must not look like the new one's.
func TestStaleReadyFileIsRemoved(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "ready")
	require.NoError(t, os.WriteFile(name, []byte("READY of another time\n"), 0o600))
	code, _, _ := run(t, append([]string{"serve", "--ready-file", name}, "--listen", "127.0.0.1:0", "--config", "no.such=1")...)
	require.Equal(t, 1, code)
	require.NoFileExists(t, name)
}

func TestBrokers(t *testing.T) {
	t.Parallel()
	s := serving(t, with("--brokers", "3", "--topic", "spread:6", "--topic", "single")...)
	require.Regexp(t, `^READY 127\.0\.0\.1:\d+,127\.0\.0\.1:\d+,127\.0\.0\.1:\d+\n$`, s.ready)
	client := admin(t, s.addrs[1])
	metadata, err := client.Metadata(context.Background())
	require.NoError(t, err)
	require.Len(t, metadata.Brokers, 3)
	var addrs []string
	for _, b := range metadata.Brokers {
		addrs = append(addrs, fmt.Sprintf("%s:%d", b.Host, b.Port))
	}
	require.ElementsMatch(t, s.addrs, addrs)
	leads := map[int32]int{}
	for _, p := range metadata.Topics["spread"].Partitions {
		leads[p.Leader]++
	}
	require.Equal(t, map[int32]int{1: 2, 2: 2, 3: 2}, leads)
	require.Len(t, metadata.Topics["single"].Partitions, 1, "num.partitions is 1")
}

func TestListenForEachBroker(t *testing.T) {
	t.Parallel()
	s := serving(t, "--brokers", "2", "--listen", "127.0.0.1:0,127.0.0.2:0")
	require.Regexp(t, `^READY 127\.0\.0\.1:\d+,127\.0\.0\.2:\d+\n$`, s.ready)
}

// One port given and several brokers: the others take the ports behind it.
func TestFollowingPorts(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
	if err != nil {
		t.Skip("the next port is taken by something else")
	}
	require.NoError(t, next.Close())
	s := serving(t, "--brokers", "2", "--listen", fmt.Sprintf("127.0.0.1:%d", port))
	require.Equal(t, fmt.Sprintf("READY 127.0.0.1:%d,127.0.0.1:%d\n", port, port+1), s.ready)
}

func TestAdvertise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want string // regular expression of READY's list
	}{
		{"HostAndPort", with("--advertise", "kafka.example:19092"), `kafka\.example:19092`},
		{"HostAlone", with("--advertise", "kafka.example"), `kafka\.example:[1-9]\d*`},
		{"IPv6Alone", with("--advertise", "[::1]"), `\[::1\]:[1-9]\d*`},
		{"FollowingPorts", with("--brokers", "2", "--advertise", "kafka.example:19092"), `kafka\.example:19092,kafka\.example:19093`},
		{"Each", with("--brokers", "2", "--advertise", "a.example:1,b.example:2"), `a\.example:1,b\.example:2`},
		{"AllInterfaces", []string{"--listen", "0.0.0.0:0"}, `127\.0\.0\.1:\d+`},
		{"AllInterfacesAdvertised", []string{"--listen", "0.0.0.0:0", "--advertise", "kafka.example"}, `kafka\.example:\d+`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serving(t, c.args...)
			require.Regexp(t, `^READY `+c.want+`\n$`, s.ready)
		})
	}
}

// Metadata tells what was advertised, whatever address the client came in by.
func TestMetadataTellsWhatIsAdvertised(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	serving(t, "--listen", addr, "--advertise", "kafka.example:19092")
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	defer client.Close()
	response, err := kmsg.NewPtrMetadataRequest().RequestWith(context.Background(), client)
	require.NoError(t, err)
	require.Len(t, response.Brokers, 1)
	require.Equal(t, "kafka.example", response.Brokers[0].Host)
	require.EqualValues(t, 19092, response.Brokers[0].Port)
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6")
	}
	require.NoError(t, l.Close())
	s := serving(t, "--listen", "[::1]:0", "--topic", "orders")
	require.Regexp(t, `^READY \[::1\]:\d+\n$`, s.ready)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.addrs...), kgo.DefaultProduceTopic("orders"))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(context.Background(), kgo.StringRecord("a")).FirstErr())
}

// What nobody can be told to connect to is worth a warning.
func TestWarningOfAllInterfaces(t *testing.T) {
	t.Parallel()
	s := serving(t, "--listen", "0.0.0.0:0")
	s.stop(t, syscall.SIGTERM)
	require.Contains(t, s.stderr.String(), "clients are told 127.0.0.1")
}

func TestDefaultListensOnLoopback(t *testing.T) {
	require.Equal(t, "[127.0.0.1:9092]", serveCommand().Flags().Lookup("listen").DefValue)
}

func TestConfigs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "server.properties")
	require.NoError(t, os.WriteFile(file, []byte("# a file\nnum.partitions=5\nlog.retention.hours = 12\n"), 0o600))
	s := serving(t, with("--properties", file, "--config", "num.partitions=7", "--config", "message.max.bytes=1234", "--topic", "seven")...)
	client := admin(t, s.addrs...)
	topics, err := client.ListTopics(context.Background())
	require.NoError(t, err)
	require.Len(t, topics["seven"].Partitions, 7, "--config overrides --properties")
	configs, err := client.DescribeBrokerConfigs(context.Background(), 1)
	require.NoError(t, err)
	values := map[string]string{}
	for _, c := range configs[0].Configs {
		values[c.Key] = c.MaybeValue()
	}
	require.Equal(t, "12", values["log.retention.hours"])
	require.Equal(t, "1234", values["message.max.bytes"])
}

func TestFeatures(t *testing.T) {
	t.Parallel()
	s := serving(t, with("--feature", "share.version=1", "--feature", "group.version=0")...)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.addrs...))
	require.NoError(t, err)
	defer client.Close()
	request := kmsg.NewPtrApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = "test", "1"
	response, err := request.RequestWith(context.Background(), client)
	require.NoError(t, err)
	levels := map[string]int16{}
	for _, f := range response.FinalizedFeatures {
		levels[f.Name] = f.MaxVersionLevel
	}
	require.EqualValues(t, 1, levels["share.version"])
	require.Zero(t, levels["group.version"])
}

// What cannot be meant is refused by name, before anything listens.
func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "wrong.properties")
	require.NoError(t, os.WriteFile(file, []byte("num.partitions=5\nno.such.key=1\n"), 0o600))
	for _, c := range []struct {
		name string
		args []string
		want []string // each is in the message
	}{
		{"UnknownConfig", with("--config", "no.such.key=1"), []string{"no.such.key"}},
		{"InvalidConfig", with("--config", "num.partitions=many"), []string{"num.partitions", "many"}},
		{"ConfigOutOfRange", with("--config", "num.partitions=0"), []string{"num.partitions", "0"}},
		{"ConfigWithoutValue", with("--config", "num.partitions"), []string{"--config", "num.partitions"}},
		{"UnknownConfigInFile", with("--properties", file), []string{"no.such.key", file}},
		{"NoSuchFile", with("--properties", filepath.Join(dir, "none")), []string{"--properties", "none"}},
		{"UnknownFeature", with("--feature", "no.such=1"), []string{"no.such", "share.version"}},
		{"FeatureLevel", with("--feature", "share.version=99"), []string{"share.version", "99"}},
		{"FeatureWithoutLevel", with("--feature", "share.version"), []string{"--feature", "share.version"}},
		{"Timing", with("--timing", "slow"), []string{"--timing", "slow", "fast", "kafka"}},
		{"LogLevel", with("--log-level", "loud"), []string{"--log-level", "loud"}},
		{"TopicName", with("--topic", "no spaces"), []string{"no spaces"}},
		{"TopicWithoutName", with("--topic", ":3"), []string{"empty"}},
		{"TopicPartitions", with("--topic", "a:0"), []string{"--topic", "a:0"}},
		{"TopicTwice", with("--topic", "a.b", "--topic", "a_b"), []string{"a.b", "a_b"}},
		{"Brokers", with("--brokers", "0"), []string{"0"}},
		{"ListenWithoutPort", []string{"--listen", "localhost"}, []string{"localhost", "host:port"}},
		{"ListenPort", []string{"--listen", "localhost:70000"}, []string{"70000"}},
		{"MoreListenersThanBrokers", []string{"--listen", "127.0.0.1:0,127.0.0.1:0"}, []string{"2", "1"}},
		{"AdvertisePort", with("--advertise", "a:x"), []string{"a:x"}},
		{"AdvertiseHost", with("--advertise", "a:b:c"), []string{"a:b:c"}},
		{"TheSameTopicTwice", with("--topic", "a:1", "--topic", "a:2"), []string{`--topic "a:2": the topic is there twice`}},
		{"NoNumber", with("--brokers", "many"), []string{`--brokers "many" is not a whole number`}},
		{"RequestLogThatNobodyReads", with("--request-log", "10"), []string{"--request-log", "add --http"}},
		{"NameOfNothing", with("--http-name", "kshare.test"), []string{"--http-name", "add --http"}},
		{"Flag", with("--no-such-flag"), []string{"serve has no flag --no-such-flag; kshare serve --help lists them"}},
		{"MisspeltFlag", with("--topics", "a"), []string{"serve has no flag --topics: did you mean --topic?"}},
		{"Argument", with("now"), []string{`serve takes no arguments: "now" is one too many`}},
		{"DirIsAFile", with("--dir", file), []string{file}},
		{"DirOfSomethingElse", with("--dir", dir), []string{"wrong.properties", "does not belong to a store"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := run(t, append([]string{"serve"}, c.args...)...)
			require.Equal(t, 1, code, stderr)
			require.Empty(t, stdout)
			require.True(t, strings.HasPrefix(stderr, "kshare: "), stderr)
			require.False(t, strings.HasPrefix(stderr, "kshare: kshare: "), stderr)
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
			for _, w := range c.want {
				require.Contains(t, stderr, w)
			}
		})
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	s := serving(t, anyPort...)
	code, stdout, stderr := run(t, "serve", "--listen", s.addrs[0])
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, s.addrs[0])
	require.Contains(t, stderr, "address already in use")
}

func TestDirInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serving(t, with("--dir", dir)...)
	code, stdout, stderr := run(t, append([]string{"serve"}, with("--dir", dir)...)...)
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, dir)
	require.Contains(t, stderr, "another process has it open")
	s.stop(t, syscall.SIGTERM)
	serving(t, with("--dir", dir)...).stop(t, syscall.SIGTERM)
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	s := serving(t, with("--log-level", "debug")...)
	conn, err := net.Dial("tcp", s.addrs[0])
	require.NoError(t, err)
	_, err = conn.Write([]byte{0xff, 0xff, 0xff, 0xff})
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err, "a frame of negative length ends the connection")
	require.NoError(t, conn.Close())
	s.stop(t, syscall.SIGTERM)
	require.Contains(t, s.stderr.String(), "level=DEBUG")
}

func TestTiming(t *testing.T) {
	t.Parallel()
	for _, timing := range []string{"fast", "kafka"} {
		s := serving(t, with("--timing", timing, "--topic", "orders")...)
		_, err := admin(t, s.addrs...).BrokerMetadata(context.Background())
		require.NoError(t, err, timing)
	}
}
