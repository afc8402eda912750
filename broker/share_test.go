package broker_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
	"kshare/protocol/errorcode"
)

var timings = map[string]kshare.Timing{"fast": kshare.TimingFast, "kafka": kshare.TimingKafka}

// inBothTimings runs a test once in each timing profile.
func inBothTimings(t *testing.T, f func(t *testing.T, c *kshare.Cluster, timing kshare.Timing), opts ...kshare.Option) {
	for name, timing := range timings {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *kshare.Cluster) { f(t, c, timing) }, append(opts, kshare.WithTiming(timing), kshare.WithTopic("t", 1))...)
		})
	}
}

func TestLockExpiresAtItsDeadline(t *testing.T) {
	for name, timing := range timings {
		t.Run(name, func(t *testing.T) {
			now := clock.NewVirtual(bubbleBegan)
			inBubble(t, func(t *testing.T, c *kshare.Cluster) {
				m1 := startGroup(t, c, "g", "t")
				produce(t, m1.client, "t", 0, 10)
				require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m1.fetch(time.Hour)))
				waiting := m1.another(c, "m2").fetching(time.Hour)
				now.Advance(30*time.Second - time.Millisecond)
				synctest.Wait()
				require.Empty(t, waiting)
				require.Zero(t, m1.acknowledge(0, 0, accept).ErrorCode, "the lock still holds")
				now.Advance(time.Millisecond)
				want := []delivered{{1, 9, 2}}
				if timing == kshare.TimingKafka {
					want = []delivered{{1, 1, 2}} // the records of a split batch expire one by one, and the first wakes who waits
				}
				require.Equal(t, want, acquired(t, (<-waiting).answer))
				assert.Equal(t, errorcode.InvalidRecordState, m1.acknowledge(1, 1, accept).ErrorCode)
			}, kshare.WithClock(now), kshare.WithTiming(timing), kshare.WithTopic("t", 1))
		})
	}
}

// In Kafka 4.2 a broker's configuration switches share groups on that share.version leaves off.
func TestShareGroupsAreEnabledByConfiguration(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		inBubble(t, func(t *testing.T, c *kshare.Cluster) {
			q := kmsg.NewPtrShareGroupHeartbeatRequest()
			q.Version, q.GroupID, q.MemberID, q.SubscribedTopicNames = 1, "g", "m", []string{"t"}
			client := newClient(t, c)
			makeCoordinators(t, client)
			code := send[*kmsg.ShareGroupHeartbeatResponse](t, client, q).ErrorCode
			if !enabled {
				require.Equal(t, errorcode.UnsupportedVersion, code)
				return
			}
			require.Zero(t, code)
			m := startGroup(t, c, "other", "t")
			produce(t, m.client, "t", 0, 3)
			require.Equal(t, []delivered{{0, 2, 1}}, acquired(t, m.fetch(time.Second)))
		}, kshare.WithKafkaVersion("4.2"), kshare.WithFeature("share.version", 0), kshare.WithConfig("group.share.enable", strconv.FormatBool(enabled)), kshare.WithTopic("t", 1))
	}
}

func TestMembersShareRecords(t *testing.T) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, _ kshare.Timing) {
		m1 := startGroup(t, c, "g", "t")
		m2 := m1.another(c, "m2")
		produce(t, m1.client, "t", 0, 3)
		require.Equal(t, []delivered{{0, 2, 1}}, acquired(t, m1.fetch(time.Second)))
		produce(t, m1.client, "t", 0, 2)
		require.Equal(t, []delivered{{3, 4, 1}}, acquired(t, m2.fetch(time.Second)))
		assert.Equal(t, errorcode.InvalidRecordState, m2.acknowledge(0, 0, accept).ErrorCode, "it is the other's")
		assert.Zero(t, m1.acknowledge(0, 0, accept).ErrorCode)
		assert.Zero(t, m1.acknowledge(1, 1, release).ErrorCode)
		assert.Zero(t, m1.acknowledge(2, 2, reject).ErrorCode)
		assert.Zero(t, m2.acknowledge(3, 4, accept).ErrorCode)
		require.Equal(t, []delivered{{1, 1, 2}}, acquired(t, m2.fetch(time.Second)))
		assert.Zero(t, m2.acknowledge(1, 1, accept).ErrorCode)
		assert.Empty(t, acquired(t, m1.fetch(time.Second)))
	})
}

