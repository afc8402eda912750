package broker_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/protocol/errorcode"
)

// onReplicas runs a test against three nodes that have a replica of every partition each, in both timing profiles.
func onReplicas(t *testing.T, f func(t *testing.T, c *kshare.Cluster), opts ...kshare.Option) {
	for name, timing := range timings {
		t.Run(name, func(t *testing.T) {
			replicated(t, timing, f, opts...)
		})
	}
}

// replicated runs a test on three nodes that all have replicas.
func replicated(t *testing.T, timing kshare.Timing, f func(t *testing.T, c *kshare.Cluster), opts ...kshare.Option) {
	inBubble(t, f, append(opts, kshare.WithBrokers(nodes), kshare.WithTiming(timing), kshare.WithTopic("t", partitions),
		kshare.WithConfig("default.replication.factor", "3"))...)
}

// partitionOf is what the node says of a partition.
func partitionOf(t *testing.T, c *kshare.Cluster, node int32, topic string, index int32) kmsg.MetadataResponseTopicPartition {
	t.Helper()
	q := kmsg.NewPtrMetadataRequest()
	q.Version = 13
	q.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	p := askOver(t, c, node, q).(*kmsg.MetadataResponse)
	require.Len(t, p.Topics, 1)
	at := slices.IndexFunc(p.Topics[0].Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Partition == index })
	require.GreaterOrEqual(t, at, 0)
	described := askOver(t, c, node, &kmsg.DescribeTopicPartitionsRequest{ResponsePartitionLimit: 100,
		Topics: []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: topic}}}).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].Partitions[index]
	got := p.Topics[0].Partitions[at]
	got.UnknownTags = kmsg.Tags{}
	assert.Zero(t, described.ErrorCode, "a partition without a leader is no error there")
	assert.Equal(t, kmsg.MetadataResponseTopicPartition{
		ErrorCode: got.ErrorCode, Partition: described.Partition, Leader: described.LeaderID, LeaderEpoch: described.LeaderEpoch,
		Replicas: described.Replicas, ISR: described.ISR, OfflineReplicas: described.OfflineReplicas,
	}, got, "Metadata and DescribeTopicPartitions agree")
	return got
}

// brokersOf are the nodes that a node lists.
func brokersOf(t *testing.T, c *kshare.Cluster, node int32) (ids []int32) {
	t.Helper()
	q := kmsg.NewPtrMetadataRequest()
	q.Version = 12
	p := askOver(t, c, node, q).(*kmsg.MetadataResponse)
	for _, b := range p.Brokers {
		ids = append(ids, b.NodeID)
	}
	assert.Contains(t, ids, p.ControllerID)
	described := askOver(t, c, node, &kmsg.DescribeClusterRequest{Version: 2, EndpointType: 1, IncludeFencedBrokers: true}).(*kmsg.DescribeClusterResponse)
	require.Len(t, described.Brokers, len(c.Addrs()))
	for _, b := range described.Brokers {
		assert.Equal(t, !slices.Contains(ids, b.NodeID), b.IsFenced)
	}
	return ids
}

