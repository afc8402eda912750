package broker_test

import (
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

// acked is how a ShareAcknowledge sent in the background is answered, and when.
type acked struct {
	kmsg.ShareAcknowledgeResponseTopicPartition
	took time.Duration
}

// acknowledges sends a ShareAcknowledge over a connection of its own, without waiting for its answer: the one with the session stays free.
func (m *shareMember) acknowledges(c *kshare.Cluster, first, last int64, kind int8) <-chan acked {
	other, epoch, began := newClient(m.t, c, kgo.RequestTimeoutOverhead(10*time.Minute)), m.epoch, time.Now()
	m.epoch++
	answered := make(chan acked, 1)
	go func() {
		defer close(answered)
		by := *m
		by.client = other
		p := by.acknowledging(epoch, first, last, kind)
		if len(p.Topics) == 1 {
			answered <- acked{p.Topics[0].Partitions[0], time.Since(began)}
		}
	}()
	synctest.Wait()
	return answered
}

// holding runs a test with a group that has acquired 0-9 and whose writes are held, in both timing profiles.
func holding(t *testing.T, writes kshare.ShareWrites, f func(t *testing.T, c *kshare.Cluster, m *shareMember, fault *kshare.WriteFault)) {
	inBothTimings(t, func(t *testing.T, c *kshare.Cluster, _ kshare.Timing) {
		m := startGroup(t, c, "g", "t")
		produce(t, m.client, "t", 0, 10)
		require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m.fetch(time.Second)))
		fault, err := c.FaultShareWrites(writes)
		require.NoError(t, err)
		f(t, c, m, fault)
	})
}

// A record whose state write is unanswered is nobody's: not free, and not to be acknowledged again.
func TestHeldWrite(t *testing.T) {
	holding(t, kshare.ShareWrites{Group: "g", Topic: "t", Hold: true}, func(t *testing.T, c *kshare.Cluster, m *shareMember, fault *kshare.WriteFault) {
		waiting := m.acknowledges(c, 0, 9, release)
		require.Equal(t, 1, fault.Held())
		assert.Empty(t, acquired(t, m.another(c, "m2").fetch(time.Second)))
		assert.Equal(t, errorcode.InvalidRecordState, m.acknowledge(0, 9, accept).ErrorCode)
		require.Empty(t, waiting)
		require.Equal(t, 1, fault.Release())
		assert.Zero(t, (<-waiting).ErrorCode)
		assert.Equal(t, []delivered{{0, 9, 2}}, acquired(t, m.another(c, "m2").fetch(time.Second)))
		require.Zero(t, fault.Held())
	})
}

// What a write that failed should have changed is as it was before: records are their holder's.
func TestFailedWrite(t *testing.T) {
	writes := kshare.ShareWrites{Group: "g", Count: 1, ErrorCode: errorcode.InvalidRequest}
	holding(t, writes, func(t *testing.T, c *kshare.Cluster, m *shareMember, _ *kshare.WriteFault) {
		failed := m.acknowledge(0, 9, release)
		assert.Equal(t, errorcode.UnknownServerError, failed.ErrorCode)
		assert.Equal(t, "Error in write state RPC. Unable to write share group state: INVALID_REQUEST", *failed.ErrorMessage)
		assert.Empty(t, acquired(t, m.another(c, "m2").fetch(0)))
		assert.Zero(t, m.acknowledge(0, 9, accept).ErrorCode, "it was one write")
	})
}