// What makes records available again wakes who waits for them at once with timing=fast. Apache Kafka lets it wait on.
func TestWhatWakesAWaitingFetch(t *testing.T) {
	const wait, pause = 5 * time.Second, 500 * time.Millisecond
	for name, make := range map[string]struct {
		available func(m1 *shareMember)
		want      []delivered
		wakes     bool // in both timings
	}{
		"release":       {func(m *shareMember) { m.acknowledge(0, 9, release) }, []delivered{{0, 9, 2}}, false},
		"session close": {func(m *shareMember) { m.closeSession() }, []delivered{{0, 9, 2}}, false},
		"connection":    {func(m *shareMember) { m.client.Close() }, []delivered{{0, 9, 2}}, false},
		"append":        {func(m *shareMember) { produce(m.t, m.client, "t", 0, 2) }, []delivered{{10, 11, 1}}, true},
		"piggyback": {func(m *shareMember) {
			q := m.fetchRequest(0)
			q.Topics = m.acknowledgements(0, 9, release)
			q.MaxRecords = 0
			require.Zero(m.t, ask[*kmsg.ShareFetchResponse](m.t, m.client, m.node, q).ErrorCode)
		}, []delivered{{0, 9, 2}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBothTimings(t, func(t *testing.T, c *kshare.Cluster, timing kshare.Timing) {
				m1 := startGroup(t, c, "g", "t")
				m2 := m1.another(c, "m2")
				produce(t, m1.client, "t", 0, 10)
				require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m1.fetch(time.Second)))
				waiting := m2.fetching(wait)
				time.Sleep(pause)
				make.available(m1)
				answer := <-waiting
				require.Equal(t, make.want, acquired(t, answer.answer))
				if timing == kshare.TimingFast || make.wakes {
					assert.Equal(t, pause, answer.took)
				} else {
					assert.Equal(t, wait, answer.took)
				}
			})
		})
	}
}

// A fetch that releases records gets them at once with timing=fast, and as MaxWaitMs ends with timing=kafka.
func TestFetchThatReleases(t *testing.T) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, timing kshare.Timing) {
		m := startGroup(t, c, "g", "t")
		produce(t, m.client, "t", 0, 10)
		require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m.fetch(time.Second)))
		q := m.fetchRequest(time.Second)
		q.Topics = m.acknowledgements(4, 5, release)
		began := time.Now()
		p := ask[*kmsg.ShareFetchResponse](t, m.client, m.node, q)
		require.Equal(t, []delivered{{4, 5, 2}}, acquired(t, p))
		require.Zero(t, p.Topics[0].Partitions[0].AcknowledgeErrorCode)
		if timing == kshare.TimingFast {
			assert.Zero(t, time.Since(began))
		} else {
			assert.Equal(t, time.Second, time.Since(began))
		}
	})
}

// Acknowledgements that move the start offset make room in a full window: who waits for room gets the next records at once, also the fetch that
// carries them.
func TestRoomInAFullWindow(t *testing.T) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, _ kshare.Timing) {
		m1 := startGroup(t, c, "g", "t")
		m2 := m1.another(c, "m2")
		setGroupConfig(t, m1.client, "g", "share.partition.max.record.locks", "100")
		for range 3 {
			produce(t, m1.client, "t", 0, 100)
		}
		require.Equal(t, []delivered{{0, 99, 1}}, acquired(t, m1.fetch(time.Second)))
		waiting := m2.fetching(time.Minute)
		time.Sleep(time.Second)
		require.Zero(t, m1.acknowledge(50, 99, accept).ErrorCode, "the start stays")
		time.Sleep(time.Second)
		require.Empty(t, waiting)
		require.Zero(t, m1.acknowledge(0, 49, accept).ErrorCode)
		answer := <-waiting
		require.Equal(t, []delivered{{100, 199, 1}}, acquired(t, answer.answer))
		assert.Equal(t, 2*time.Second, answer.took)

		q := m2.fetchRequest(time.Minute)
		q.Topics = m2.acknowledgements(100, 199, accept)
		began := time.Now()
		require.Equal(t, []delivered{{200, 299, 1}}, acquired(t, ask[*kmsg.ShareFetchResponse](t, m2.client, m2.node, q)))
		assert.Zero(t, time.Since(began))
	})
}

