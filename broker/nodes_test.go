package broker_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/coordinator"
	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
)

const nodes, partitions = 3, 6

// onThreeNodes runs a test against three nodes, in both timing profiles.
func onThreeNodes(t *testing.T, f func(t *testing.T, c *kshare.Cluster)) {
	for name, timing := range timings {
		t.Run(name, func(t *testing.T) {
			inBubble(t, f, kshare.WithBrokers(nodes), kshare.WithTiming(timing), kshare.WithTopic("t", partitions))
		})
	}
}

// Real clients of every kind work with partitions and coordinators that are spread over the nodes.
func TestClientsOfThreeNodes(t *testing.T) {
	const groups, each = 6, 20
	onThreeNodes(t, func(t *testing.T, c *kshare.Cluster) {
		producer := newClient(t, c)
		makeCoordinators(t, producer)
		leaders := map[int32]int{}
		for _, p := range metadata(t, producer, "t").Topics[0].Partitions {
			leaders[p.Leader]++
		}
		require.Equal(t, map[int32]int{1: 2, 2: 2, 3: 2}, leaders)
		coordinators := map[int32]bool{}
		for i := range groups {
			setGroupConfig(t, producer, fmt.Sprint("share", i), "share.auto.offset.reset", "earliest")
			coordinators[coordinatorOf(t, producer, 0, fmt.Sprint("share", i)).NodeID] = true
		}
		require.Greater(t, len(coordinators), 1)
		for p := range int32(partitions) {
			produce(t, producer, "t", p, each)
		}
		assert.Len(t, drain(t, newClient(t, c, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), partitions*each), partitions)
		for i := range groups {
			for kind, opts := range map[string][]kgo.Opt{
				"classic":  {kgo.ConsumerGroup(fmt.Sprint("classic", i))},
				"consumer": {kgo.ConsumerGroup(fmt.Sprint("consumer", i)), kgo.ServerSideBalancer()},
				"share":    {kgo.ShareGroup(fmt.Sprint("share", i))},
			} {
				opts = append(opts, kgo.ConsumeTopics("t"))
				if kind != "share" {
					opts = append(opts, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
				}
				assert.Len(t, drain(t, newClient(t, c, opts...), partitions*each), partitions, "%s %d", kind, i)
			}
		}
		listed := send[*kmsg.ListGroupsResponse](t, producer, kmsg.NewPtrListGroupsRequest())
		types := map[string]string{}
		for _, g := range listed.Groups {
			types[g.Group] = g.GroupType
		}
		for i := range groups {
			for _, kind := range []string{"classic", "consumer", "share"} {
				assert.Equal(t, kind, types[fmt.Sprint(kind, i)])
			}
		}
	})
}

// drain reads n records, each once, closes the client, and returns how many there are in each partition.
func drain(t *testing.T, client *kgo.Client, n int) map[int32]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	read := map[int32]int{}
	for total := 0; total < n; {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			read[r.Partition]++
			total++
		})
	}
	client.CloseAllowingRebalance()
	synctest.Wait() // the nodes have seen the connections end
	return read
}

// coordinatorOf is the coordinator of a key.
func coordinatorOf(t *testing.T, client *kgo.Client, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	t.Helper()
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.CoordinatorType, q.CoordinatorKeys = kind, []string{key}
	p := send[*kmsg.FindCoordinatorResponse](t, client, q)
	require.Len(t, p.Coordinators, 1)
	return p.Coordinators[0]
}

// codes are the error codes of an answer, wherever they stand.
func codes(p kmsg.Response) []int16 {
	var found []int16
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).Name == "ErrorCode" {
					found = append(found, int16(v.Field(i).Int()))
				} else if v.Type().Field(i).IsExported() {
					walk(v.Field(i))
				}
			}
		}
	}
	walk(reflect.ValueOf(p))
	return found
}