func TestStoppedNodeIsReplaced(t *testing.T) {
	onReplicas(t, func(t *testing.T, c *kshare.Cluster) {
		client := newClient(t, c)
		makeCoordinators(t, client)
		produce(t, client, "t", 0, 3)
		before := partitionOf(t, c, 1, "t", 0)
		require.Equal(t, []int32{1, 2, 3}, before.ISR)
		require.EqualValues(t, 1, before.Leader)

		require.NoError(t, c.StopNode(1))
		_, err := c.Dial(context.Background(), "tcp", c.Addrs()[0])
		require.ErrorContains(t, err, "connection refused")
		after := partitionOf(t, c, 3, "t", 0)
		assert.EqualValues(t, 2, after.Leader)
		assert.EqualValues(t, 1, after.LeaderEpoch)
		assert.Equal(t, []int32{2, 3}, after.ISR)
		assert.Equal(t, []int32{1, 2, 3}, after.Replicas)
		assert.Equal(t, []int32{1}, after.OfflineReplicas)
		follower := partitionOf(t, c, 3, "t", 1)
		assert.EqualValues(t, 2, follower.Leader)
		assert.Zero(t, follower.LeaderEpoch, "only a new leader begins an epoch")
		assert.Equal(t, []int32{2, 3}, brokersOf(t, c, 2))
		for i := range 20 {
			assert.NotEqualValues(t, 1, coordinatorOf(t, client, 0, fmt.Sprint("group-", i)).NodeID)
		}
		produce(t, client, "t", 0, 2)

		require.NoError(t, c.StartNode(1))
		again := partitionOf(t, c, 1, "t", 0)
		assert.EqualValues(t, 2, again.Leader, "the preferred leader does not come back by itself")
		assert.Equal(t, []int32{1, 2, 3}, again.ISR)
		assert.Empty(t, again.OfflineReplicas)
		assert.Equal(t, []int32{1, 2, 3}, brokersOf(t, c, 1))
		require.NoError(t, c.MoveLeader("t", 0, 1, true))
		assert.EqualValues(t, 2, partitionOf(t, c, 3, "t", 0).LeaderEpoch)
		assert.Len(t, drain(t, newClient(t, c, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 5), 1)
	})
}

// A partition is led by nobody while no replica is there that was in sync to the last.
func TestPartitionWithoutLeader(t *testing.T) {
	onReplicas(t, func(t *testing.T, c *kshare.Cluster) {
		q := kmsg.NewPtrCreateTopicsRequest()
		q.Version, q.TimeoutMillis = 7, 1000
		q.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "two", NumPartitions: -1, ReplicationFactor: -1,
			ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{1, 2}}}}}
		require.Zero(t, askOver(t, c, 3, q).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
		client := newClient(t, c)
		produce(t, client, "two", 0, 4)
		require.NoError(t, c.StopNode(1))
		require.NoError(t, c.StopNode(2))

		gone := partitionOf(t, c, 3, "two", 0)
		assert.Equal(t, errorcode.LeaderNotAvailable, gone.ErrorCode)
		assert.EqualValues(t, -1, gone.Leader)
		assert.EqualValues(t, 2, gone.LeaderEpoch)
		assert.Empty(t, gone.ISR)
		assert.Equal(t, []int32{1, 2}, gone.OfflineReplicas)
		elr := askOver(t, c, 3, &kmsg.DescribeTopicPartitionsRequest{ResponsePartitionLimit: 1,
			Topics: []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "two"}}}).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].Partitions[0]
		assert.Equal(t, []int32{2}, elr.EligibleLeaderReplicas)
		assert.Equal(t, []int32{2}, elr.LastKnownELR)
		v0 := kmsg.NewPtrMetadataRequest()
		v0.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("two")}}
		assert.Equal(t, errorcode.LeaderNotAvailable, askOver(t, c, 3, v0).(*kmsg.MetadataResponse).Topics[0].Partitions[0].ErrorCode)
		v0.Topics[0].Topic = kmsg.StringPtr("t")
		assert.Equal(t, errorcode.ReplicaNotAvailable, askOver(t, c, 3, v0).(*kmsg.MetadataResponse).Topics[0].Partitions[0].ErrorCode)

		produce13 := kmsg.NewPtrProduceRequest()
		produce13.Version, produce13.Acks = 12, 1
		produce13.Topics = []kmsg.ProduceRequestTopic{{Topic: "two", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: oneRecord()}}}}
		answer := askOver(t, c, 3, produce13).(*kmsg.ProduceResponse)
		assert.Equal(t, errorcode.NotLeaderOrFollower, answer.Topics[0].Partitions[0].ErrorCode)
		assert.EqualValues(t, -1, answer.Topics[0].Partitions[0].CurrentLeader.LeaderID)
		assert.EqualValues(t, 2, answer.Topics[0].Partitions[0].CurrentLeader.LeaderEpoch)
		assert.Empty(t, answer.Brokers)

		require.NoError(t, c.StartNode(1))
		assert.EqualValues(t, -1, partitionOf(t, c, 3, "two", 0).Leader, "node 1 was out of sync")
		require.ErrorContains(t, c.MoveLeader("two", 0, 1, true), "node 1 is not in sync with two-0, nodes [2] are the last that were")
		require.NoError(t, c.StartNode(2))
		back := partitionOf(t, c, 3, "two", 0)
		assert.EqualValues(t, 2, back.Leader)
		assert.EqualValues(t, 3, back.LeaderEpoch)
		assert.Equal(t, []int32{1, 2}, back.ISR)
		assert.Equal(t, map[int32]int{0: 4}, drain(t, newClient(t, c, kgo.ConsumeTopics("two"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 4))
	})
}

// acks=all needs min.insync.replicas of the replicas that there are. What is taken without them is not seen until there are enough.
func TestNotEnoughReplicas(t *testing.T) {
	inBubble(t, func(t *testing.T, c *kshare.Cluster) {
		q := kmsg.NewPtrProduceRequest()
		q.Version = 12
		q.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: oneRecord()}}}}
		produced := func(acks int16) int16 {
			q.Acks = acks
			return askOver(t, c, 3, q).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
		}
		require.NoError(t, c.MoveLeader("t", 0, 3, true))
		latest := func() int64 {
			list := kmsg.NewPtrListOffsetsRequest()
			list.Version, list.ReplicaID = 7, -1
			list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{CurrentLeaderEpoch: -1, Timestamp: -1}}}}
			return askOver(t, c, 3, list).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset
		}
		require.NoError(t, c.StopNode(1))
		assert.Zero(t, produced(-1))
		require.NoError(t, c.StopNode(2))
		assert.Equal(t, errorcode.NotEnoughReplicas, produced(-1))
		assert.Zero(t, produced(1))
		assert.EqualValues(t, 1, latest())
		require.NoError(t, c.StartNode(2))
		assert.EqualValues(t, 2, latest())
		assert.Zero(t, produced(-1))
		assert.EqualValues(t, 3, latest())
	}, kshare.WithBrokers(nodes), kshare.WithTopic("t", 1), kshare.WithConfig("default.replication.factor", "3"), kshare.WithConfig("min.insync.replicas", "2"))
}

