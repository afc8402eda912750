package crash

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/protocol"
)

// restarting is a cluster in a directory that is stopped and started again under the same address.
type restarting struct {
	t       *testing.T
	dir     string
	opts    []kshare.Option
	cluster *kshare.Cluster
	client  *kgo.Client
	live    atomic.Pointer[kshare.Cluster] // cluster, for clients that outlive it
}

func startRestarting(t *testing.T, opts ...kshare.Option) *restarting {
	r := &restarting{t: t, dir: t.TempDir(), opts: opts}
	r.start()
	t.Cleanup(r.stop)
	r.find(0, "g")
	return r
}

func (r *restarting) start() {
	r.t.Helper()
	var err error
	r.cluster, err = kshare.Start(append([]kshare.Option{kshare.WithDirectory(r.dir), kshare.WithInMemoryNetwork()}, r.opts...)...)
	require.NoError(r.t, err)
	r.live.Store(r.cluster)
	r.client, err = kgo.NewClient(kgo.SeedBrokers(r.cluster.Addrs()...), kgo.Dialer(r.cluster.Dial), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(r.t, err)
}

func (r *restarting) stop() {
	r.t.Helper()
	r.client.Close()
	require.NoError(r.t, r.cluster.Close())
}

func (r *restarting) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

func (r *restarting) admin() *kadm.Client { return kadm.NewClient(r.client) }

// ask sends a request to the only node.
func ask[P kmsg.Response](r *restarting, q kmsg.Request) P {
	r.t.Helper()
	p, err := r.client.Broker(1).Request(context.Background(), q)
	require.NoError(r.t, err)
	return p.(P)
}

func (r *restarting) topicID(name string) [16]byte {
	r.t.Helper()
	metadata, err := r.admin().Metadata(context.Background(), name)
	require.NoError(r.t, err)
	return metadata.Topics[name].ID
}

func (r *restarting) produce(topic string, n int) {
	r.t.Helper()
	for range n {
		require.NoError(r.t, r.client.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Value: []byte("value")}).FirstErr())
	}
}

func TestTopicsAndConfigsSurvive(t *testing.T) {
	ctx := context.Background()
	r := startRestarting(t, kshare.WithTopic("orders", 3))
	_, err := r.admin().CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": kmsg.StringPtr("1234567")}, "made")
	require.NoError(t, err)
	_, err = r.admin().UpdatePartitions(ctx, 5, "made")
	require.NoError(t, err)
	r.produce("made", 7)
	_, err = r.admin().DeleteRecords(ctx, kadm.Offsets{"made": {0: {Topic: "made", Partition: 0, At: 3}}})
	require.NoError(t, err)
	r.alter(kmsg.ConfigResourceTypeBroker, "", "log.retention.ms", "7654321")
	r.alter(kmsg.ConfigResourceTypeBroker, "1", "log.cleaner.threads", "2")
	r.alter(kmsg.ConfigResourceTypeGroupConfig, "workers", "share.record.lock.duration.ms", "20000")
	id := r.cluster.ID()
	before, err := r.admin().Metadata(ctx)
	require.NoError(t, err)

	for range 2 {
		r.restart()
		require.Equal(t, id, r.cluster.ID())
		after, err := r.admin().Metadata(ctx)
		require.NoError(t, err)
		require.Equal(t, before.Topics.Names(), after.Topics.Names())
		for name, topic := range before.Topics {
			require.Equal(t, topic.ID, after.Topics[name].ID)
			require.Equal(t, topic.Partitions.Numbers(), after.Topics[name].Partitions.Numbers())
		}
		starts, err := r.admin().ListStartOffsets(ctx, "made")
		require.NoError(t, err)
		start, _ := starts.Lookup("made", 0)
		require.EqualValues(t, 3, start.Offset)
		ends, err := r.admin().ListEndOffsets(ctx, "made")
		require.NoError(t, err)
		end, _ := ends.Lookup("made", 0)
		require.EqualValues(t, 7, end.Offset)
		require.Equal(t, "1234567", r.describe(kmsg.ConfigResourceTypeTopic, "made", "retention.ms"))
		require.Equal(t, "7654321", r.describe(kmsg.ConfigResourceTypeBroker, "", "log.retention.ms"))
		require.Equal(t, "2", r.describe(kmsg.ConfigResourceTypeBroker, "1", "log.cleaner.threads"))
		require.Equal(t, "20000", r.describe(kmsg.ConfigResourceTypeGroupConfig, "workers", "share.record.lock.duration.ms"))
	}
}