// Every API of groups is answered with NOT_COORDINATOR by a node that does not coordinate the group.
func TestNotCoordinator(t *testing.T) {
	onThreeNodes(t, func(t *testing.T, c *kshare.Cluster) {
		client := newClient(t, c)
		makeCoordinators(t, client)
		topic := metadata(t, client, "t").Topics[0].TopicID
		const group = "g"
		here := coordinatorOf(t, client, 0, group).NodeID
		requests := []kmsg.Request{
			&kmsg.OffsetCommitRequest{Version: 9, Group: group, Topics: []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 1}}}}},
			&kmsg.OffsetFetchRequest{Version: 1, Group: group, Topics: []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0, 1}}}},
			&kmsg.OffsetFetchRequest{Version: 7, Group: group},
			&kmsg.OffsetFetchRequest{Version: 9, Groups: []kmsg.OffsetFetchRequestGroup{{Group: group}}},
			&kmsg.JoinGroupRequest{Version: 9, Group: group, ProtocolType: "consumer", SessionTimeoutMillis: 10_000, Protocols: []kmsg.JoinGroupRequestProtocol{{Name: "range"}}},
			&kmsg.HeartbeatRequest{Version: 4, Group: group, MemberID: "m"},
			&kmsg.LeaveGroupRequest{Version: 2, Group: group, MemberID: "m"},
			&kmsg.LeaveGroupRequest{Version: 5, Group: group, Members: []kmsg.LeaveGroupRequestMember{{MemberID: "m"}}},
			&kmsg.SyncGroupRequest{Version: 5, Group: group, MemberID: "m", ProtocolType: kmsg.StringPtr("consumer"), Protocol: kmsg.StringPtr("range")},
			&kmsg.DescribeGroupsRequest{Version: 6, Groups: []string{group}},
			&kmsg.DeleteGroupsRequest{Version: 3, Groups: []string{group}},
			&kmsg.OffsetDeleteRequest{Group: group, Topics: []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}},
			&kmsg.ConsumerGroupHeartbeatRequest{Version: 1, Group: group, MemberID: "m", RebalanceTimeoutMillis: 1000, SubscribedTopicNames: []string{"t"}, Topics: []kmsg.ConsumerGroupHeartbeatRequestTopic{}},
			&kmsg.ConsumerGroupDescribeRequest{Version: 1, Groups: []string{group}},
			&kmsg.ShareGroupHeartbeatRequest{Version: 1, GroupID: group, MemberID: "m", SubscribedTopicNames: []string{"t"}},
			&kmsg.ShareGroupDescribeRequest{Version: 1, GroupIDs: []string{group}},
			&kmsg.DescribeShareGroupOffsetsRequest{Version: 1, Groups: []kmsg.DescribeShareGroupOffsetsRequestGroup{{GroupID: group}}},
			&kmsg.AlterShareGroupOffsetsRequest{GroupID: group, Topics: []kmsg.AlterShareGroupOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterShareGroupOffsetsRequestTopicPartition{{}}}}},
			&kmsg.DeleteShareGroupOffsetsRequest{GroupID: group, Topics: []kmsg.DeleteShareGroupOffsetsRequestTopic{{Topic: "t"}}},
		}
		for node := int32(1); node <= nodes; node++ {
			for _, q := range requests {
				got := codes(askOver(t, c, node, q))
				name := fmt.Sprintf("%s v%d at node %d, coordinator %d", kmsg.NameForKey(q.Key()), q.GetVersion(), node, here)
				if node == here {
					assert.NotContains(t, got, errorcode.NotCoordinator, name)
				} else {
					assert.Contains(t, got, errorcode.NotCoordinator, name)
					assert.Empty(t, slices.DeleteFunc(got, func(code int16) bool { return code == 0 || code == errorcode.NotCoordinator }), name)
				}
			}
		}
		shareStateAt(t, c, client, topic)
	})
}