// A state that cannot be read is told at once with timing=fast and as MaxWaitMs ends with timing=kafka, where a fetch that does not wait is told
// nothing.
func TestFetchWithoutState(t *testing.T) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, timing kshare.Timing) {
		m := startGroup(t, c, "g", "t").another(c, "m")
		m.group = "never initialised"
		for range 2 {
			answer := <-m.fetching(time.Second)
			require.Len(t, answer.answer.Topics, 1)
			assert.Equal(t, errorcode.UnknownServerError, answer.answer.Topics[0].Partitions[0].ErrorCode)
			if timing == kshare.TimingFast {
				assert.Zero(t, answer.took)
			} else {
				assert.Equal(t, time.Second, answer.took)
			}
		}
		p := m.fetch(0)
		assert.Zero(t, p.ErrorCode)
		assert.Equal(t, timing == kshare.TimingKafka, len(p.Topics) == 0)
	})
}

func TestConnectionLossReleases(t *testing.T) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, _ kshare.Timing) {
		m1 := startGroup(t, c, "g", "t")
		m2 := m1.another(c, "m2")
		produce(t, m1.client, "t", 0, 10)
		require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m1.fetch(time.Second)))
		require.Zero(t, m1.acknowledge(0, 3, accept).ErrorCode)
		m1.client.Close()
		synctest.Wait()
		require.Equal(t, []delivered{{4, 9, 2}}, acquired(t, m2.fetch(time.Second)))
		m1.client = newClient(t, c)
		assert.Equal(t, errorcode.ShareSessionNotFound, m1.fetch(0).ErrorCode)
	})
}

// A session that finds no room is refused, but only as MaxWaitMs ends. A closed connection makes room.
func TestSessionLimit(t *testing.T) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, _ kshare.Timing) {
		m1 := startGroup(t, c, "g", "t")
		m2 := m1.another(c, "m2")
		produce(t, m1.client, "t", 0, 1)
		require.Equal(t, []delivered{{0, 0, 1}}, acquired(t, m1.fetch(time.Second)))
		refused := <-m2.fetching(3 * time.Second)
		assert.Equal(t, errorcode.ShareSessionLimitReached, refused.answer.ErrorCode)
		assert.Zero(t, refused.answer.AcquisitionLockTimeoutMillis)
		assert.Equal(t, 3*time.Second, refused.took)
		m1.client.Close()
		synctest.Wait()
		m2.epoch = 0
		require.Equal(t, []delivered{{0, 0, 2}}, acquired(t, m2.fetch(time.Second)))
	}, kshare.WithConfig("group.share.max.share.sessions", "1"), kshare.WithConfig("group.share.max.size", "1"))
}

func TestTopicDeletedUnderASession(t *testing.T) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, timing kshare.Timing) {
		m := startGroup(t, c, "g", "t")
		produce(t, m.client, "t", 0, 10)
		require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m.fetch(time.Second)))
		waiting := m.another(c, "m2").fetching(time.Minute)
		synctest.Wait()
		q := kmsg.NewPtrDeleteTopicsRequest()
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = kmsg.StringPtr("t")
		q.Topics = append(q.Topics, topic)
		q.TimeoutMillis = 1000
		require.Zero(t, send[*kmsg.DeleteTopicsResponse](t, m.client, q).Topics[0].ErrorCode)
		synctest.Wait()
		woken := <-waiting
		if timing == kshare.TimingKafka {
			assert.Equal(t, time.Minute, woken.took)
			assert.Empty(t, woken.answer.Topics)
		} else {
			assert.Zero(t, woken.took)
			require.Len(t, woken.answer.Topics, 1)
			assert.Equal(t, errorcode.UnknownTopicOrPartition, woken.answer.Topics[0].Partitions[0].ErrorCode)
		}
		p := m.fetch(time.Minute)
		require.Len(t, p.Topics, 1)
		assert.Equal(t, errorcode.UnknownTopicOrPartition, p.Topics[0].Partitions[0].ErrorCode, "the topic was deleted under the session")
		assert.Equal(t, errorcode.UnknownTopicID, m.acknowledge(0, 0, accept).ErrorCode)
	})
}