// The lock of a record ends while its write is unanswered: the answer decides what becomes of it.
func TestLockEndsDuringAWrite(t *testing.T) {
	for name, make := range map[string]struct {
		code int16
		want []delivered
	}{
		"stored": {errorcode.None, nil},
		"failed": {errorcode.InvalidRequest, []delivered{{0, 9, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			writes := kshare.ShareWrites{Hold: true, ErrorCode: make.code}
			holding(t, writes, func(t *testing.T, c *kshare.Cluster, m *shareMember, fault *kshare.WriteFault) {
				waiting := m.acknowledges(c, 0, 9, accept)
				time.Sleep(31 * time.Second)
				other := m.another(c, "m2")
				require.Empty(t, acquired(t, other.fetch(time.Second)))
				fault.Remove()
				assert.Equal(t, make.code != 0, (<-waiting).ErrorCode != 0)
				if make.want == nil {
					time.Sleep(31 * time.Second)
				}
				assert.Equal(t, make.want, acquired(t, other.fetch(time.Second)))
			})
		})
	}
}

// A failed write gives records back with the lock that they had, which ends in its time.
func TestLockEndsAfterAFailedWrite(t *testing.T) {
	for name, timing := range timings {
		t.Run(name, func(t *testing.T) {
			now := clock.NewVirtual(bubbleBegan)
			inBubble(t, func(t *testing.T, c *kshare.Cluster) {
				m := startGroup(t, c, "g", "t")
				produce(t, m.client, "t", 0, 1)
				require.Equal(t, []delivered{{0, 0, 1}}, acquired(t, m.fetch(time.Hour)))
				_, err := c.FaultShareWrites(kshare.ShareWrites{Delay: 20 * time.Second, ErrorCode: errorcode.InvalidRequest})
				require.NoError(t, err)
				answered := m.acknowledges(c, 0, 0, accept)
				now.Advance(20*time.Second - 1)
				synctest.Wait()
				require.Empty(t, answered)
				now.Advance(1)
				assert.Equal(t, errorcode.UnknownServerError, (<-answered).ErrorCode)
				waiting := m.another(c, "m2").fetching(time.Hour)
				synctest.Wait()
				now.Advance(10*time.Second - 1)
				synctest.Wait()
				require.Empty(t, waiting)
				now.Advance(1)
				assert.Equal(t, []delivered{{0, 0, 2}}, acquired(t, (<-waiting).answer), "the write of an ended lock changes nothing, failed or not")
			}, kshare.WithClock(now), kshare.WithTiming(timing), kshare.WithTopic("t", 1))
		})
	}
}

// The log start passes records whose write is unanswered: they stay archived.
func TestLogStartMovesDuringAWrite(t *testing.T) {
	holding(t, kshare.ShareWrites{Hold: true}, func(t *testing.T, c *kshare.Cluster, m *shareMember, fault *kshare.WriteFault) {
		waiting := m.acknowledges(c, 0, 9, release)
		q := kmsg.NewPtrDeleteRecordsRequest()
		q.Version = 2
		q.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 6}}}}
		require.Zero(t, askOver(t, c, 1, q).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode)
		other := m.another(c, "m2")
		require.Empty(t, acquired(t, other.fetch(time.Second)), "which learns of the log start")
		fault.Remove()
		assert.Zero(t, (<-waiting).ErrorCode)
		got := acquired(t, other.fetch(time.Second))
		if len(got) == 0 { // a fetch that learns of it gets nothing with timing=kafka
			got = acquired(t, other.fetch(time.Second))
		}
		assert.Equal(t, []delivered{{6, 9, 2}}, got)
	})
}

// The leader moves while a write is unanswered: it is stored unless the new leader has read the state before, and the answer says which.
func TestLeaderMovesDuringAWrite(t *testing.T) {
	for name, readBefore := range map[string]bool{"read before": true, "read after": false} {
		t.Run(name, func(t *testing.T) {
			onReplicas(t, func(t *testing.T, c *kshare.Cluster) {
				m := startGroup(t, c, "g", "t")
				produce(t, m.client, "t", 0, 10)
				require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m.fetch(time.Second)))
				fault, err := c.FaultShareWrites(kshare.ShareWrites{Hold: true, Count: 1})
				require.NoError(t, err)
				waiting := m.acknowledges(c, 0, 9, accept)
				require.NoError(t, c.MoveLeader("t", 0, 2, true))
				require.Empty(t, waiting)
				there := m.another(c, "m1")
				there.node = 2
				if readBefore {
					require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, there.fetch(time.Second)))
				}
				require.Equal(t, 1, fault.Release())
				answer := <-waiting
				if !readBefore {
					assert.Zero(t, answer.ErrorCode)
					assert.Empty(t, acquired(t, there.fetch(time.Second)), "what was acknowledged does not come back")
					return
				}
				assert.Equal(t, errorcode.NotLeaderOrFollower, answer.ErrorCode)
				assert.EqualValues(t, 2, answer.CurrentLeader.LeaderID)
				assert.Zero(t, there.acknowledge(0, 9, accept).ErrorCode)
			})
		})
	}
}