// shareStateAt asks every node for the state of share partitions: only the coordinator of each answers.
func shareStateAt(t *testing.T, c *kshare.Cluster, client *kgo.Client, topic [16]byte) {
	at := map[int32]bool{}
	for partition := range int32(partitions) {
		k := sharecoordinator.Key{Group: "g", Topic: topic, Partition: partition}
		coordinatorOf(t, client, 2, k.String()) // the first one is refused with timing=kafka
		here := coordinatorOf(t, client, 2, k.String()).NodeID
		at[here] = true
		for node := int32(1); node <= nodes; node++ {
			for operation, q := range map[string]kmsg.Request{
				"initialize share group state": &kmsg.InitializeShareGroupStateRequest{GroupID: "g", Topics: []kmsg.InitializeShareGroupStateRequestTopic{
					{TopicID: topic, Partitions: []kmsg.InitializeShareGroupStateRequestTopicPartition{{Partition: partition}}}}},
				"read share group state": &kmsg.ReadShareGroupStateRequest{GroupID: "g", Topics: []kmsg.ReadShareGroupStateRequestTopic{
					{TopicID: topic, Partitions: []kmsg.ReadShareGroupStateRequestTopicPartition{{Partition: partition}}}}},
				"write share group state": &kmsg.WriteShareGroupStateRequest{Version: 1, GroupID: "g", Topics: []kmsg.WriteShareGroupStateRequestTopic{
					{TopicID: topic, Partitions: []kmsg.WriteShareGroupStateRequestTopicPartition{{Partition: partition}}}}},
				"delete share group state": &kmsg.DeleteShareGroupStateRequest{GroupID: "g", Topics: []kmsg.DeleteShareGroupStateRequestTopic{
					{TopicID: topic, Partitions: []kmsg.DeleteShareGroupStateRequestTopicPartition{{Partition: partition}}}}},
				"read share group state summary": &kmsg.ReadShareGroupStateSummaryRequest{Version: 1, GroupID: "g", Topics: []kmsg.ReadShareGroupStateSummaryRequestTopic{
					{TopicID: topic, Partitions: []kmsg.ReadShareGroupStateSummaryRequestTopicPartition{{Partition: partition}}}}},
			} {
				p := askOver(t, c, node, q)
				if node == here {
					assert.NotContains(t, codes(p), errorcode.NotCoordinator, operation)
					continue
				}
				assert.Equal(t, []int16{errorcode.NotCoordinator}, codes(p), operation)
				message := reflect.ValueOf(p).Elem().FieldByName("Topics").Index(0).FieldByName("Partitions").Index(0).FieldByName("ErrorMessage")
				assert.Equal(t, "Unable to "+operation+": This is not the correct coordinator.", message.Elem().String())
			}
		}
	}
	assert.Greater(t, len(at), 1)
}

// The coordinator that a node names is the leader of the key's partition.
func TestCoordinatorsLeadTheirPartitions(t *testing.T) {
	onThreeNodes(t, func(t *testing.T, c *kshare.Cluster) {
		client := newClient(t, c)
		makeCoordinators(t, client)
		topic := metadata(t, client, "__consumer_offsets").Topics[0]
		for i := range 20 {
			group := fmt.Sprint("group-", i)
			p := topic.Partitions[slices.IndexFunc(topic.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool {
				return p.Partition == coordinator.PartitionFor(group, int32(len(topic.Partitions)))
			})]
			assert.Equal(t, p.Leader, coordinatorOf(t, client, 0, group).NodeID)
		}
	})
}

// Every API of partitions is answered with NOT_LEADER_OR_FOLLOWER by a node that does not lead the partition, and with who does where the answer
// has room for it.
func TestNotLeader(t *testing.T) {
	onThreeNodes(t, func(t *testing.T, c *kshare.Cluster) {
		client := newClient(t, c)
		makeCoordinators(t, client)
		topic := metadata(t, client, "t").Topics[0]
		at := slices.IndexFunc(topic.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Partition == 0 })
		leader := topic.Partitions[at].Leader
		group, member := "g", "m"
		acknowledgement := []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{{AcknowledgeTypes: []int8{1}}}
		for node := int32(1); node <= nodes; node++ {
			if node == leader {
				continue
			}
			fetch := func(version int16) *kmsg.FetchRequest {
				q := kmsg.NewPtrFetchRequest()
				q.Version, q.MaxWaitMillis, q.SessionEpoch = version, 1000, -1
				p := kmsg.NewFetchRequestTopicPartition()
				p.PartitionMaxBytes = 1 << 20
				q.Topics = []kmsg.FetchRequestTopic{{Topic: "t", TopicID: topic.TopicID, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
				return q
			}
			produce := kmsg.NewPtrProduceRequest()
			produce.Version, produce.Acks, produce.TimeoutMillis = 13, -1, 1000
			produce.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", TopicID: topic.TopicID, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: oneRecord()}}}}
			list := kmsg.NewPtrListOffsetsRequest()
			list.Version, list.ReplicaID = 7, -1
			list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{CurrentLeaderEpoch: -1, Timestamp: -1}}}}
			epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
			epochs.Version, epochs.ReplicaID = 4, -1
			epochs.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1}}}}
			for _, q := range []kmsg.Request{
				fetch(11), fetch(12), fetch(17), produce, list, epochs,
				&kmsg.DeleteRecordsRequest{Version: 2, Topics: []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{}}}}},
				&kmsg.DescribeProducersRequest{Topics: []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0}}}},
				&kmsg.ShareFetchRequest{Version: 2, GroupID: &group, MemberID: &member, MaxWaitMillis: 1000, MaxBytes: 1 << 20, MaxRecords: 10,
					Topics: []kmsg.ShareFetchRequestTopic{{TopicID: topic.TopicID, Partitions: []kmsg.ShareFetchRequestTopicPartition{{}}}}},
				&kmsg.ShareAcknowledgeRequest{Version: 2, GroupID: &group, MemberID: &member, ShareSessionEpoch: 1,
					Topics: []kmsg.ShareAcknowledgeRequestTopic{{TopicID: topic.TopicID, Partitions: []kmsg.ShareAcknowledgeRequestTopicPartition{{AcknowledgementBatches: acknowledgement}}}}},
			} {
				name := fmt.Sprintf("%s v%d", kmsg.NameForKey(q.Key()), q.GetVersion())
				began := time.Now()
				var p kmsg.Response
				if q.Key() == 78 || q.Key() == 79 {
					p = ask[kmsg.Response](t, client, node, q) // over one connection, with which the session lives
				} else {
					p = askOver(t, c, node, q)
				}
				assert.Zero(t, time.Since(began), name)
				want := errorcode.NotLeaderOrFollower
				if q.Key() == 79 {
					want = errorcode.UnknownTopicOrPartition // a node that does not lead has no share partition
				}
				assert.Equal(t, []int16{want}, slices.DeleteFunc(codes(p), func(code int16) bool { return code == 0 }), name)
				if q.Key() == 0 || q.Key() == 1 && q.GetVersion() >= 16 || q.Key() == 78 {
					assertHints(t, name, p, leader, c.Addrs()[leader-1])
				}
			}
		}
	})
}