// Whoever reads a share partition's state with a higher leader epoch fences the leader that has it.
func TestForeignReadFencesTheLeader(t *testing.T) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, timing kshare.Timing) {
		m := startGroup(t, c, "g", "t")
		produce(t, m.client, "t", 0, 10)
		require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m.fetch(time.Second)))
		q := kmsg.NewPtrReadShareGroupStateRequest()
		q.GroupID = m.group
		q.Topics = []kmsg.ReadShareGroupStateRequestTopic{{TopicID: m.topic, Partitions: []kmsg.ReadShareGroupStateRequestTopicPartition{{LeaderEpoch: 99}}}}
		require.Zero(t, ask[*kmsg.ReadShareGroupStateResponse](t, m.client, m.node, q).Topics[0].Partitions[0].ErrorCode)

		fenced := m.acknowledge(0, 0, accept)
		assert.Equal(t, errorcode.NotLeaderOrFollower, fenced.ErrorCode)
		assert.Equal(t, "Error in write state RPC. The leader epoch in the request is older than the epoch on the broker.", *fenced.ErrorMessage)
		assert.Equal(t, m.node, fenced.CurrentLeader.LeaderID)
		began := time.Now()
		p := m.fetch(time.Second)
		assert.Equal(t, errorcode.NotLeaderOrFollower, p.Topics[0].Partitions[0].ErrorCode)
		assert.Len(t, p.NodeEndpoints, 1)
		if timing == kshare.TimingFast {
			assert.Zero(t, time.Since(began))
		} else {
			assert.Equal(t, time.Second, time.Since(began))
		}
		time.Sleep(time.Minute) // the locks of the forgotten state would have ended
		assert.Equal(t, errorcode.NotLeaderOrFollower, m.fetch(time.Second).Topics[0].Partitions[0].ErrorCode)
	})
}

// What was acknowledged and how often records were delivered is known after a restart, who held what is not.
func TestShareStateAfterRestart(t *testing.T) {
	dir := t.TempDir()
	for n, step := range []func(t *testing.T, m *shareMember){
		func(t *testing.T, m *shareMember) {
			produce(t, m.client, "t", 0, 10)
			require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m.fetch(time.Second)))
			require.Zero(t, m.acknowledge(0, 1, accept).ErrorCode)
			require.Zero(t, m.acknowledge(4, 5, release).ErrorCode)
			require.Zero(t, m.acknowledge(7, 7, reject).ErrorCode)
		},
		func(t *testing.T, m *shareMember) {
			require.Equal(t, []delivered{{2, 3, 1}, {4, 5, 2}, {6, 6, 1}, {8, 9, 1}}, acquired(t, m.fetch(time.Second)))
			require.Zero(t, m.acknowledge(2, 6, accept).ErrorCode)
			require.Zero(t, m.acknowledge(8, 9, accept).ErrorCode)
		},
	} {
		c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithDirectory(dir), kshare.WithTopic("t", 1))
		require.NoError(t, err)
		m := startGroup(t, c, "g", "t")
		step(t, m)
		require.NoError(t, c.Close(), "start %d", n) // before the client: a connection that ends gives back what its member holds
		m.client.CloseAllowingRebalance()
	}
}

// Offsets that are altered or deleted once a group's consumers have gone count for those that come.
func TestResetBetweenConsumers(t *testing.T) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, _ kshare.Timing) {
		admin := newClient(t, c)
		makeCoordinators(t, admin)
		setGroupConfig(t, admin, "g", "share.auto.offset.reset", "earliest")
		produce(t, admin, "t", 0, 5)
		read := func(n int) {
			t.Helper()
			require.Equal(t, map[int32]int{0: n}, drain(t, newClient(t, c, kgo.ConsumeTopics("t"), kgo.ShareGroup("g")), n))
		}
		read(5)
		alter := kmsg.NewPtrAlterShareGroupOffsetsRequest()
		alter.GroupID = "g"
		alter.Topics = []kmsg.AlterShareGroupOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterShareGroupOffsetsRequestTopicPartition{{StartOffset: 2}}}}
		altered := send[*kmsg.AlterShareGroupOffsetsResponse](t, admin, alter)
		require.Zero(t, altered.ErrorCode)
		require.Zero(t, altered.Topics[0].Partitions[0].ErrorCode)
		read(3)
		reset := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
		reset.GroupID = "g"
		reset.Topics = []kmsg.DeleteShareGroupOffsetsRequestTopic{{Topic: "t"}}
		deleted := send[*kmsg.DeleteShareGroupOffsetsResponse](t, admin, reset)
		require.Zero(t, deleted.ErrorCode)
		require.Zero(t, deleted.Topics[0].ErrorCode)
		read(5)
	})
}