// A leader that is stopped takes its writes along, whatever becomes of the fault.
func TestLeaderStopsDuringAWrite(t *testing.T) {
	holding(t, kshare.ShareWrites{Hold: true}, func(t *testing.T, c *kshare.Cluster, m *shareMember, fault *kshare.WriteFault) {
		client := newClient(t, c)
		conn := make(chan error, 1)
		q := m.fetchRequest(time.Hour)
		q.Topics = m.acknowledgements(0, 9, accept)
		go func() {
			_, err := client.Broker(1).Request(t.Context(), q)
			conn <- err
		}()
		synctest.Wait()
		require.Equal(t, 1, fault.Held())
		require.NoError(t, c.StopNode(1))
		require.Error(t, <-conn)
		require.NoError(t, c.StartNode(1))
		fault.Remove()
		m.epoch = 0
		assert.Equal(t, []delivered{{0, 9, 1}}, acquired(t, m.fetch(time.Second)))
	})
}

// A leader tries again what the share coordinator could not take, 2, 4, 8 and 16 s later.
func TestWriteIsTriedAgain(t *testing.T) {
	for code, last := range map[int16]int16{
		errorcode.NotCoordinator: errorcode.CoordinatorNotAvailable, errorcode.CoordinatorLoadInProgress: errorcode.CoordinatorNotAvailable,
		errorcode.CoordinatorNotAvailable: errorcode.CoordinatorNotAvailable, errorcode.NetworkException: errorcode.UnknownServerError,
	} {
		t.Run(errorcode.Name(code), func(t *testing.T) {
			writes := kshare.ShareWrites{Group: "g", Count: 2, ErrorCode: code}
			holding(t, writes, func(t *testing.T, c *kshare.Cluster, m *shareMember, _ *kshare.WriteFault) {
				answer := <-m.acknowledges(c, 0, 4, accept)
				assert.Zero(t, answer.ErrorCode)
				assert.Equal(t, 6*time.Second, answer.took)
				writes.Count = 5
				_, err := c.FaultShareWrites(writes)
				require.NoError(t, err)
				answer = <-m.acknowledges(c, 5, 9, accept)
				assert.Equal(t, last, answer.ErrorCode)
				assert.Equal(t, "Error in write state RPC. Exhausted max retries to complete write state RPC without success.", *answer.ErrorMessage)
				assert.Equal(t, 30*time.Second, answer.took)
				assert.Equal(t, errorcode.InvalidRecordState, m.acknowledge(5, 9, accept).ErrorCode, "the lock has ended meanwhile")
			})
		})
	}
}

// A ShareFetch that carries acknowledgements waits for their write, and acquires meanwhile.
func TestFetchWaitsForItsAcknowledgements(t *testing.T) {
	holding(t, kshare.ShareWrites{Hold: true, Count: 1}, func(t *testing.T, c *kshare.Cluster, m *shareMember, fault *kshare.WriteFault) {
		produce(t, newClient(t, c), "t", 0, 3)
		q := m.fetchRequest(time.Second)
		q.Topics = m.acknowledgements(0, 9, accept)
		waiting := make(chan *kmsg.ShareFetchResponse, 1)
		go func() { waiting <- ask[*kmsg.ShareFetchResponse](t, m.client, 1, q) }()
		time.Sleep(5 * time.Second)
		require.Empty(t, waiting)
		assert.Empty(t, acquired(t, m.another(c, "m2").fetch(0)), "what there was has been acquired")
		fault.Remove()
		answer := <-waiting
		assert.Equal(t, []delivered{{10, 12, 1}}, acquired(t, answer))
		assert.Zero(t, answer.Topics[0].Partitions[0].AcknowledgeErrorCode)
	})
}