// assertHints asserts that an answer names the leader of its one partition and where that is.
func assertHints(t *testing.T, name string, p kmsg.Response, leader int32, addr string) {
	t.Helper()
	v := reflect.ValueOf(p).Elem()
	endpoints := v.FieldByName("Brokers")
	if !endpoints.IsValid() {
		endpoints = v.FieldByName("NodeEndpoints")
	}
	require.Equal(t, 1, endpoints.Len(), name)
	e := endpoints.Index(0)
	assert.EqualValues(t, leader, e.FieldByName("NodeID").Int(), name)
	assert.Equal(t, addr, fmt.Sprintf("%s:%d", e.FieldByName("Host").String(), e.FieldByName("Port").Int()), name)
	current := v.FieldByName("Topics").Index(0).FieldByName("Partitions").Index(0).FieldByName("CurrentLeader")
	assert.EqualValues(t, leader, current.FieldByName("LeaderID").Int(), name)
	assert.Zero(t, current.FieldByName("LeaderEpoch").Int(), name)
}

// A share group's member gets records from every leader, and each leader's state lives with its own coordinator.
func TestShareGroupOverThreeNodes(t *testing.T) {
	onThreeNodes(t, func(t *testing.T, c *kshare.Cluster) {
		m := startGroup(t, c, "g", "t")
		client := newClient(t, c)
		for _, p := range metadata(t, client, "t").Topics[0].Partitions {
			produce(t, client, "t", p.Partition, 3)
			if p.Partition != 0 {
				continue
			}
			require.Equal(t, p.Leader, m.node)
			require.Equal(t, []delivered{{0, 2, 1}}, acquired(t, m.fetch(time.Second)))
			require.Zero(t, m.acknowledge(0, 2, accept).ErrorCode)
		}
		k := sharecoordinator.Key{Group: "g", Topic: m.topic}
		q := &kmsg.ReadShareGroupStateSummaryRequest{Version: 1, GroupID: "g", Topics: []kmsg.ReadShareGroupStateSummaryRequestTopic{
			{TopicID: m.topic, Partitions: []kmsg.ReadShareGroupStateSummaryRequestTopicPartition{{}}}}}
		at := coordinatorOf(t, client, 2, k.String()).NodeID
		state := ask[*kmsg.ReadShareGroupStateSummaryResponse](t, client, at, q).Topics[0].Partitions[0]
		assert.Zero(t, state.ErrorCode)
		assert.Zero(t, state.StartOffset, "what is persisted trails")
		assert.EqualValues(t, 3, state.DeliveryCompleteCount)
	})
}

// oneRecord is a record batch as a producer sends it, with one record, which has no timestamp and so is never too old.
func oneRecord() []byte {
	b := protocol.NewBatchBuilder()
	if err := b.Append(-1, nil, []byte("v")); err != nil {
		panic(err)
	}
	batch, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return batch
}