// What is asked of nodes that makes no sense is refused in words.
func TestNodeControlErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, c *kshare.Cluster) {
		require.NoError(t, c.StopNode(3))
		for want, err := range map[string]error{
			"kshare: stop node: there is no node 4, there are 1 to 3":                                                      c.StopNode(4),
			"kshare: stop node: node 3 is stopped already":                                                                 c.StopNode(3),
			"kshare: start node: node 1 runs already":                                                                      c.StartNode(1),
			"kshare: cut node: node 3 is stopped":                                                                          c.CutNode(3),
			"kshare: heal node: node 1 is not cut off":                                                                     c.HealNode(1),
			"kshare: move leader: there is no topic \"u\"":                                                                 c.MoveLeader("u", 0, 1, true),
			"kshare: move leader: topic t has no partition 6, only 0 to 5":                                                 c.MoveLeader("t", 6, 1, true),
			"kshare: move leader: node 2 has no replica of t-0, nodes [1] have":                                            c.MoveLeader("t", 0, 2, true),
			"kshare: move leader: node 1 leads t-0 already":                                                                c.MoveLeader("t", 0, 1, true),
			"kshare: move coordinator: \"g\" is no key of a share coordinator, which is group:topic id:partition":          c.MoveCoordinator(kshare.ShareCoordinator, "g", 1, 0),
			"kshare: move coordinator: there is no kind of coordinator 3: 0 is groups, 1 transactions, 2 share partitions": c.MoveCoordinator(3, "g", 1, 0),
			"kshare: move coordinator: a coordinator cannot take -1ns to load":                                             c.MoveCoordinator(kshare.GroupCoordinator, "g", 1, -1),
			"kshare: move coordinator: node 3 is stopped":                                                                  c.MoveCoordinator(kshare.GroupCoordinator, "g", 3, 0),
		} {
			assert.EqualError(t, err, want)
		}
		require.NoError(t, c.CutNode(1))
		assert.EqualError(t, c.CutNode(1), "kshare: cut node: node 1 is cut off already")
		require.NoError(t, c.StopNode(1), "a node that is cut off can be stopped")
		require.NoError(t, c.StartNode(1))
		assert.EqualError(t, c.HealNode(1), "kshare: heal node: node 1 is not cut off")
		require.NoError(t, c.Close())
		assert.EqualError(t, c.StopNode(1), "kshare: stop node: the cluster is closed")
	}, kshare.WithBrokers(nodes), kshare.WithTopic("t", partitions))
}

// The one node of a cluster comes back with everything but what it had only in its memory.
func TestOnlyNodeComesBack(t *testing.T) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, _ kshare.Timing) {
		m := startGroup(t, c, "g", "t")
		produce(t, m.client, "t", 0, 10)
		require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m.fetch(time.Second)))
		require.Zero(t, m.acknowledge(0, 3, accept).ErrorCode)
		waiting := m.another(c, "m2").fetching(time.Hour)
		synctest.Wait()

		require.NoError(t, c.StopNode(1))
		_, answered := <-waiting
		require.False(t, answered, "its connection is closed")
		require.NoError(t, c.StartNode(1))

		p := partitionOf(t, c, 1, "t", 0)
		assert.EqualValues(t, 1, p.Leader)
		assert.EqualValues(t, 2, p.LeaderEpoch)
		m.epoch = 1
		assert.Equal(t, errorcode.ShareSessionNotFound, m.fetch(0).ErrorCode)
		m.epoch = 0
		assert.Equal(t, []delivered{{4, 9, 2}}, acquired(t, m.fetch(time.Second)), "what was held is released, what was acknowledged is not")
		assert.Zero(t, m.acknowledge(4, 9, accept).ErrorCode)
	})
}