// A session that ends gives its records back once that is written.
func TestSessionEndsDuringAWrite(t *testing.T) {
	holding(t, kshare.ShareWrites{Hold: true}, func(t *testing.T, c *kshare.Cluster, m *shareMember, fault *kshare.WriteFault) {
		other := m.another(c, "m2")
		require.Empty(t, acquired(t, other.fetch(0))) // a session that keeps the state of the share partition
		m.closeSession()
		time.Sleep(time.Second)
		require.Equal(t, 1, fault.Held())
		require.Empty(t, acquired(t, other.fetch(time.Second)))
		fault.Remove()
		assert.Equal(t, []delivered{{0, 9, 2}}, acquired(t, other.fetch(time.Second)))
	})
}

// The last session of a group ends with its connection while an acknowledgement that came over another one is unanswered: what is answered well is not
// delivered again, whether the next member comes before the answer or after it.
func TestLastConnectionEndsDuringAWrite(t *testing.T) {
	for name, early := range map[string]bool{"fetched before the answer": true, "fetched after it": false} {
		t.Run(name, func(t *testing.T) {
			holding(t, kshare.ShareWrites{Hold: true}, func(t *testing.T, c *kshare.Cluster, m *shareMember, fault *kshare.WriteFault) {
				waiting := m.acknowledges(c, 0, 4, accept)
				m.client.Close()
				synctest.Wait()
				other := m.another(c, "m2")
				if early {
					assert.Empty(t, acquired(t, other.fetch(0)), "0-4 are being accepted, 5-9 being released")
				}
				fault.Remove()
				assert.Zero(t, (<-waiting).ErrorCode)
				synctest.Wait()
				assert.Equal(t, []delivered{{5, 9, 2}}, acquired(t, other.fetch(time.Second)))
			})
		})
	}
}

// Share groups are switched off and on while an acknowledgement is unanswered, and its records are delivered again: it fails, for another one counts.
func TestShareGroupsEndDuringAWrite(t *testing.T) {
	holding(t, kshare.ShareWrites{Hold: true, Count: 1}, func(t *testing.T, c *kshare.Cluster, m *shareMember, fault *kshare.WriteFault) {
		waiting := m.acknowledges(c, 0, 9, accept)
		for _, level := range []int16{0, 2} {
			q := kmsg.NewPtrUpdateFeaturesRequest()
			q.Version = 1
			q.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "share.version", MaxVersionLevel: level, UpgradeType: int8(3 - level)}}
			require.Zero(t, askOver(t, c, 1, q).(*kmsg.UpdateFeaturesResponse).ErrorCode)
		}
		other := m.another(c, "m2")
		require.Equal(t, []delivered{{0, 9, 1}}, acquired(t, other.fetch(time.Second)))
		require.Zero(t, other.acknowledge(3, 9, accept).ErrorCode)
		require.Equal(t, 1, fault.Release())
		assert.Equal(t, errorcode.NotLeaderOrFollower, (<-waiting).ErrorCode)
		other.client.Close()
		synctest.Wait()
		assert.Equal(t, []delivered{{0, 2, 2}}, acquired(t, m.another(c, "m3").fetch(time.Second)))
	})
}

// A fault is about the writes that it names, and no others.
func TestFaultOfOtherWrites(t *testing.T) {
	for _, writes := range []kshare.ShareWrites{
		{Group: "other", Hold: true}, {Topic: "u", Partition: -1, Hold: true}, {Topic: "t", Partition: 1, Hold: true},
	} {
		holding(t, writes, func(t *testing.T, _ *kshare.Cluster, m *shareMember, fault *kshare.WriteFault) {
			assert.Zero(t, m.acknowledge(0, 9, accept).ErrorCode)
			assert.Zero(t, fault.Held())
		})
	}
}

func TestFaultsThatMakeNoSense(t *testing.T) {
	c, err := kshare.Start(kshare.WithInMemoryNetwork())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for want, writes := range map[string]kshare.ShareWrites{
		"nothing goes wrong":          {Group: "g"},
		"partition 1 of topic \"\"":   {Partition: 1, Hold: true},
		"partition -2 of topic \"t\"": {Topic: "t", Partition: -2, Hold: true},
		"a count of -1 writes":        {Count: -1, Hold: true},
		"held and a delay of 1s":      {Hold: true, Delay: time.Second},
		"a delay of -1s":              {Delay: -time.Second},
	} {
		_, err := c.FaultShareWrites(writes)
		assert.ErrorContains(t, err, "kshare: a fault of share-state writes: "+want)
	}
}
