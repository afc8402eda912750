package broker_test

import (
	"context"
	"encoding/binary"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
)

// bubbleBegan is when the time of a bubble begins, and with it that of clients. A cluster whose clock began much later would soon delete their records.
var bubbleBegan = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// inBubble runs a test against a cluster of its own in a synctest bubble: time passes when everything waits.
func inBubble(t *testing.T, f func(t *testing.T, c *kshare.Cluster), opts ...kshare.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := kshare.Start(append(opts, kshare.WithInMemoryNetwork())...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		f(t, c)
	})
}

// newClient makes a client that knows the cluster's nodes.
func newClient(t *testing.T, c *kshare.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.Addrs()...), kgo.Dialer(c.Dial),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConnIdleTimeout(15 * time.Minute), kgo.RetryTimeout(time.Minute),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.Ping(context.Background()))
	metadata(t, client)
	return client
}

// ask sends a request to one node, once.
func ask[R kmsg.Response](t *testing.T, client *kgo.Client, node int32, q kmsg.Request) R {
	t.Helper()
	p, err := client.Broker(int(node)).Request(context.Background(), q)
	require.NoError(t, err)
	return p.(R)
}

// askOver sends a request in the version that it has to one node, over a connection of its own.
func askOver(t *testing.T, c *kshare.Cluster, node int32, q kmsg.Request) kmsg.Response {
	t.Helper()
	conn, err := c.Dial(context.Background(), "tcp", c.Addrs()[node-1])
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, q, 1))
	require.NoError(t, err)
	size := make([]byte, 4)
	_, err = io.ReadFull(conn, size)
	require.NoError(t, err)
	frame := make([]byte, binary.BigEndian.Uint32(size))
	_, err = io.ReadFull(conn, frame)
	require.NoError(t, err)
	body := frame[4:] // behind the correlation id
	if q.IsFlexible() {
		body = body[1:] // and an empty tag section
	}
	p := q.ResponseKind()
	require.NoError(t, p.ReadFrom(body))
	return p
}

// send sends a request to the node that is in charge of it.
func send[R kmsg.Response](t *testing.T, client *kgo.Client, q kmsg.Request) R {
	t.Helper()
	p, err := client.Request(context.Background(), q)
	require.NoError(t, err)
	return p.(R)
}

// metadata asks for topics, for none without names.
func metadata(t *testing.T, client *kgo.Client, names ...string) *kmsg.MetadataResponse {
	t.Helper()
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		q.Topics = append(q.Topics, topic)
	}
	return send[*kmsg.MetadataResponse](t, client, q)
}

// produce appends one batch with n records to a partition.
func produce(t *testing.T, client *kgo.Client, topic string, partition int32, n int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Partition: partition, Value: []byte("v")}
	}
	require.NoError(t, client.ProduceSync(context.Background(), records...).FirstErr())
}

// setGroupConfig sets a configuration of a group.
func setGroupConfig(t *testing.T, client *kgo.Client, group, key, value string) {
	t.Helper()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = key, &value
	resource.Configs = append(resource.Configs, config)
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Resources = append(q.Resources, resource)
	p := send[*kmsg.IncrementalAlterConfigsResponse](t, client, q)
	require.Len(t, p.Resources, 1)
	require.Zero(t, p.Resources[0].ErrorCode)
}

// makeCoordinators makes the coordinators' topic: the request that does is refused with timing=kafka.
func makeCoordinators(t *testing.T, client *kgo.Client) {
	t.Helper()
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.CoordinatorKeys = []string{"g"}
	_, err := client.DiscoveredBrokers()[0].Request(context.Background(), q)
	require.NoError(t, err)
}

// shareMember is a member of a share group that speaks to one node about a partition of a topic, 0 unless it is told otherwise.
type shareMember struct {
	t         *testing.T
	client    *kgo.Client
	node      int32
	group, id string
	topic     [16]byte
	partition int32
	epoch     int32
}

// The types of acknowledgements.
const (
	accept  int8 = 1
	release int8 = 2
	reject  int8 = 3
)

// startGroup initialises a share group that reads a topic from its start, and returns a member of it, which has a connection of its own.
func startGroup(t *testing.T, c *kshare.Cluster, group, topic string) *shareMember {
	t.Helper()
	client := newClient(t, c)
	makeCoordinators(t, client)
	setGroupConfig(t, client, group, "share.auto.offset.reset", "earliest")
	q := kmsg.NewPtrShareGroupHeartbeatRequest()
	q.GroupID, q.MemberID, q.SubscribedTopicNames = group, "m1", []string{topic}
	require.Zero(t, send[*kmsg.ShareGroupHeartbeatResponse](t, client, q).ErrorCode)
	known := metadata(t, client, topic).Topics[0]
	return &shareMember{t: t, client: client, node: known.Partitions[0].Leader, group: group, id: "m1", topic: known.TopicID}
}