func (r *restarting) alter(kind kmsg.ConfigResourceType, name, key, value string) {
	r.t.Helper()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = key, &value
	resource.Configs = append(resource.Configs, config)
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Resources = append(q.Resources, resource)
	p := ask[*kmsg.IncrementalAlterConfigsResponse](r, q)
	require.Zero(r.t, p.Resources[0].ErrorCode, "%s=%s", key, value)
}

func (r *restarting) describe(kind kmsg.ConfigResourceType, name, key string) string {
	r.t.Helper()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kind, name, []string{key}
	q := kmsg.NewPtrDescribeConfigsRequest()
	q.Resources = append(q.Resources, resource)
	p := ask[*kmsg.DescribeConfigsResponse](r, q)
	require.Zero(r.t, p.Resources[0].ErrorCode)
	require.Len(r.t, p.Resources[0].Configs, 1, "%s of %q", key, name)
	require.NotNil(r.t, p.Resources[0].Configs[0].Value)
	return *p.Resources[0].Configs[0].Value
}

// A restart of the only node raises the leader epochs by two, and an epoch ends where the next one began.
func TestLeaderEpochsRise(t *testing.T) {
	r := startRestarting(t, kshare.WithTopic("orders", 1))
	for restarts := range int32(3) {
		if restarts > 0 {
			r.restart()
		}
		r.produce("orders", 2)
		metadata, err := r.admin().Metadata(context.Background(), "orders")
		require.NoError(t, err)
		require.Equal(t, 2*restarts, metadata.Topics["orders"].Partitions[0].LeaderEpoch)
		for epoch := range 2*restarts + 1 {
			p := r.endOfEpoch(epoch)
			require.Zero(t, p.ErrorCode)
			require.Equal(t, epoch/2*2, p.LeaderEpoch)
			require.EqualValues(t, epoch/2*2+2, p.EndOffset, "two records an epoch")
		}
	}
}

func (r *restarting) endOfEpoch(epoch int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	partition := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	partition.CurrentLeaderEpoch, partition.LeaderEpoch = -1, epoch
	topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
	topic.Topic = "orders"
	topic.Partitions = append(topic.Partitions, partition)
	q := kmsg.NewPtrOffsetForLeaderEpochRequest()
	q.ReplicaID = -1
	q.Topics = append(q.Topics, topic)
	return ask[*kmsg.OffsetForLeaderEpochResponse](r, q).Topics[0].Partitions[0]
}

func TestProducersSurvive(t *testing.T) {
	r := startRestarting(t, kshare.WithTopic("orders", 1))
	id := r.newProducerID()
	require.Equal(t, id+1, r.newProducerID())
	require.EqualValues(t, 0, r.produceBatch(id, 0, 2))
	require.EqualValues(t, 2, r.produceBatch(id, 2, 1))
	r.restart()
	require.Equal(t, (id/1000+1)*1000, r.newProducerID(), "ids go on with the next thousand")
	require.EqualValues(t, 2, r.produceBatch(id, 2, 1), "a duplicate")
	require.EqualValues(t, 0, r.produceBatch(id, 0, 2), "the one before, too")
	require.EqualValues(t, 3, r.produceBatch(id, 3, 1), "the next one")
	_, err := r.tryBatch(id, 9, 1)
	require.ErrorIs(t, err, kerr.OutOfOrderSequenceNumber)
	ends, err := r.admin().ListEndOffsets(context.Background(), "orders")
	require.NoError(t, err)
	end, _ := ends.Lookup("orders", 0)
	require.EqualValues(t, 4, end.Offset)
}

func (r *restarting) newProducerID() int64 {
	q := kmsg.NewPtrInitProducerIDRequest()
	q.ProducerID, q.ProducerEpoch = -1, -1
	p := ask[*kmsg.InitProducerIDResponse](r, q)
	require.Zero(r.t, p.ErrorCode)
	return p.ProducerID
}

func (r *restarting) produceBatch(id int64, sequence int32, records int) int64 {
	r.t.Helper()
	offset, err := r.tryBatch(id, sequence, records)
	require.NoError(r.t, err)
	return offset
}

// tryBatch produces a batch of a producer to orders-0 and returns its base offset.
func (r *restarting) tryBatch(id int64, sequence int32, records int) (int64, error) {
	r.t.Helper()
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = idempotentBatch(r.t, id, sequence, records)
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = "orders", r.topicID("orders")
	topic.Partitions = append(topic.Partitions, partition)
	q := kmsg.NewPtrProduceRequest()
	q.Acks, q.TimeoutMillis = -1, 1000
	q.Topics = append(q.Topics, topic)
	p := ask[*kmsg.ProduceResponse](r, q).Topics[0].Partitions[0]
	return p.BaseOffset, kerr.ErrorForCode(p.ErrorCode)
}

