package broker_test

import (
	"context"
	"errors"
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

// What cannot be stored is answered as by Kafka, the rest goes on, and all of it once the store does.
func TestStoreFails(t *testing.T) {
	for name, opt := range map[string]kshare.Option{"memory": kshare.WithMemory(kshare.NewMemory()), "directory": kshare.WithDirectory(t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			c, err := kshare.Start(opt, kshare.WithInMemoryNetwork(), kshare.WithTopic("t", 1), kshare.WithTopic("n", 1))
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			m := startGroup(t, c, "g", "t")
			produce(t, m.client, "t", 0, 3)
			require.Equal(t, []delivered{{0, 2, 1}}, acquired(t, m.fetch(time.Minute)))

			created := kmsg.NewPtrCreateTopicsRequest()
			created.Version, created.TimeoutMillis = 7, 1000
			created.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "new", NumPartitions: 1, ReplicationFactor: 1}}
			produced := kmsg.NewPtrProduceRequest()
			produced.Version, produced.Acks = 12, -1
			produced.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: oneRecord()}}}}
			deleted := kmsg.NewPtrDeleteRecordsRequest()
			deleted.Version = 2
			deleted.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 1}}}}
			committed := kmsg.NewPtrOffsetCommitRequest()
			committed.Version, committed.Group, committed.Generation = 9, "c", -1
			committed.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
			fetched := kmsg.NewPtrFetchRequest()
			fetched.Version, fetched.MaxBytes, fetched.SessionEpoch = 12, 1<<20, -1
			partition := kmsg.NewFetchRequestTopicPartition()
			partition.PartitionMaxBytes = 1 << 20
			fetched.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{partition}}}
			listed := kmsg.NewPtrListOffsetsRequest()
			listed.Version, listed.ReplicaID = 7, -1
			listed.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{CurrentLeaderEpoch: -1}}}}
			assertCodes := func(want int16, requests ...kmsg.Request) {
				t.Helper()
				for _, q := range requests {
					got := codes(askOver(t, c, 1, q))
					assert.Equal(t, want, got[len(got)-1], kmsg.NameForKey(q.Key()))
				}
			}

			require.NoError(t, c.FailWrites(0, nil))
			assertCodes(errorcode.KafkaStorageError, created, produced, deleted)
			assertCodes(errorcode.NotCoordinator, committed)
			assertCodes(errorcode.None, fetched, listed)
			require.NoError(t, c.FailReads(0, errors.New("the head has crashed")))
			assertCodes(errorcode.KafkaStorageError, fetched, listed)
			c.MendStore()
			require.NoError(t, c.FailReads(1, nil))
			second := m.another(c, "m2")
			m.closeSession()
			assert.Equal(t, []int16{errorcode.KafkaStorageError}, second.fetchCodes())
			assertCodes(errorcode.None, fetched, listed, created, produced, deleted, committed)
			require.EqualError(t, c.FailWrites(-1, nil), "kshare: fail writes: -1 of them: name how many, or 0 for all")
			require.EqualError(t, c.FailReads(-1, nil), "kshare: fail reads: -1 of them: name how many, or 0 for all")
		})
	}
}

// fetchCodes sends the next ShareFetch and returns the error codes of its partitions.
func (m *shareMember) fetchCodes() (codes []int16) {
	m.t.Helper()
	p := m.fetch(time.Second)
	require.Zero(m.t, p.ErrorCode)
	for _, topic := range p.Topics {
		for _, partition := range topic.Partitions {
			codes = append(codes, partition.ErrorCode)
		}
	}
	return codes
}

