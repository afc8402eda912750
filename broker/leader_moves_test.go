package broker_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
)

// moved is what answers say of the leader of t-0 after MoveLeader to node 2.
func moved(c *kshare.Cluster, hint bool) (leader, epoch int32, endpoints []string) {
	if !hint {
		return -1, -1, nil
	}
	return 2, 1, []string{c.Addrs()[1]}
}

// hints runs a test with and without a hint, on three nodes that all have replicas.
func hints(t *testing.T, f func(t *testing.T, c *kshare.Cluster, timing kshare.Timing, hint bool)) {
	for _, hint := range []bool{true, false} {
		t.Run(fmt.Sprintf("hint=%t", hint), func(t *testing.T) {
			for name, timing := range timings {
				t.Run(name, func(t *testing.T) {
					replicated(t, timing, func(t *testing.T, c *kshare.Cluster) { f(t, c, timing, hint) })
				})
			}
		})
	}
}

// A ShareFetch that waits where the leader was is answered as it moves with timing=fast. Apache Kafka lets it wait, and says nothing then of the partition. What
// comes later is told at once.
func TestShareFetchOfAMovedLeader(t *testing.T) {
	hints(t, func(t *testing.T, c *kshare.Cluster, timing kshare.Timing, hint bool) {
		m := startGroup(t, c, "g", "t")
		require.EqualValues(t, 1, m.node)
		assertMoved := func(what string, p *kmsg.ShareFetchResponse) {
			leader, epoch, endpoints := moved(c, hint)
			require.Zero(t, p.ErrorCode, what)
			require.Len(t, p.Topics, 1, what)
			partition := p.Topics[0].Partitions[0]
			assert.Equal(t, errorcode.NotLeaderOrFollower, partition.ErrorCode, what)
			assert.Equal(t, leader, partition.CurrentLeader.LeaderID, what)
			assert.Equal(t, epoch, partition.CurrentLeader.LeaderEpoch, what)
			assert.NotNil(t, partition.Records, what)
			var at []string
			for _, n := range p.NodeEndpoints {
				at = append(at, fmt.Sprintf("%s:%d", n.Host, n.Port))
			}
			assert.Equal(t, endpoints, at, what)
		}
		require.Empty(t, acquired(t, m.fetch(0)))
		waiting := m.fetching(30 * time.Second)
		time.Sleep(time.Second)
		require.NoError(t, c.MoveLeader("t", 0, 2, hint))
		answered := <-waiting
		if timing == kshare.TimingKafka {
			assert.Equal(t, 30*time.Second, answered.took)
			assert.Zero(t, answered.answer.ErrorCode)
			assert.Empty(t, answered.answer.Topics)
		} else {
			assert.Equal(t, time.Second, answered.took)
			assertMoved("waiting", answered.answer)
		}
		answered = <-m.fetching(30 * time.Second)
		assert.Zero(t, answered.took)
		assertMoved("later", answered.answer)
	})
}

