package shareclient_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/shareclient"
)

// inBubble runs a test against a cluster with orders and invoices where time passes only when everything waits.
func inBubble(t *testing.T, test func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt), options ...kshare.Option) {
	synctest.Test(t, func(t *testing.T) {
		cluster, err := kshare.Start(append(options, kshare.WithInMemoryNetwork(), kshare.WithKIP1289(),
			kshare.WithTopic("orders", 6), kshare.WithTopic("invoices", 3))...)
		require.NoError(t, err)
		defer func() { require.NoError(t, cluster.Close()) }()
		opts := []kgo.Opt{kgo.SeedBrokers(cluster.Addrs()...), kgo.Dialer(cluster.Dial)}
		client, err := kgo.NewClient(opts...)
		require.NoError(t, err)
		beginAtEarliest(client, "workers")
		client.Close()
		test(t, cluster, opts)
	})
}

// link is a client's way to the cluster, which can be cut: what is left of the client then is what the brokers have.
type link struct {
	cluster *kshare.Cluster

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("the client has crashed")
	}
	conn, err := l.cluster.Dial(ctx, network, addr)
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

func (l *link) crash() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

func (l *link) opts() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(l.cluster.Addrs()...), kgo.Dialer(l.dial)}
}

// produce writes orders outside of transactions.
func produce(t *testing.T, opts []kgo.Opt, values ...string) {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))...)
	require.NoError(t, err)
	defer client.Close()
	for _, v := range values {
		require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord(v)).FirstErr())
	}
}

// numbered are n different values.
func numbered(n int) (values []string) {
	for i := range n {
		values = append(values, "order "+strconv.Itoa(i))
	}
	return values
}

// everything is all that a topic shows to read_committed, once nothing more comes for a minute.
func everything(t *testing.T, topic string, opts []kgo.Opt) (values []string) {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	require.NoError(t, err)
	defer client.Close()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		fetches := client.PollFetches(ctx)
		cancel()
		for _, r := range fetches.Records() {
			values = append(values, string(r.Value))
		}
		if fetches.Empty() || errors.Is(fetches.Err0(), context.DeadlineExceeded) {
			return values
		}
	}
}

// lag is how many records of orders the group has not done with.
func lag(t *testing.T, opts []kgo.Opt) (sum int64) {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.MaxVersions(nil))...)
	require.NoError(t, err)
	defer client.Close()
	req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	topic := kmsg.DescribeShareGroupOffsetsRequestGroupTopic{Topic: "orders"}
	for p := range int32(6) {
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Groups = []kmsg.DescribeShareGroupOffsetsRequestGroup{{GroupID: "workers", Topics: []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{topic}}}
	resp, err := req.RequestWith(t.Context(), client)
	require.NoError(t, err)
	require.Zero(t, resp.Groups[0].ErrorCode)
	for _, p := range resp.Groups[0].Topics[0].Partitions {
		require.Zero(t, p.ErrorCode)
		if p.StartOffset >= 0 { // a partition that the group has read nothing of has no start offset, and no lag
			sum += p.Lag
		}
	}
	return sum
}

func newConsumer(t *testing.T, opts []kgo.Opt) *shareclient.Consumer {
	t.Helper()
	c, err := shareclient.NewConsumer(shareclient.ConsumerConfig{Group: "workers", Topics: []string{"orders"}}, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func newProducer(t *testing.T, opts []kgo.Opt) *shareclient.Producer {
	t.Helper()
	p, err := shareclient.NewProducer(t.Context(), shareclient.ProducerConfig{TransactionalID: "worker"}, opts...)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// leader is the node that leads a partition of orders.
func leader(cluster *kshare.Cluster, partition int32) int32 {
	for _, t := range cluster.InspectTopics() {
		if t.Name == "orders" {
			return t.Partitions[partition].Leader
		}
	}
	return -1
}

// shareKey is the key that a share partition of orders is coordinated by.
func shareKey(cluster *kshare.Cluster, partition int32) string {
	for _, t := range cluster.InspectTopics() {
		if t.Name == "orders" {
			return "workers:" + base64.RawURLEncoding.EncodeToString(t.ID[:]) + ":" + strconv.Itoa(int(partition))
		}
	}
	return ""
}

// requests counts what a client sends, by API key and node.
type requests struct {
	mu   sync.Mutex
	sent map[int16]map[int32]int
}

// OnBrokerWrite is kgo's hook.
func (r *requests) OnBrokerWrite(node kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent == nil {
		r.sent = map[int16]map[int32]int{}
	}
	if r.sent[key] == nil {
		r.sent[key] = map[int32]int{}
	}
	r.sent[key][node.NodeID]++
}

func (r *requests) of(key int16) map[int32]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent[key]
}