// another is another member of the group, with a connection of its own.
func (m *shareMember) another(c *kshare.Cluster, id string) *shareMember {
	m.t.Helper()
	return &shareMember{t: m.t, client: newClient(m.t, c), node: m.node, group: m.group, id: id, topic: m.topic}
}

// fetchRequest is the next ShareFetch of the member's session.
func (m *shareMember) fetchRequest(wait time.Duration) *kmsg.ShareFetchRequest {
	q := kmsg.NewPtrShareFetchRequest()
	q.GroupID, q.MemberID, q.ShareSessionEpoch = &m.group, &m.id, m.epoch
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.MaxRecords, q.BatchSize = int32(wait.Milliseconds()), 1, 1<<20, 500, 500
	if m.epoch == 0 {
		q.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: m.topic, Partitions: []kmsg.ShareFetchRequestTopicPartition{{Partition: m.partition}}}}
	}
	return q
}

// acknowledgements are the topics of a ShareFetch that acknowledges records.
func (m *shareMember) acknowledgements(first, last int64, kind int8) []kmsg.ShareFetchRequestTopic {
	batch := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
	batch.FirstOffset, batch.LastOffset, batch.AcknowledgeTypes = first, last, []int8{kind}
	partition := kmsg.NewShareFetchRequestTopicPartition()
	partition.Partition = m.partition
	partition.AcknowledgementBatches = append(partition.AcknowledgementBatches, batch)
	return []kmsg.ShareFetchRequestTopic{{TopicID: m.topic, Partitions: []kmsg.ShareFetchRequestTopicPartition{partition}}}
}

// fetch sends the next ShareFetch.
func (m *shareMember) fetch(wait time.Duration) *kmsg.ShareFetchResponse {
	m.t.Helper()
	q := m.fetchRequest(wait)
	m.epoch++
	return ask[*kmsg.ShareFetchResponse](m.t, m.client, m.node, q)
}

// got is what a ShareFetch sent in the background is answered with, and when.
type got struct {
	answer *kmsg.ShareFetchResponse
	took   time.Duration
}

// fetching sends the next ShareFetch without waiting for its answer.
func (m *shareMember) fetching(wait time.Duration) <-chan got {
	q, began := m.fetchRequest(wait), time.Now()
	m.epoch++
	answered := make(chan got, 1)
	go func() {
		p, err := m.client.Broker(int(m.node)).Request(context.Background(), q)
		if err == nil {
			answered <- got{p.(*kmsg.ShareFetchResponse), time.Since(began)}
		}
		close(answered)
	}()
	return answered
}

// acknowledge sends a ShareAcknowledge and returns its one partition.
func (m *shareMember) acknowledge(first, last int64, kind int8) kmsg.ShareAcknowledgeResponseTopicPartition {
	m.t.Helper()
	p := m.acknowledging(m.epoch, first, last, kind)
	m.epoch++
	require.Zero(m.t, p.ErrorCode)
	require.Len(m.t, p.Topics, 1)
	return p.Topics[0].Partitions[0]
}

func (m *shareMember) acknowledging(epoch int32, first, last int64, kind int8) *kmsg.ShareAcknowledgeResponse {
	m.t.Helper()
	q := kmsg.NewPtrShareAcknowledgeRequest()
	q.GroupID, q.MemberID, q.ShareSessionEpoch = &m.group, &m.id, epoch
	batch := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
	batch.FirstOffset, batch.LastOffset, batch.AcknowledgeTypes = first, last, []int8{kind}
	partition := kmsg.NewShareAcknowledgeRequestTopicPartition()
	partition.Partition = m.partition
	partition.AcknowledgementBatches = append(partition.AcknowledgementBatches, batch)
	q.Topics = []kmsg.ShareAcknowledgeRequestTopic{{TopicID: m.topic, Partitions: []kmsg.ShareAcknowledgeRequestTopicPartition{partition}}}
	return ask[*kmsg.ShareAcknowledgeResponse](m.t, m.client, m.node, q)
}

// closeSession ends the member's session with the final epoch.
func (m *shareMember) closeSession() {
	m.t.Helper()
	m.epoch = -1
	require.Zero(m.t, m.fetch(0).ErrorCode)
}

// delivered is one acquired range: first offset, last offset, delivery count.
type delivered [3]int64

// acquired are the ranges of an answer that has no error.
func acquired(t *testing.T, p *kmsg.ShareFetchResponse) []delivered {
	t.Helper()
	require.Zero(t, p.ErrorCode)
	var out []delivered
	for _, topic := range p.Topics {
		for _, partition := range topic.Partitions {
			require.Zero(t, partition.ErrorCode)
			for _, a := range partition.AcquiredRecords {
				out = append(out, delivered{a.FirstOffset, a.LastOffset, int64(a.DeliveryCount)})
			}
		}
	}
	return out
}