// A Fetch that names the old epoch is told that it is fenced, and who leads. One of a version that knows no followers is told that the node does not lead, any other
// goes on at the replica.
func TestFetchOfAMovedLeader(t *testing.T) {
	hints(t, func(t *testing.T, c *kshare.Cluster, _ kshare.Timing, hint bool) {
		topic := metadata(t, newClient(t, c), "t").Topics[0].TopicID
		fetch := func(version int16, epoch int32) <-chan *kmsg.FetchResponse {
			q := kmsg.NewPtrFetchRequest()
			q.Version, q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.SessionEpoch = version, 30_000, 1, 1<<20, -1
			p := kmsg.NewFetchRequestTopicPartition()
			p.PartitionMaxBytes, p.CurrentLeaderEpoch = 1<<20, epoch
			q.Topics = []kmsg.FetchRequestTopic{{Topic: "t", TopicID: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
			answered := make(chan *kmsg.FetchResponse, 1)
			go func() { answered <- askOver(t, c, 1, q).(*kmsg.FetchResponse) }()
			return answered
		}
		began := time.Now()
		any, old, leaders := fetch(17, -1), fetch(17, 0), fetch(10, -1)
		time.Sleep(time.Second)
		require.NoError(t, c.MoveLeader("t", 0, 2, hint))
		for _, asked := range []struct {
			answered <-chan *kmsg.FetchResponse
			code     int16
		}{{old, errorcode.FencedLeaderEpoch}, {leaders, errorcode.NotLeaderOrFollower}, {fetch(17, 0), errorcode.FencedLeaderEpoch}, {fetch(10, 1), errorcode.NotLeaderOrFollower}} {
			got := <-asked.answered
			assert.Equal(t, time.Second, time.Since(began))
			leader, epoch, endpoints := moved(c, hint)
			partition := got.Topics[0].Partitions[0]
			assert.Equal(t, asked.code, partition.ErrorCode)
			if got.Version < 16 {
				continue
			}
			assert.Equal(t, leader, partition.CurrentLeader.LeaderID)
			assert.Equal(t, epoch, partition.CurrentLeader.LeaderEpoch)
			assert.Len(t, got.Brokers, len(endpoints))
		}
		there := fetch(17, 1)
		synctest.Wait()
		require.Empty(t, any)
		produce(t, newClient(t, c), "t", 0, 1)
		for _, answered := range []<-chan *kmsg.FetchResponse{any, there} {
			partition := (<-answered).Topics[0].Partitions[0]
			assert.Zero(t, partition.ErrorCode)
			assert.NotEmpty(t, partition.RecordBatches)
		}
	})
}

// With the leader go its acquisitions, with their delivery counts; what was acknowledged stays so.
func TestMovedLeaderKeepsWhatWasAcknowledged(t *testing.T) {
	hints(t, func(t *testing.T, c *kshare.Cluster, _ kshare.Timing, hint bool) {
		m := startGroup(t, c, "g", "t")
		produce(t, m.client, "t", 0, 10)
		require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m.fetch(time.Second)))
		require.Zero(t, m.acknowledge(0, 3, accept).ErrorCode)
		require.Zero(t, m.acknowledge(6, 6, release).ErrorCode)
		require.NoError(t, c.MoveLeader("t", 0, 2, hint))
		refused := m.acknowledge(4, 9, accept)
		assert.Equal(t, errorcode.UnknownTopicOrPartition, refused.ErrorCode)
		assert.Zero(t, refused.CurrentLeader.LeaderID)
		assert.Zero(t, refused.CurrentLeader.LeaderEpoch)

		there := m.another(c, "m1")
		there.node = 2
		assert.Equal(t, []delivered{{6, 6, 2}, {4, 5, 1}, {7, 9, 1}}, sortedByCount(acquired(t, there.fetch(time.Second))))
		require.Zero(t, there.acknowledge(4, 9, accept).ErrorCode)
		time.Sleep(time.Minute) // the old leader's locks are no more
		assert.Empty(t, acquired(t, there.fetch(0)))
		require.NoError(t, c.MoveLeader("t", 0, 1, hint))
		m.epoch = 0
		assert.Empty(t, acquired(t, m.fetch(0)))
	})
}

// sortedByCount puts what was delivered more often first.
func sortedByCount(got []delivered) []delivered {
	slices.SortStableFunc(got, func(a, b delivered) int { return cmp.Compare(b[2], a[2]) })
	return got
}

// Each leader epoch ends where the next one began. What was before the log start is forgotten.
func TestEpochsOfMovedLeaders(t *testing.T) {
	onReplicas(t, func(t *testing.T, c *kshare.Cluster) {
		client := newClient(t, c)
		for to := int32(2); to <= nodes; to++ {
			produce(t, client, "t", 0, 5)
			require.NoError(t, c.MoveLeader("t", 0, to, true))
			metadata(t, client, "t")
		}
		require.NoError(t, c.MoveLeader("t", 0, 1, true), "epoch 2 has no record")
		produce(t, client, "t", 0, 5)
		ends := func(want ...[2]int64) {
			for asked, want := range want {
				q := kmsg.NewPtrOffsetForLeaderEpochRequest()
				q.Version, q.ReplicaID = 4, -1
				q.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
					{CurrentLeaderEpoch: 3, LeaderEpoch: int32(asked)}}}}
				p := askOver(t, c, 1, q).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
				require.Zero(t, p.ErrorCode)
				assert.Equal(t, want, [2]int64{int64(p.LeaderEpoch), p.EndOffset}, "epoch %d", asked)
			}
		}
		deleteBelow := func(offset int64) {
			q := kmsg.NewPtrDeleteRecordsRequest()
			q.Version = 2
			q.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}}}
			require.Zero(t, askOver(t, c, 1, q).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode)
		}
		ends([2]int64{0, 5}, [2]int64{1, 10}, [2]int64{1, 10}, [2]int64{3, 15})
		deleteBelow(7)
		ends([2]int64{0, 7}, [2]int64{1, 10}, [2]int64{1, 10}, [2]int64{3, 15})
		deleteBelow(12)
		ends([2]int64{0, 12}, [2]int64{1, 12}, [2]int64{2, 12}, [2]int64{3, 15})
	})
}

