package kshare_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"kshare"
	"kshare/clock"
)

// newClient makes a client of a cluster that is closed with the test.
func newClient(t *testing.T, cluster *kshare.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(cluster.Addrs()...), kgo.Dialer(cluster.Dial)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// clusters are ways to start one.
func clusters(t *testing.T) map[string][]kshare.Option {
	return map[string][]kshare.Option{
		"Memory":      nil,
		"Directory":   {kshare.WithDirectory(t.TempDir())},
		"Flushing":    {kshare.WithDirectory(t.TempDir()), kshare.WithConfig("log.flush.interval.ms", "3600000")},
		"ThreeNodes":  {kshare.WithBrokers(3)},
		"NoPort":      {kshare.WithInMemoryNetwork()},
		"KafkaTiming": {kshare.WithTiming(kshare.TimingKafka)},
		"VirtualTime": {kshare.WithClock(clock.NewVirtual(time.Unix(1_800_000_000, 0)))},
	}
}

// Close ends every goroutine of the cluster while clients of every kind are attached, and what they wait for ends.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	for name, opts := range clusters(t) {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			cluster, err := kshare.Start(append(opts, kshare.WithTopic("orders", 2))...)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			clients := []*kgo.Client{newClient(t, cluster)}
			require.NoError(t, clients[0].ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr())
			var ended []chan struct{}
			for _, o := range []kgo.Opt{kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.ConsumerGroup("classic"), kgo.ShareGroup("share")} {
				client := newClient(t, cluster, kgo.ConsumeTopics("orders"), o)
				clients = append(clients, client)
				done := make(chan struct{})
				ended = append(ended, done)
				go func() { defer close(done); client.PollFetches(ctx) }()
			}
			idle, err := cluster.Dial(ctx, "tcp", cluster.Addrs()[0])
			require.NoError(t, err)
			half, err := cluster.Dial(ctx, "tcp", cluster.Addrs()[0])
			require.NoError(t, err)
			_, err = half.Write([]byte{0, 0, 1})
			require.NoError(t, err)

			require.NoError(t, cluster.Close())
			require.NoError(t, cluster.Close(), "a second time does nothing")
			for _, c := range []net.Conn{idle, half} {
				_, err := c.Read(make([]byte, 1))
				require.Error(t, err)
				require.NoError(t, c.Close())
			}
			cancel()
			for i, done := range ended {
				<-done
				clients[i+1].Close()
			}
			clients[0].Close()
			goleak.VerifyNone(t, before)
		})
	}
}

// Nor does it matter what was done to the nodes.
func TestCloseOfATamperedCluster(t *testing.T) {
	for name, opts := range clusters(t) {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			cluster, err := kshare.Start(append(opts, kshare.WithBrokers(3), kshare.WithTopic("orders", 3))...)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			client := newClient(t, cluster, kgo.ConsumeTopics("orders"), kgo.ShareGroup("share"))
			require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr())
			_, err = cluster.FaultShareWrites(kshare.ShareWrites{Hold: true})
			require.NoError(t, err)
			done := make(chan struct{})
			go func() { defer close(done); client.PollFetches(ctx) }()
			require.NoError(t, cluster.StopNode(1))
			require.NoError(t, cluster.CutNode(2))
			require.NoError(t, cluster.MoveCoordinator(kshare.GroupCoordinator, "share", 3, time.Hour))
			require.NoError(t, cluster.Close())
			require.Error(t, cluster.StartNode(1))
			require.Error(t, cluster.HealNode(2))
			cancel()
			<-done
			client.Close()
			goleak.VerifyNone(t, before)
		})
	}
}

// A cluster that cannot start leaves nothing either.
func TestFailedStartLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	cluster, err := kshare.Start()
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	dir := t.TempDir()
	for range 3 {
		_, err = kshare.Start(kshare.WithDirectory(dir), kshare.WithBrokers(2), kshare.WithListen("127.0.0.1:0", cluster.Addrs()[0]))
		require.ErrorContains(t, err, "kshare: node 2: ")
		require.ErrorContains(t, err, "address already in use")
		_, err = kshare.Start(kshare.WithDirectory(dir), kshare.WithTopic("a b", 1))
		require.ErrorContains(t, err, "kshare: ")
	}
	again, err := kshare.Start(kshare.WithDirectory(dir))
	require.NoError(t, err, "the directory is free")
	require.NoError(t, again.Close())
	require.NoError(t, cluster.Close())
	goleak.VerifyNone(t, before)
}

// Clusters in one process share nothing: same names, other records, other ids.
func TestManyClusters(t *testing.T) {
	const n = 20
	var all []*kshare.Cluster
	ids := map[string]bool{}
	for i := range n {
		opts := []kshare.Option{kshare.WithTopic("orders", 1)}
		if i%2 == 0 {
			opts = append(opts, kshare.WithInMemoryNetwork()) // all of these have the same address
		}
		cluster, err := kshare.Start(opts...)
		require.NoError(t, err)
		defer func() { require.NoError(t, cluster.Close()) }()
		all = append(all, cluster)
		ids[cluster.ID()] = true
	}
	require.Len(t, ids, n)
	ctx := context.Background()
	for i, cluster := range all {
		client := newClient(t, cluster, kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: fmt.Append(nil, i)}).FirstErr())
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		require.Len(t, fetches.Records(), 1)
		require.Equal(t, fmt.Sprint(i), string(fetches.Records()[0].Value))
		client.Close()
	}
}

// With WithInMemoryNetwork no port is opened, and a real client does all its work over Dial, also with several nodes.
func TestInMemoryNetworkHasNoPort(t *testing.T) {
	cluster, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithBrokers(3), kshare.WithTopic("orders", 6), kshare.WithListen("kafka.example:19092"))
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	require.Equal(t, []string{"kafka.example:19092", "kafka.example:19093", "kafka.example:19094"}, cluster.Addrs())
	ctx := context.Background()
	client := newClient(t, cluster, kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("g"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	for range 12 {
		require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr())
	}
	leaders := map[int32]bool{}
	for read := 0; read < 12; {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { leaders[r.Partition] = true; read++ })
	}
	require.Len(t, leaders, 6)
	require.NoError(t, client.CommitUncommittedOffsets(ctx))

	_, err = cluster.Dial(ctx, "tcp", "127.0.0.1:1")
	require.ErrorContains(t, err, "connection refused")
	client.Close()
	require.NoError(t, cluster.Close())
	_, err = cluster.Dial(ctx, "tcp", cluster.Addrs()[0])
	require.ErrorContains(t, err, "connection refused", "closed")
}