// What is redundant of __share_group_state is removed every 5 minutes, and the rest is enough for a restart.
func TestShareStateIsPruned(t *testing.T) {
	dir := t.TempDir()
	now := clock.NewVirtual(time.Now()) // which its records are young by
	start := func() *kshare.Cluster {
		c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithDirectory(dir), kshare.WithClock(now), kshare.WithTopic("t", 2),
			kshare.WithConfig("share.coordinator.state.topic.num.partitions", "1"),
			kshare.WithConfig("share.coordinator.snapshot.update.records.per.snapshot", "10"))
		require.NoError(t, err)
		return c
	}
	bounds := func(client *kgo.Client) (first, end int64) {
		of := func(timestamp int64) int64 {
			q := kmsg.NewPtrListOffsetsRequest()
			q.ReplicaID = -1
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Timestamp = timestamp
			q.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "__share_group_state", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
			return send[*kmsg.ListOffsetsResponse](t, client, q).Topics[0].Partitions[0].Offset
		}
		return of(-2), of(-1)
	}
	c := start()
	m := startGroup(t, c, "g", "t") // partition 1 has its state, which never changes
	for i := range int64(30) {
		produce(t, m.client, "t", 0, 1)
		require.Equal(t, []delivered{{i, i, 1}}, acquired(t, m.fetch(0)))
		require.Zero(t, m.acknowledge(i, i, accept).ErrorCode)
	}
	produce(t, m.client, "t", 0, 1)
	first, end := bounds(m.client)
	require.Zero(t, first)
	require.EqualValues(t, 32, end)
	now.Advance(5 * time.Minute)
	first, end = bounds(m.client)
	require.EqualValues(t, 34, end, "both were written again")
	require.EqualValues(t, 32, first)
	now.Advance(time.Hour)
	_, again := bounds(m.client)
	require.Equal(t, end, again, "nothing has changed since")
	m.client.Close()
	require.NoError(t, c.Close())

	c = start()
	m = startGroup(t, c, "g", "t")
	require.Equal(t, []delivered{{30, 30, 1}}, acquired(t, m.fetch(0)))
	m.client.Close()
	require.NoError(t, c.Close())
}

// With timing=kafka a batch that is all there is room for is followed by the beginning of the next one, as from Apache Kafka, which sends a read as it
// stands unless it has several batches to cut off some.
func TestMaxBytesCutTheNextBatch(t *testing.T) {
	const batch = 69 // bytes of a batch of one record that is one byte long, as produced
	for name, at := range map[string]struct {
		maxBytes, maxRecords int32
		want                 int
	}{
		"within the first batch":   {10, 500, batch},
		"the first batch":          {batch, 500, batch},
		"within the second batch":  {batch + 20, 500, batch + 20},
		"within its length":        {batch + 3, 500, batch + 3},
		"the second batch":         {2 * batch, 500, 2 * batch},
		"within the third batch":   {2*batch + 20, 500, 2 * batch},
		"a second one is not had":  {2 * batch, 1, batch},
		"nor more than the second": {2*batch + 20, 1, batch},
		"a cut one is":             {batch + 20, 1, batch + 20},
		"everything":               {1 << 20, 500, 3 * batch},
		"one of all":               {1 << 20, 1, batch},
	} {
		t.Run(name, func(t *testing.T) {
			inBothTimings(t, func(t *testing.T, c *kshare.Cluster, timing kshare.Timing) {
				m := startGroup(t, c, "g", "t")
				for range 3 {
					produce(t, m.client, "t", 0, 1)
				}
				q := m.fetchRequest(time.Second)
				q.MaxBytes, q.MaxRecords = at.maxBytes, at.maxRecords
				p := ask[*kmsg.ShareFetchResponse](t, m.client, m.node, q)
				want := at.want
				if timing == kshare.TimingFast {
					want -= want % batch
				}
				assert.Len(t, p.Topics[0].Partitions[0].Records, want)
				assert.NotEmpty(t, p.Topics[0].Partitions[0].AcquiredRecords)
			})
		})
	}
}