// A node that a connection to ends releases what it leads, and nothing else.
func TestConnectionReleasesOnItsNodeAlone(t *testing.T) {
	onReplicas(t, func(t *testing.T, c *kshare.Cluster) {
		m := startGroup(t, c, "g", "t")
		at := map[int32]*shareMember{}
		for p := range int32(2) {
			produce(t, m.client, "t", p, 3)
			at[p] = m.another(c, "m1")
			at[p].node, at[p].partition = p+1, p
			require.Equal(t, []delivered{{0, 2, 1}}, acquired(t, at[p].fetch(time.Second)))
		}
		at[0].client.Close()
		synctest.Wait()
		assert.Zero(t, at[1].acknowledge(0, 2, accept).ErrorCode)
		other := m.another(c, "m2")
		assert.Equal(t, []delivered{{0, 2, 2}}, acquired(t, other.fetch(time.Second)))
	})
}

// A node that is cut off hangs, is replaced after 9 s, and comes back with its sessions as it is healed.
func TestCutNode(t *testing.T) {
	onReplicas(t, func(t *testing.T, c *kshare.Cluster) {
		m := startGroup(t, c, "g", "t")
		produce(t, m.client, "t", 0, 3)
		m = m.another(c, "m1") // whose client does not ask for metadata any more, and so does not give the node up
		require.Equal(t, []delivered{{0, 2, 1}}, acquired(t, m.fetch(time.Second)))
		began := time.Now()
		require.NoError(t, c.CutNode(1))
		waiting := m.fetching(time.Minute)
		time.Sleep(9*time.Second - 1)
		assert.EqualValues(t, 1, partitionOf(t, c, 2, "t", 0).Leader)
		assert.Equal(t, []int32{1, 2, 3}, brokersOf(t, c, 2))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.EqualValues(t, 2, partitionOf(t, c, 3, "t", 0).Leader)
		assert.Equal(t, []int32{2, 3}, brokersOf(t, c, 2))
		require.ErrorContains(t, c.MoveLeader("t", 0, 1, true), "node 1 is cut off")
		_, err := c.Dial(context.Background(), "tcp", c.Addrs()[0])
		if err == nil { // the one that was being accepted
			_, err = c.Dial(context.Background(), "tcp", c.Addrs()[0])
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, waiting)
		require.NoError(t, c.HealNode(1))
		answer := <-waiting
		assert.Equal(t, 19*time.Second, time.Since(began))
		require.Zero(t, answer.answer.ErrorCode, "its session goes on")
		assert.Equal(t, errorcode.NotLeaderOrFollower, answer.answer.Topics[0].Partitions[0].ErrorCode)
		assert.Equal(t, []int32{1, 2, 3}, brokersOf(t, c, 1))
	})
}

// With a virtual clock the node is fenced, and a coordinator has loaded, as the clock is moved.
func TestNodesInVirtualTime(t *testing.T) {
	now := clock.NewVirtual(time.Unix(1_800_000_000, 0))
	inBubble(t, func(t *testing.T, c *kshare.Cluster) {
		require.NoError(t, c.CutNode(1))
		now.Advance(9*time.Second - 1)
		assert.EqualValues(t, 1, partitionOf(t, c, 2, "t", 0).Leader)
		now.Advance(1)
		assert.EqualValues(t, 2, partitionOf(t, c, 2, "t", 0).Leader)
		require.NoError(t, c.HealNode(1))
		require.NoError(t, c.MoveCoordinator(kshare.GroupCoordinator, "g", 1, time.Minute))
		described := func() int16 {
			return askOver(t, c, 1, &kmsg.DescribeGroupsRequest{Version: 5, Groups: []string{"g"}}).(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode
		}
		now.Advance(time.Minute - 1)
		assert.Equal(t, errorcode.CoordinatorLoadInProgress, described())
		now.Advance(1)
		assert.Zero(t, described())
	}, kshare.WithClock(now), kshare.WithBrokers(nodes), kshare.WithTopic("t", 1), kshare.WithConfig("default.replication.factor", "3"))
}

// A cut that is healed in time changes nothing but the time that answers take.
func TestShortCut(t *testing.T) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, _ kshare.Timing) {
		m := startGroup(t, c, "g", "t")
		produce(t, m.client, "t", 0, 3)
		require.Equal(t, []delivered{{0, 2, 1}}, acquired(t, m.another(c, "m2").fetch(time.Second)))
		require.NoError(t, c.CutNode(1))
		waiting := m.fetching(0)
		time.Sleep(8 * time.Second)
		require.NoError(t, c.HealNode(1))
		answer := <-waiting
		assert.Equal(t, 8*time.Second, answer.took)
		assert.Empty(t, acquired(t, answer.answer))
		time.Sleep(time.Minute)
		assert.Zero(t, partitionOf(t, c, 1, "t", 0).LeaderEpoch)
	})
}