// idempotentBatch is a batch of small records as an idempotent producer of epoch 0 sends it.
func idempotentBatch(t *testing.T, id int64, sequence int32, records int) []byte {
	t.Helper()
	b := protocol.NewBatchBuilder()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = id, 0, sequence
	for range records {
		require.NoError(t, b.Append(time.Now().UnixMilli(), nil, []byte("value")))
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	return batch
}

// Stable members of groups of all three kinds go on after a restart as if nothing had happened, and committed offsets are there.
func TestGroupsSurvive(t *testing.T) {
	r := startRestarting(t, kshare.WithTopic("orders", 2))
	r.produce("orders", 5)
	member, generation := r.joinClassic("classic")
	next := r.heartbeatConsumer("next", nil)
	require.Zero(t, next.ErrorCode)
	share := r.heartbeatShare("share", newMemberID, 0)
	require.Zero(t, share.ErrorCode)
	r.commit("classic", member, generation, 3)
	r.commit("next", *next.MemberID, next.MemberEpoch, 4)
	for range 2 {
		r.restart()
		q := kmsg.NewPtrHeartbeatRequest()
		q.Group, q.MemberID, q.Generation = "classic", member, generation
		require.Zero(t, ask[*kmsg.HeartbeatResponse](r, q).ErrorCode)
		again := r.heartbeatConsumer("next", next)
		require.Zero(t, again.ErrorCode)
		require.Equal(t, next.MemberEpoch, again.MemberEpoch)
		shared := r.heartbeatShare("share", *share.MemberID, share.MemberEpoch)
		require.Zero(t, shared.ErrorCode)
		require.Equal(t, share.MemberEpoch, shared.MemberEpoch)
		for group, want := range map[string]int64{"classic": 3, "next": 4} {
			offsets, err := r.admin().FetchOffsets(context.Background(), group)
			require.NoError(t, err)
			o, ok := offsets.Lookup("orders", 0)
			require.True(t, ok)
			require.Equal(t, want, o.At)
			require.Equal(t, "by "+group, o.Metadata)
		}
		listed, err := r.admin().ListGroups(context.Background())
		require.NoError(t, err)
		require.Equal(t, []string{"classic", "next", "share"}, listed.Groups())
	}
	r.commit("classic", member, generation, 5)
}

const newMemberID = "7cRGDLJnTPWXyE0GPyTLlQ"

func (r *restarting) joinClassic(group string) (member string, generation int32) {
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = "range"
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Topics = []string{"orders"}
	protocol.Metadata = subscription.AppendTo(nil)
	q := kmsg.NewPtrJoinGroupRequest()
	q.Group, q.ProtocolType = group, "consumer"
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 45_000, 45_000
	q.Protocols = append(q.Protocols, protocol)
	p := ask[*kmsg.JoinGroupResponse](r, q)
	require.Equal(r.t, kerr.MemberIDRequired.Code, p.ErrorCode)
	q.MemberID = p.MemberID
	p = ask[*kmsg.JoinGroupResponse](r, q)
	require.Zero(r.t, p.ErrorCode)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, p.MemberID, p.Generation
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	assignment := kmsg.NewSyncGroupRequestGroupAssignment()
	assignment.MemberID = p.MemberID
	sync.GroupAssignment = append(sync.GroupAssignment, assignment)
	require.Zero(r.t, ask[*kmsg.SyncGroupResponse](r, sync).ErrorCode)
	return p.MemberID, p.Generation
}

// heartbeatConsumer joins a group where last is nil, and else owns what it was assigned.
func (r *restarting) heartbeatConsumer(group string, last *kmsg.ConsumerGroupHeartbeatResponse) *kmsg.ConsumerGroupHeartbeatResponse {
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Group, q.MemberID = group, newMemberID
	q.RebalanceTimeoutMillis = 45_000
	q.SubscribedTopicNames = []string{"orders"}
	q.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if last != nil {
		q.MemberEpoch = last.MemberEpoch
		for _, t := range last.Assignment.Topics {
			topic := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			topic.TopicID, topic.Partitions = t.TopicID, t.Partitions
			q.Topics = append(q.Topics, topic)
		}
	}
	return ask[*kmsg.ConsumerGroupHeartbeatResponse](r, q)
}

func (r *restarting) heartbeatShare(group, member string, epoch int32) *kmsg.ShareGroupHeartbeatResponse {
	q := kmsg.NewPtrShareGroupHeartbeatRequest()
	q.GroupID, q.MemberID, q.MemberEpoch = group, member, epoch
	if epoch == 0 {
		q.SubscribedTopicNames = []string{"orders"}
	}
	return ask[*kmsg.ShareGroupHeartbeatResponse](r, q)
}

func (r *restarting) commit(group, member string, generation int32, offset int64) {
	r.t.Helper()
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset, partition.Metadata = offset, kmsg.StringPtr("by "+group)
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = "orders", r.topicID("orders")
	topic.Partitions = append(topic.Partitions, partition)
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group, q.MemberID, q.Generation = group, member, generation
	q.Topics = append(q.Topics, topic)
	require.Zero(r.t, ask[*kmsg.OffsetCommitResponse](r, q).Topics[0].Partitions[0].ErrorCode)
}

// A deleted topic leaves no file, no configuration, no committed offset and no share state to one that is made under its name again.
func TestDeletedTopicLeavesNothing(t *testing.T) {
	ctx := context.Background()
	r := startRestarting(t)
	for range 3 {
		_, err := r.admin().CreateTopic(ctx, 1, 1, map[string]*string{"retention.ms": kmsg.StringPtr("1234567")}, "orders")
		require.NoError(t, err)
		r.produce("orders", 5)
		member, generation := r.joinClassic("classic")
		r.commit("classic", member, generation, 3)
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group, leave.MemberID = "classic", member
		leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: member}}
		require.Zero(t, ask[*kmsg.LeaveGroupResponse](r, leave).ErrorCode)
		_, err = r.admin().DeleteTopic(ctx, "orders")
		require.NoError(t, err)
		entries, err := os.ReadDir(filepath.Join(r.dir, "logs"))
		require.NoError(t, err)
		require.Empty(t, entries)
		r.restart()
		topics, err := r.admin().ListTopics(ctx)
		require.NoError(t, err)
		require.Empty(t, topics.Names())
		offsets, err := r.admin().FetchOffsets(ctx, "classic")
		if err == nil {
			_, ok := offsets.Lookup("orders", 0)
			require.False(t, ok, "an offset of a topic that is gone")
		} else {
			require.True(t, errors.Is(err, kerr.GroupIDNotFound), err)
		}
		_, err = r.admin().CreateTopic(ctx, 1, 1, nil, "orders")
		require.NoError(t, err)
		require.NotEqual(t, "1234567", r.describe(kmsg.ConfigResourceTypeTopic, "orders", "retention.ms"))
		ends, err := r.admin().ListEndOffsets(ctx, "orders")
		require.NoError(t, err)
		end, _ := ends.Lookup("orders", 0)
		require.Zero(t, end.Offset)
		_, err = r.admin().DeleteTopic(ctx, "orders")
		require.NoError(t, err)
	}
}

