package crash

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/broker"
	"kshare/clock"
	"kshare/config"
	"kshare/internal/memorynet"
	"kshare/kip1289"
	"kshare/storage"
	"kshare/storage/directory"
)

// storeDir is where a cluster on a file system of a test keeps its store.
const storeDir = "store"

// machine is a cluster on a file system that a test can break, reached without a port.
type machine struct {
	network memorynet.Network
	cluster *broker.Cluster
	logs    lockedBuffer
	addr    string
	wrap    func(storage.Store) storage.Store // puts something around the store, nil for nothing
	kip1289 *kip1289.Switches                 // nil for none
	config  []config.Property                 // of the brokers, nil for locks that end soon
}

// lockedBuffer takes logs while a test reads them.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// bootMachine starts a cluster of one node with the topic of the load.
func bootMachine(t *testing.T, fs vfs.FS, flush directory.Flush) *machine {
	t.Helper()
	m := &machine{addr: "127.0.0.1:9092"}
	err := m.boot(fs, flush)
	require.NoError(t, err)
	return m
}

func (m *machine) boot(fs vfs.FS, flush directory.Flush) error {
	log := slog.New(slog.NewTextHandler(&m.logs, nil))
	properties := m.config
	if properties == nil {
		properties = []config.Property{ // what a full disk keeps from being settled is free again after a second
			{Key: "group.share.min.record.lock.duration.ms", Value: "1000"},
			{Key: "group.share.record.lock.duration.ms", Value: "1000"},
		}
	}
	static, err := config.Parse(properties)
	if err != nil {
		return err
	}
	store, err := directory.OpenFS(fs, storeDir, directory.Options{Flush: flush, SegmentBytes: 64 << 10, Log: log})
	if err != nil {
		return err
	}
	if m.wrap != nil {
		store = m.wrap(store)
	}
	m.cluster, err = broker.New(broker.Options{
		Nodes: 1, FirstNodeID: 1,
		Listen:    func(int32, string) (net.Listener, error) { return m.network.Listen(m.addr) },
		Advertise: func(int32, string, net.Addr) (string, int32, error) { return "127.0.0.1", 9092, nil },
		Clock:     clock.Machine{}, Store: store, Config: static, Log: log, KIP1289: m.kip1289,
		Topics: []broker.TopicSpec{{Name: topicName, Partitions: partitions}},
	})
	if err != nil {
		_ = store.Close()
	}
	return err
}

// stop ends the cluster; what its store says as it is closed is for the caller.
func (m *machine) stop(t *testing.T) error {
	t.Helper()
	err := m.cluster.Close()
	require.NotContains(t, m.logs.String(), "panic")
	return err
}

func (m *machine) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(m.clientOptions(), opts...)...)
	require.NoError(t, err)
	return client
}

// clientOptions have a client reach the machine.
func (m *machine) clientOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(m.addr),
		kgo.Dialer(m.network.Dial),
		kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }),
	}
}

// verify compares what the machine holds with what was answered.
func (m *machine) verify(t *testing.T, l *ledger, answered snapshot) {
	t.Helper()
	client := m.client(t)
	defer client.Close()
	verify(t, l, kadm.NewClient(client), answered, func(opts ...kgo.Opt) *kgo.Client { return m.client(t, opts...) })
	for at, count := range m.drain(t, client) {
		if _, settled := answered.settled[at]; settled {
			t.Fatalf("%v is delivered though it was settled", at)
		}
		if released, ok := answered.released[at]; ok {
			require.Greater(t, count, released.count, "the delivery count of %v", at)
		}
	}
}

// drain accepts everything that the share group is given and returns the delivery counts.
func (m *machine) drain(t *testing.T, client *kgo.Client) map[place]int32 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	topics, err := kadm.NewClient(client).ListTopics(ctx, topicName)
	require.NoError(t, err)
	group, member := shareGroup, newMemberID
	q := kmsg.NewPtrShareFetchRequest()
	q.GroupID, q.MemberID, q.MaxBytes, q.MaxRecords, q.BatchSize = &group, &member, 8<<20, 1000, 1000
	topic := kmsg.NewShareFetchRequestTopic()
	topic.TopicID = topics[topicName].ID
	for i := range int32(partitions) {
		p := kmsg.NewShareFetchRequestTopicPartition()
		p.Partition = i
		topic.Partitions = append(topic.Partitions, p)
	}
	q.Topics = append(q.Topics, topic)
	delivered := map[place]int32{}
	for {
		response, err := client.Broker(1).Request(ctx, q)
		require.NoError(t, err)
		p := response.(*kmsg.ShareFetchResponse)
		require.Zero(t, p.ErrorCode)
		n := 0
		topic.Partitions = nil
		for _, t := range p.Topics {
			for _, p := range t.Partitions {
				next := kmsg.NewShareFetchRequestTopicPartition()
				next.Partition = p.Partition
				for _, a := range p.AcquiredRecords {
					for o := a.FirstOffset; o <= a.LastOffset; o++ {
						delivered[place{p.Partition, o}] = int32(a.DeliveryCount)
						n++
					}
					ack := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
					ack.FirstOffset, ack.LastOffset, ack.AcknowledgeTypes = a.FirstOffset, a.LastOffset, []int8{1}
					next.AcknowledgementBatches = append(next.AcknowledgementBatches, ack)
				}
				topic.Partitions = append(topic.Partitions, next)
			}
		}
		if n == 0 {
			return delivered
		}
		q.ShareSessionEpoch++
		q.Topics = []kmsg.ShareFetchRequestTopic{topic}
	}
}

// work starts the load on the machine.
func (m *machine) work(t *testing.T, l *ledger, seed uint64) *load {
	t.Helper()
	client := m.client(t)
	defer client.Close()
	prepareShareGroup(t, client)
	return startLoad(t, l, seed, func(opts ...kgo.Opt) *kgo.Client { return m.client(t, opts...) })
}

func (p place) String() string { return fmt.Sprintf("%s-%d@%d", topicName, p.partition, p.offset) }