// A coordinator that moves is refused by the old node at once, and loads before it answers.
func TestMovedGroupCoordinator(t *testing.T) {
	onReplicas(t, func(t *testing.T, c *kshare.Cluster) {
		client := newClient(t, c)
		makeCoordinators(t, client)
		commit := func(node int32, offset int64) int16 {
			q := kmsg.NewPtrOffsetCommitRequest()
			q.Version, q.Group, q.Generation = 9, "g", -1
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Offset = offset
			q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
			return askOver(t, c, node, q).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		}
		from := coordinatorOf(t, client, 0, "g").NodeID
		to := from%nodes + 1
		require.Zero(t, commit(from, 7))
		join := func() int16 {
			q := kmsg.NewPtrJoinGroupRequest()
			q.Version, q.Group, q.ProtocolType, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 3, "g", "consumer", 30_000, 60_000
			q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
			return askOver(t, c, from, q).(*kmsg.JoinGroupResponse).ErrorCode
		}
		require.Zero(t, join())
		joining := make(chan int16, 1)
		go func() { joining <- join() }() // waits for the first member to join again
		synctest.Wait()
		require.Empty(t, joining)
		require.NoError(t, c.MoveCoordinator(kshare.GroupCoordinator, "g", to, 5*time.Second))
		assert.Equal(t, errorcode.NotCoordinator, <-joining)
		assert.Equal(t, to, coordinatorOf(t, client, 0, "g").NodeID)
		assert.Equal(t, errorcode.NotCoordinator, commit(from, 8))
		assert.Equal(t, errorcode.CoordinatorLoadInProgress, commit(to, 8))
		list := kmsg.NewPtrListGroupsRequest()
		list.Version = 4
		assert.Equal(t, errorcode.CoordinatorLoadInProgress, askOver(t, c, to, list).(*kmsg.ListGroupsResponse).ErrorCode)
		time.Sleep(5*time.Second - 1)
		assert.Equal(t, errorcode.CoordinatorLoadInProgress, commit(to, 8))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		q := kmsg.NewPtrOffsetFetchRequest()
		q.Version, q.Group, q.Topics = 7, "g", []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		assert.EqualValues(t, 7, askOver(t, c, to, q).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].Offset)
		assert.Zero(t, commit(to, 9))
	})
}

// While a share coordinator loads, state is neither read nor written: fetches and acknowledgements wait, and nothing is lost.
func TestMovedShareCoordinator(t *testing.T) {
	onReplicas(t, func(t *testing.T, c *kshare.Cluster) {
		m := startGroup(t, c, "g", "t")
		produce(t, m.client, "t", 0, 10)
		require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m.fetch(time.Second)))
		k := sharecoordinator.Key{Group: "g", Topic: m.topic}
		to := coordinatorOf(t, m.client, 2, k.String()).NodeID%nodes + 1
		began := time.Now()
		require.NoError(t, c.MoveCoordinator(kshare.ShareCoordinator, k.String(), to, 5*time.Second))
		read := &kmsg.ReadShareGroupStateSummaryRequest{Version: 1, GroupID: "g", Topics: []kmsg.ReadShareGroupStateSummaryRequestTopic{
			{TopicID: m.topic, Partitions: []kmsg.ReadShareGroupStateSummaryRequestTopicPartition{{}}}}}
		loading := askOver(t, c, to, read).(*kmsg.ReadShareGroupStateSummaryResponse).Topics[0].Partitions[0]
		assert.Equal(t, errorcode.CoordinatorLoadInProgress, loading.ErrorCode)
		assert.Equal(t, "Unable to read share group state summary: The coordinator is loading and hence can't process requests.", *loading.ErrorMessage)
		describe := &kmsg.DescribeShareGroupOffsetsRequest{Version: 1, Groups: []kmsg.DescribeShareGroupOffsetsRequestGroup{{GroupID: "g",
			Topics: []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}}}
		offsets := askOver(t, c, coordinatorOf(t, m.client, 0, "g").NodeID, describe).(*kmsg.DescribeShareGroupOffsetsResponse).Groups[0].Topics[0].Partitions[0]
		assert.Zero(t, offsets.ErrorCode)
		assert.Equal(t, 6*time.Second, time.Since(began), "attempts at 0, 2 and 6 s")

		began = time.Now()
		require.NoError(t, c.MoveCoordinator(kshare.ShareCoordinator, k.String(), to, 5*time.Second))
		require.Zero(t, m.acknowledge(0, 4, accept).ErrorCode)
		assert.Equal(t, 6*time.Second, time.Since(began), "attempts at 0, 2 and 6 s")

		require.NoError(t, c.MoveCoordinator(kshare.ShareCoordinator, k.String(), to, 5*time.Second))
		require.NoError(t, c.MoveLeader("t", 0, 2, true))
		there := m.another(c, "m1")
		there.node = 2
		empty := there.fetch(time.Second)
		require.Zero(t, empty.ErrorCode)
		assert.Empty(t, empty.Topics, "its state is being read")
		got := <-there.fetching(time.Minute)
		assert.Equal(t, 4*time.Second, got.took)
		assert.Equal(t, []delivered{{5, 9, 1}}, acquired(t, got.answer))
	})
}