// A node that listens on a port listens on the same one again, and says so where that is taken.
func TestNodeListensOnTheSamePort(t *testing.T) {
	c, err := kshare.Start(kshare.WithBrokers(2), kshare.WithTopic("t", 2))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.StopNode(2))
	_, err = c.Dial(context.Background(), "tcp", c.Addrs()[1])
	require.Error(t, err)
	other, err := net.Listen("tcp", c.Addrs()[1])
	require.NoError(t, err)
	require.ErrorContains(t, c.StartNode(2), "address already in use")
	require.NoError(t, other.Close())
	require.NoError(t, c.StartNode(2))
	assert.Equal(t, []int32{1, 2}, brokersOf(t, c, 2))
	assert.EqualValues(t, 2, partitionOf(t, c, 1, "t", 1).Leader)
	produce(t, newClient(t, c), "t", 1, 1)
}

// survivor is a consumer whose cluster is tampered with.
type survivor struct {
	client *kgo.Client
	read   map[string]int  // how often it got each record
	acked  map[string]bool // what it has acknowledged, of a share group
	again  []string        // what it got all the same
	failed atomic.Bool     // an acknowledgement since the last flush; the client tells in a goroutine of its own
}

func newSurvivor(t *testing.T, c *kshare.Cluster, opts ...kgo.Opt) *survivor {
	s := &survivor{read: map[string]int{}, acked: map[string]bool{}}
	s.client = newClient(t, c, append(opts, kgo.ConsumeTopics("t"))...)
	return s
}

// newShareSurvivor is one of a share group.
func newShareSurvivor(t *testing.T, c *kshare.Cluster, group string) *survivor {
	s := &survivor{read: map[string]int{}, acked: map[string]bool{}}
	s.client = newClient(t, c, kgo.ShareGroup(group), kgo.ConsumeTopics("t"),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if !results.Ok() {
				s.failed.Store(true)
			}
		}))
	return s
}

// consume reads until ctx ends. Only what was acknowledged for certain counts as acknowledged.
func (s *survivor) consume(ctx context.Context, share bool) {
	for ctx.Err() == nil {
		records := s.client.PollFetches(ctx).Records()
		for _, r := range records {
			value := string(r.Value)
			s.read[value]++
			if s.acked[value] {
				s.again = append(s.again, value)
			}
			if share {
				r.Ack(kgo.AckAccept)
			}
		}
		if !share || len(records) == 0 {
			continue
		}
		s.failed.Store(false)
		if err := s.client.FlushAcks(ctx); err != nil || s.failed.Load() {
			continue
		}
		for _, r := range records {
			s.acked[string(r.Value)] = true
		}
	}
}

// Real clients live through nodes that stop, start, are cut off and lose partitions: of what was acknowledged nothing is lost, and nothing that a
// share group's member has acknowledged comes again.
func TestClientsSurvive(t *testing.T) {
	const rounds, each = 16, 12
	onReplicas(t, func(t *testing.T, c *kshare.Cluster) {
		producer := newClient(t, c)
		makeCoordinators(t, producer)
		setGroupConfig(t, producer, "share", "share.auto.offset.reset", "earliest")
		start := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
		consumers := map[string]*survivor{
			"classic":  newSurvivor(t, c, kgo.ConsumerGroup("classic"), start),
			"consumer": newSurvivor(t, c, kgo.ConsumerGroup("consumer"), kgo.ServerSideBalancer(), start),
			"plain":    newSurvivor(t, c, start),
			"share":    newShareSurvivor(t, c, "share"),
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		for kind, s := range consumers {
			running.Go(func() { s.consume(ctx, kind == "share") })
		}
		for round := range rounds {
			node := int32(round/4%nodes) + 1
			switch round % 4 {
			case 0:
				require.NoError(t, c.StopNode(node))
			case 1:
				require.NoError(t, c.StartNode(node))
			case 2:
				for p := range int32(partitions) {
					if partitionOf(t, c, node, "t", p).Leader != node {
						require.NoError(t, c.MoveLeader("t", p, node, round%8 == 2))
					}
				}
			case 3:
				require.NoError(t, c.CutNode(node))
			}
			for i := range each {
				producer.Produce(ctx, &kgo.Record{Topic: "t", Partition: int32(i % partitions), Value: fmt.Append(nil, round, "-", i)},
					func(r *kgo.Record, err error) { assert.NoError(t, err, "record %s", r.Value) })
			}
			require.NoError(t, producer.Flush(ctx))
			time.Sleep(15 * time.Second)
			if round%4 == 3 {
				require.NoError(t, c.HealNode(node))
			}
		}
		time.Sleep(2 * time.Minute) // more than any lock or session lasts
		cancel()
		running.Wait()
		for kind, s := range consumers {
			for round := range rounds {
				for i := range each {
					value := fmt.Sprint(round, "-", i)
					assert.NotZero(t, s.read[value], "%s did not get %s", kind, value)
					if kind == "plain" {
						assert.Equal(t, 1, s.read[value], "%s got %s", kind, value)
					}
				}
			}
			assert.Empty(t, s.again, kind)
		}
		assert.Len(t, consumers["share"].acked, rounds*each)
	})
}