// A fetch session lives in the broker's memory alone: after a restart its client is told so and begins anew.
func TestSessionsEndWithTheBroker(t *testing.T) {
	r := startRestarting(t, kshare.WithTopic("orders", 1))
	q := kmsg.NewPtrFetchRequest()
	q.SessionID, q.SessionEpoch, q.MaxBytes = 0, 0, 1<<20
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID, topic.Partitions = "orders", r.topicID("orders"), []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}
	q.Topics = append(q.Topics, topic)
	p := ask[*kmsg.FetchResponse](r, q)
	require.NotZero(t, p.SessionID)
	r.restart()
	q.SessionID, q.SessionEpoch, q.Topics = p.SessionID, 1, nil
	require.Equal(t, kerr.FetchSessionIDNotFound.Code, ask[*kmsg.FetchResponse](r, q).ErrorCode)
}

// A real consumer keeps its place in its group over restarts of the broker: its member id and generation stay.
func TestConsumerGoesOn(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, opts := range [][]kgo.Opt{
		{kgo.ConsumerGroup("classic")},
		{kgo.ConsumerGroup("next"), kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer())},
	} {
		r := startRestarting(t, kshare.WithTopic("orders", 1))
		consumer, err := kgo.NewClient(append(opts, kgo.SeedBrokers(r.cluster.Addrs()...), kgo.ConsumeTopics("orders"),
			kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
				return r.live.Load().Dial(ctx, network, addr)
			}),
			kgo.RequestRetries(math.MaxInt32), // a heartbeat that gives up while the broker restarts would join again
			kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		require.NoError(t, err)
		poll := func(n int) {
			for n > 0 {
				n -= len(consumer.PollFetches(ctx).Records())
				require.NoError(t, ctx.Err())
			}
		}
		r.produce("orders", 3)
		poll(3)
		member, generation := consumer.GroupMetadata()
		require.NotEmpty(t, member)
		for range 2 {
			r.restart()
			r.produce("orders", 3)
			poll(3)
			m, g := consumer.GroupMetadata()
			require.Equal(t, member, m)
			require.Equal(t, generation, g)
		}
		consumer.Close()
	}
}