// Share state that cannot be stored is tried again. A client's records wait for the store as long as the client does.
func TestStoreFailsForAWhile(t *testing.T) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, _ kshare.Timing) {
		m := startGroup(t, c, "g", "t")
		produce(t, m.client, "t", 0, 3)
		require.Equal(t, []delivered{{0, 2, 1}}, acquired(t, m.fetch(time.Second)))
		require.NoError(t, c.FailWrites(2, nil))
		answer := <-m.acknowledges(c, 0, 1, accept)
		assert.Zero(t, answer.ErrorCode)
		assert.Equal(t, 6*time.Second, answer.took)
		require.NoError(t, c.FailWrites(0, nil))
		answer = <-m.acknowledges(c, 2, 2, accept)
		assert.Equal(t, errorcode.CoordinatorNotAvailable, answer.ErrorCode)
		assert.Equal(t, 30*time.Second, answer.took)

		client := newClient(t, c)
		done := make(chan error, 1)
		client.Produce(context.Background(), &kgo.Record{Topic: "t"}, func(_ *kgo.Record, err error) { done <- err })
		time.Sleep(10 * time.Second)
		require.Empty(t, done)
		c.MendStore()
		require.NoError(t, <-done)
	})
}

// Groups that can be neither stored nor read are being loaded until they can be read again, with everything that was stored of them.
func TestGroupsOfAStoreThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, c *kshare.Cluster) {
		commit := func(offset int64) int16 {
			q := kmsg.NewPtrOffsetCommitRequest()
			q.Version, q.Group, q.Generation = 9, "g", -1
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Offset = offset
			q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
			return askOver(t, c, 1, q).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		}
		committed := func() (int64, int16) {
			q := kmsg.NewPtrOffsetFetchRequest()
			q.Version, q.Group, q.Topics = 7, "g", []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
			p := askOver(t, c, 1, q).(*kmsg.OffsetFetchResponse)
			if p.ErrorCode != 0 {
				return -1, p.ErrorCode
			}
			return p.Topics[0].Partitions[0].Offset, 0
		}
		askOver(t, c, 1, &kmsg.FindCoordinatorRequest{Version: 3, CoordinatorKey: "g"})
		require.Zero(t, commit(7))
		require.NoError(t, c.FailWrites(1, nil))
		assert.Equal(t, errorcode.NotCoordinator, commit(8))
		offset, code := committed()
		assert.Zero(t, code)
		assert.EqualValues(t, 7, offset, "what was not stored is not there")
		require.NoError(t, c.FailWrites(1, nil))
		require.NoError(t, c.FailReads(0, nil))
		assert.Equal(t, errorcode.NotCoordinator, commit(9))
		_, code = committed()
		assert.Equal(t, errorcode.CoordinatorLoadInProgress, code)
		time.Sleep(time.Minute)
		_, code = committed()
		assert.Equal(t, errorcode.CoordinatorLoadInProgress, code)
		c.MendStore()
		time.Sleep(time.Second)
		synctest.Wait()
		offset, code = committed()
		assert.Zero(t, code)
		assert.EqualValues(t, 7, offset)
	}, kshare.WithTopic("t", 1))
}

// A memory outlives the clusters that are started on it, one at a time.
func TestMemoryOutlivesItsCluster(t *testing.T) {
	memory := kshare.NewMemory()
	for round := range int64(3) {
		inBubble(t, func(t *testing.T, c *kshare.Cluster) {
			_, err := kshare.Start(kshare.WithMemory(memory), kshare.WithInMemoryNetwork())
			require.EqualError(t, err, "kshare: the memory is in use by a cluster that is not closed")
			m := startGroup(t, c, "g", "t")
			produce(t, m.client, "t", 0, 2)
			want := []delivered{{0, 1, 1}}
			if round > 0 { // what the round before has not acknowledged
				want = []delivered{{2*round - 1, 2*round + 1, 1}}
			}
			assert.Equal(t, want, acquired(t, m.fetch(time.Second)))
			require.Zero(t, m.acknowledge(max(0, 2*round-1), 2*round, accept).ErrorCode)
			assert.EqualValues(t, 2*round, partitionOf(t, c, 1, "t", 0).LeaderEpoch)
			require.NoError(t, c.Close(), "before the member's connection ends, which would release what it holds")
		}, kshare.WithMemory(memory), kshare.WithTopic("t", 1))
	}
	_, err := kshare.Start(kshare.WithMemory(memory), kshare.WithInMemoryNetwork(), kshare.WithTopic("a b", 1))
	require.ErrorContains(t, err, "topic name is invalid")
	c, err := kshare.Start(kshare.WithMemory(memory), kshare.WithInMemoryNetwork())
	require.NoError(t, err, "who could not start has given it back")
	require.NoError(t, c.Close())
}
