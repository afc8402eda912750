package broker_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
	"kshare/fault"
	"kshare/protocol/errorcode"
)

// createTopic is a request that is seen to be applied or not.
func createTopic(name string) *kmsg.CreateTopicsRequest {
	q := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	q.Version, q.TimeoutMillis, q.Topics = 7, 1000, append(q.Topics, topic)
	return q
}

// exists tells over a connection of its own whether a topic does.
func (f *faulty) exists(name string) bool {
	f.t.Helper()
	d := f.connect()
	defer d.Close()
	q := kmsg.NewPtrMetadataRequest()
	q.Version = 12
	sendDirect(d, q, 1)
	for _, topic := range receiveDirect[*kmsg.MetadataResponse](f.t, d, q).Topics {
		if *topic.Topic == name {
			return true
		}
	}
	return false
}

// nothing checks that there is no answer yet.
func (f *faulty) nothing() {
	f.t.Helper()
	frame, err := f.d.Receive()
	require.NoError(f.t, err)
	require.Nil(f.t, frame)
	require.True(f.t, f.d.Waits())
}

// created checks that the answer to createTopic has come.
func (f *faulty) created() {
	f.t.Helper()
	require.Zero(f.t, receiveDirect[*kmsg.CreateTopicsResponse](f.t, f.d, createTopic("x")).Topics[0].ErrorCode)
}

// A delayed request is applied at its time, to the nanosecond; a delayed answer is of a request that was applied at once.
func TestDelay(t *testing.T) {
	for _, stage := range []fault.Stage{fault.Before, fault.After} {
		f := newFaulty(t)
		f.fault("api=CreateTopics delay=2s stage=" + string(stage))
		sendDirect(f.d, createTopic("x"), 1)
		require.Equal(t, stage == fault.After, f.exists("x"))
		f.clock.Advance(2*time.Second - 1)
		f.nothing()
		require.Equal(t, stage == fault.After, f.exists("x"))
		f.clock.Advance(1)
		require.True(t, f.exists("x"), "it is applied by the timer, not when its connection looks for an answer")
		f.created()
		require.False(t, f.d.Waits())
	}
}

// A held request waits for its release, which is done when ReleaseFault returns; a removed rule holds nothing.
func TestHold(t *testing.T) {
	for _, stage := range []fault.Stage{fault.Before, fault.After} {
		for _, remove := range []bool{false, true} {
			f := newFaulty(t)
			id := f.fault("name=stop api=CreateTopics hold stage=" + string(stage))
			sendDirect(f.d, createTopic("x"), 1)
			f.clock.Advance(time.Hour)
			f.nothing()
			require.Equal(t, stage == fault.After, f.exists("x"))
			require.Equal(t, 1, f.c.Faults()[0].Held)
			if remove {
				require.NoError(t, f.c.RemoveFault(id))
				require.Empty(t, f.c.Faults())
			} else {
				n, err := f.c.ReleaseFault("stop")
				require.NoError(t, err)
				require.Equal(t, 1, n)
				require.Equal(t, kshare.FaultStatus{ID: id, Rule: f.c.Faults()[0].Rule, Matches: 1, Acts: 1}, f.c.Faults()[0])
			}
			require.True(t, f.exists("x"))
			f.created()
			if !remove {
				sendDirect(f.d, createTopic("y"), 2)
				f.nothing() // the rule is still there
			}
		}
	}
	f := newFaulty(t)
	_, err := f.c.ReleaseFault("stop")
	require.ErrorContains(t, err, `no fault has the name "stop"`)
	require.ErrorContains(t, f.c.RemoveFault(1), "no fault 1")
	_, err = f.c.AddFault(kshare.Fault{})
	require.ErrorContains(t, err, "does nothing")
}

// What waits ends with its connection or with the cluster, and is not applied.
func TestWaitingEndsWithItsConnection(t *testing.T) {
	for _, rule := range []string{"delay=2s", "delay=2s stage=after", "name=stop hold", "name=stop hold stage=after"} {
		f := newFaulty(t)
		f.fault("api=CreateTopics " + rule)
		sendDirect(f.d, createTopic("x"), 1)
		require.True(t, f.d.Waits())
		f.d.Close()
		require.Zero(t, f.c.Faults()[0].Held)
		f.clock.Advance(time.Minute)
		f.c.ReleaseFault("stop")
		require.Equal(t, f.c.Faults()[0].Rule.Stage == fault.After, f.exists("x"), rule)

		other := f.connect()
		sendDirect(other, createTopic("y"), 1)
		require.True(t, other.Waits())
		require.NoError(t, f.c.Close())
		f.clock.Advance(time.Minute)
		f.c.ReleaseFault("stop")
		_, err := other.Receive()
		require.ErrorIs(t, err, io.EOF)
	}
}

// A waiting request may be delayed before it waits and after: its wait begins when it is applied.
func TestDelayOfALongPoll(t *testing.T) {
	f := newFaulty(t)
	f.fault("api=Fetch delay=1s")
	f.fault("api=Fetch delay=3s stage=after")
	q := longPoll() // of 5 s
	sendDirect(f.d, q, 1)
	f.clock.Advance(9*time.Second - 1)
	f.nothing()
	f.clock.Advance(1)
	require.Zero(t, receiveDirect[*kmsg.FetchResponse](t, f.d, q).Topics[0].Partitions[0].ErrorCode)
}

// A connection is closed before the request is applied, or after: the outcome that the client cannot know.
func TestClose(t *testing.T) {
	for _, stage := range []fault.Stage{fault.Before, fault.After} {
		for _, first := range []string{"", "delay=1s", "delay=1s stage=after"} {
			f := newFaulty(t)
			if first != "" {
				f.fault("api=CreateTopics " + first)
			}
			f.fault("api=CreateTopics close stage=" + string(stage))
			sendDirect(f.d, createTopic("x"), 1)
			f.clock.Advance(time.Second)
			_, err := f.d.Receive()
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, stage == fault.After, f.exists("x"))
		}
	}
}

// A silent connection stays open and answers nothing more; others are answered.
func TestSilence(t *testing.T) {
	for _, stage := range []fault.Stage{fault.Before, fault.After} {
		for _, first := range []string{"", "delay=1s", "delay=1s stage=after"} {
			f := newFaulty(t, kshare.WithRequestLog(10))
			if first != "" {
				f.fault("api=CreateTopics topic=x " + first)
			}
			f.fault("api=CreateTopics topic=x silence stage=" + string(stage))
			sendDirect(f.d, createTopic("x"), 1)
			f.clock.Advance(time.Second)
			sendDirect(f.d, createTopic("y"), 2)
			f.clock.Advance(time.Hour)
			f.nothing()
			require.Equal(t, stage == fault.After, f.exists("x"))
			require.False(t, f.exists("y"))
			logged, err := f.c.Requests(kshare.RequestQuery{API: "CreateTopics"})
			require.NoError(t, err)
			require.Len(t, logged, 2)
			require.EqualValues(t, "silent", logged[0].Outcome)
			require.EqualValues(t, "silent", logged[1].Outcome)
			require.Empty(t, logged[1].Faults, "no rule acts on what nobody answers")
			f.d.Close()
			require.False(t, f.d.Waits())
		}
	}
}

// The wrong bytes are behind a right header, and behind a right length unless the rule claims another.
func TestWrongBytes(t *testing.T) {
	f := newFaulty(t)
	q := createTopic("x")
	answer := func(rule string) []byte {
		id := f.fault("api=CreateTopics " + rule)
		sendDirect(f.d, q, 77)
		frame, err := f.d.Receive()
		require.NoError(t, err)
		require.NoError(t, f.c.RemoveFault(id))
		return frame
	}
	header := []byte{0, 0, 0, 77, 0}
	require.Equal(t, append(header, 0xc0, 0xde), answer("hex=c0de"))
	require.True(t, f.exists("x"))
	require.Equal(t, header, answer("truncate=0"))
	whole := answer("truncate=1000000")
	require.Equal(t, whole[:len(header)+3], answer("truncate=3"))
	flipped := answer("flip=1 seed=3")
	different := 0
	for i := range whole {
		for b := whole[i] ^ flipped[i]; b != 0; b &= b - 1 {
			different++
		}
	}
	require.Equal(t, 1, different)
	require.Equal(t, header, flipped[:len(header)])
	require.Equal(t, flipped, answer("flip=1 seed=3"))
	require.Equal(t, []byte{0, 0}, answer("length=2"))
}

// produceTo is a Produce of one record to each of some partitions of topic t.
func produceTo(partitions ...int32) *kmsg.ProduceRequest {
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.Acks, q.TimeoutMillis = 12, -1, 1000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "t"
	for _, index := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = index, oneRecord()
		topic.Partitions = append(topic.Partitions, p)
	}
	q.Topics = append(q.Topics, topic)
	return q
}

// ends are the end offsets of the partitions of topic t.
func (f *faulty) ends() (ends [2]int64) {
	f.t.Helper()
	d := f.connect()
	defer d.Close()
	q := kmsg.NewPtrListOffsetsRequest()
	q.Version, q.ReplicaID = 7, -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = "t"
	for i := range ends {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = int32(i), -1
		topic.Partitions = append(topic.Partitions, p)
	}
	q.Topics = append(q.Topics, topic)
	sendDirect(d, q, 1)
	for _, p := range receiveDirect[*kmsg.ListOffsetsResponse](f.t, d, q).Topics[0].Partitions {
		ends[p.Partition] = p.Offset
	}
	return ends
}

// producedCodes are the codes of the partitions of an answer to produceTo.
func producedCodes(p *kmsg.ProduceResponse) map[int32]int16 {
	found := map[int32]int16{}
	for _, t := range p.Topics {
		for _, e := range t.Partitions {
			found[e.Partition] = e.ErrorCode
		}
	}
	return found
}

// The other partitions of a request are handled as ever, and rules are counted.
func TestErrorOfOnePartition(t *testing.T) {
	f := newFaulty(t)
	f.fault("api=Produce topic=t partition=1 nth=2 times=1 error=NOT_LEADER_OR_FOLLOWER")
	q := produceTo(0, 1)
	require.Equal(t, map[int32]int16{0: 0, 1: 0}, producedCodes(ask1[*kmsg.ProduceResponse](f, q)))
	require.Equal(t, map[int32]int16{0: 0, 1: errorcode.NotLeaderOrFollower}, producedCodes(ask1[*kmsg.ProduceResponse](f, q)))
	require.Equal(t, [2]int64{2, 1}, f.ends())
	require.Equal(t, map[int32]int16{0: 0, 1: 0}, producedCodes(ask1[*kmsg.ProduceResponse](f, q)))
	require.Equal(t, [2]int64{3, 2}, f.ends())

	f.fault("api=Produce topic=t partition=1 times=1 error=NOT_LEADER_OR_FOLLOWER stage=after")
	p := ask1[*kmsg.ProduceResponse](f, q)
	require.Equal(t, map[int32]int16{0: 0, 1: errorcode.NotLeaderOrFollower}, producedCodes(p))
	require.EqualValues(t, 3, p.Topics[0].Partitions[0].BaseOffset)
	require.EqualValues(t, -1, p.Topics[0].Partitions[1].BaseOffset)
	require.Equal(t, [2]int64{4, 3}, f.ends(), "the record is there all the same")

	f.fault("api=Produce topic=t partition=0 times=1 error=POLICY_VIOLATION")
	f.fault("api=Produce topic=t times=1 error=INVALID_RECORD")
	f.fault("api=Produce topic=t times=1 error=KAFKA_STORAGE_ERROR stage=after")
	require.Equal(t, map[int32]int16{0: errorcode.PolicyViolation, 1: errorcode.InvalidRecord}, producedCodes(ask1[*kmsg.ProduceResponse](f, q)), "the first error holds")
	require.Equal(t, [2]int64{4, 3}, f.ends())
}

// A Produce without answer tells of an error by the end of its connection, as ever.
func TestErrorOfAProduceWithoutAnswer(t *testing.T) {
	for _, stage := range []fault.Stage{fault.Before, fault.After} {
		f := newFaulty(t, kshare.WithRequestLog(10))
		q := produceTo(0, 1)
		q.Acks = 0
		sendDirect(f.d, q, 1)
		logged, err := f.c.Requests(kshare.RequestQuery{API: "Produce"})
		require.NoError(t, err)
		require.EqualValues(t, "no answer", logged[0].Outcome)
		f.fault("api=Produce topic=t partition=1 error=INVALID_RECORD stage=" + string(stage))
		sendDirect(f.d, q, 2)
		_, err = f.d.Receive()
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, map[fault.Stage][2]int64{fault.Before: {2, 1}, fault.After: {2, 2}}[stage], f.ends())
	}
}

// A request for all topics names each, and is answered with all the same.
func TestErrorInAnAnswerForAllTopics(t *testing.T) {
	f := newFaulty(t)
	f.fault("api=Metadata topic=t error=TOPIC_AUTHORIZATION_FAILED")
	f.fault("api=Metadata topic=u partition=1 error=LEADER_NOT_AVAILABLE")
	for version := int16(1); version <= 13; version++ {
		q := kmsg.NewPtrMetadataRequest()
		q.Version = version
		p := ask1[*kmsg.MetadataResponse](f, q)
		require.Len(t, p.Brokers, 1)
		require.Len(t, p.Topics, 2)
		require.Equal(t, []int16{errorcode.TopicAuthorizationFailed, 0}, []int16{p.Topics[0].ErrorCode, p.Topics[1].ErrorCode})
		require.Empty(t, p.Topics[0].Partitions)
		for _, e := range p.Topics[1].Partitions {
			require.Equal(t, map[int32]int16{0: 0, 1: errorcode.LeaderNotAvailable}[e.Partition], e.ErrorCode)
			require.Equal(t, map[int32]int32{0: 1, 1: -1}[e.Partition], e.Leader)
			require.Equal(t, []int32{1}, e.Replicas)
		}
	}
	f.fault("api=Metadata topic=new error=TOPIC_AUTHORIZATION_FAILED")
	for _, version := range []int16{0, 9} {
		for _, name := range []string{"t", "new"} {
			q := kmsg.NewPtrMetadataRequest()
			q.Version, q.AllowAutoTopicCreation = version, version > 0
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = &name
			q.Topics = append(q.Topics, topic)
			p := ask1[*kmsg.MetadataResponse](f, q)
			require.Len(t, p.Brokers, 1, "the brokers are told beside every topic's error")
			require.Len(t, p.Topics, 1)
			require.Equal(t, errorcode.TopicAuthorizationFailed, p.Topics[0].ErrorCode)
			if version > 0 && name == "new" {
				require.False(t, f.exists("new"))
			}
		}
		f.delete("new") // which a request of version 0 makes, since without topics it would ask for all
	}
}

// delete deletes a topic.
func (f *faulty) delete(name string) {
	f.t.Helper()
	q := kmsg.NewPtrDeleteTopicsRequest()
	q.Version, q.TopicNames, q.TimeoutMillis = 5, []string{name}, 1000
	ask1[*kmsg.DeleteTopicsResponse](f, q)
}

// shareFetchOf is a ShareFetch of member m.
func shareFetchOf(epoch int32, topics ...kmsg.ShareFetchRequestTopic) *kmsg.ShareFetchRequest {
	q := kmsg.NewPtrShareFetchRequest()
	q.Version, q.GroupID, q.MemberID, q.ShareSessionEpoch = 1, kmsg.StringPtr("g"), kmsg.StringPtr("m"), epoch
	q.MinBytes, q.MaxBytes, q.MaxRecords, q.BatchSize, q.Topics = 1, 1<<20, 100, 100, topics
	return q
}

// shareGroup makes group g, which reads topic t from its start, and produces a record to each partition.
func (f *faulty) shareGroup() []kmsg.ShareFetchRequestTopic {
	f.t.Helper()
	f.findCoordinator("g")
	config := kmsg.NewPtrIncrementalAlterConfigsRequest()
	config.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g",
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "share.auto.offset.reset", Value: kmsg.StringPtr("earliest")}},
	}}
	require.Zero(f.t, ask1[*kmsg.IncrementalAlterConfigsResponse](f, config).Resources[0].ErrorCode)
	beat := kmsg.NewPtrShareGroupHeartbeatRequest()
	beat.Version, beat.GroupID, beat.MemberID, beat.SubscribedTopicNames = 1, "g", "m", []string{"t"}
	require.Zero(f.t, ask1[*kmsg.ShareGroupHeartbeatResponse](f, beat).ErrorCode)
	require.Equal(f.t, map[int32]int16{0: 0, 1: 0}, producedCodes(ask1[*kmsg.ProduceResponse](f, produceTo(0, 1))))
	return []kmsg.ShareFetchRequestTopic{{TopicID: topicID("t"), Partitions: []kmsg.ShareFetchRequestTopicPartition{{Partition: 0}, {Partition: 1}}}}
}

// shareAnswer is what a ShareFetch says of a partition.
type shareAnswer struct {
	code, ackCode int16
	acquired      int
}

func shareAnswers(t *testing.T, p *kmsg.ShareFetchResponse) map[int32]shareAnswer {
	t.Helper()
	require.Zero(t, p.ErrorCode)
	found := map[int32]shareAnswer{}
	for _, topic := range p.Topics {
		for _, e := range topic.Partitions {
			require.NotNil(t, e.Records, "Java cannot read null")
			found[e.Partition] = shareAnswer{e.ErrorCode, e.AcknowledgeErrorCode, len(e.AcquiredRecords)}
		}
	}
	return found
}

// An error of a partition of a ShareFetch leaves its session as a broker's: the session has moved on, nothing was acquired there, and the next fetch of
// the session, which names no partition, hits the rule again and then has the records.
func TestErrorOfAShareFetchPartition(t *testing.T) {
	f := newFaulty(t)
	topics := f.shareGroup()
	f.fault("api=ShareFetch topic=t partition=1 times=2 error=NOT_LEADER_OR_FOLLOWER")
	notLeader := shareAnswer{code: errorcode.NotLeaderOrFollower}
	p := ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(0, topics...))
	require.Equal(t, map[int32]shareAnswer{0: {acquired: 1}, 1: notLeader}, shareAnswers(t, p))
	require.Equal(t, map[int32]shareAnswer{1: notLeader}, shareAnswers(t, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(1))))
	require.Equal(t, map[int32]shareAnswer{1: {acquired: 1}}, shareAnswers(t, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(2))))
	for _, s := range f.c.Faults() {
		require.Equal(t, 3, s.Matches)
	}
	forgetting := shareFetchOf(3)
	forgetting.ForgottenTopicsData = []kmsg.ShareFetchRequestForgottenTopicsData{{TopicID: topicID("t"), Partitions: []int32{1}}}
	require.Empty(t, shareAnswers(t, ask1[*kmsg.ShareFetchResponse](f, forgetting)))
	require.Equal(t, 3, f.c.Faults()[0].Matches, "what a request forgets it does not fetch")

	f.fault("api=ShareFetch error=SHARE_SESSION_NOT_FOUND times=1")
	require.Equal(t, errorcode.ShareSessionNotFound, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(4)).ErrorCode)
	require.Zero(t, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(4)).ErrorCode, "the session has not moved on")
	f.fault("api=ShareFetch error=SHARE_SESSION_NOT_FOUND times=1 stage=after")
	require.Equal(t, errorcode.ShareSessionNotFound, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(5)).ErrorCode)
	require.Zero(t, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(6)).ErrorCode, "the session has moved on")
}

// Applied and then failed: the records are the member's, and it does not know.
func TestErrorAfterAShareFetch(t *testing.T) {
	f := newFaulty(t)
	topics := f.shareGroup()
	f.fault("api=ShareFetch topic=t partition=1 times=1 error=NOT_LEADER_OR_FOLLOWER stage=after")
	p := ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(0, topics...))
	require.Equal(t, map[int32]shareAnswer{0: {acquired: 1}, 1: {code: errorcode.NotLeaderOrFollower}}, shareAnswers(t, p))
	require.Empty(t, shareAnswers(t, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(1))))
	f.clock.Advance(30 * time.Second)
	require.Len(t, shareAnswers(t, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(2))), 2)
}

// Acknowledgements fail with their partition, or alone, and are not applied; after means that they were.
func TestErrorOfAcknowledgements(t *testing.T) {
	accepting := func(index int32) kmsg.ShareFetchRequestTopic {
		batch := kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{AcknowledgeTypes: []int8{accept}}
		return kmsg.ShareFetchRequestTopic{TopicID: topicID("t"), Partitions: []kmsg.ShareFetchRequestTopicPartition{
			{Partition: index, AcknowledgementBatches: []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{batch}},
		}}
	}
	for rule, want := range map[string]struct {
		answer shareAnswer
		ends   bool // the record was acknowledged
	}{
		"error=INVALID_RECORD_STATE level=acknowledge":             {shareAnswer{ackCode: errorcode.InvalidRecordState}, false},
		"error=INVALID_RECORD_STATE level=acknowledge stage=after": {shareAnswer{ackCode: errorcode.InvalidRecordState}, true},
		"error=NOT_LEADER_OR_FOLLOWER":                             {shareAnswer{code: errorcode.NotLeaderOrFollower, ackCode: errorcode.NotLeaderOrFollower}, false},
	} {
		f := newFaulty(t)
		require.Len(t, shareAnswers(t, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(0, f.shareGroup()...))), 2)
		f.fault("api=ShareFetch topic=t partition=0 times=1 " + rule)
		answers := shareAnswers(t, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(1, accepting(0))))
		require.Equal(t, map[int32]shareAnswer{0: want.answer}, answers, rule)
		f.clock.Advance(30 * time.Second)
		again := shareAnswers(t, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(2)))
		require.Equal(t, want.ends, again[0].acquired == 0, rule)
		require.Equal(t, 1, again[1].acquired, rule)
	}

	f := newFaulty(t)
	require.Len(t, shareAnswers(t, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(0, f.shareGroup()...))), 2)
	f.fault("api=ShareAcknowledge topic=t partition=0 error=INVALID_RECORD_STATE")
	q := kmsg.NewPtrShareAcknowledgeRequest()
	q.Version, q.GroupID, q.MemberID, q.ShareSessionEpoch = 1, kmsg.StringPtr("g"), kmsg.StringPtr("m"), 1
	topic := kmsg.ShareAcknowledgeRequestTopic{TopicID: topicID("t")}
	for index := range int32(2) {
		topic.Partitions = append(topic.Partitions, kmsg.ShareAcknowledgeRequestTopicPartition{Partition: index,
			AcknowledgementBatches: []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{{AcknowledgeTypes: []int8{accept}}}})
	}
	q.Topics = append(q.Topics, topic)
	p := ask1[*kmsg.ShareAcknowledgeResponse](f, q)
	require.Zero(t, p.ErrorCode)
	codes := map[int32]int16{}
	for _, x := range p.Topics[0].Partitions {
		codes[x.Partition] = x.ErrorCode
	}
	require.Equal(t, map[int32]int16{0: errorcode.InvalidRecordState, 1: 0}, codes)
	f.clock.Advance(30 * time.Second)
	require.Equal(t, map[int32]shareAnswer{0: {acquired: 1}}, shareAnswers(t, ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(2))))
}

// A fetch session goes on behind an error of a partition that the request does not name.
func TestErrorOfAFetchSessionPartition(t *testing.T) {
	f := newFaulty(t)
	require.Equal(t, map[int32]int16{0: 0, 1: 0}, producedCodes(ask1[*kmsg.ProduceResponse](f, produceTo(0, 1))))
	q := longPoll()
	q.SessionEpoch = 0
	other := q.Topics[0].Partitions[0]
	other.Partition = 1
	q.Topics[0].Partitions = append(q.Topics[0].Partitions, other)
	p := ask1[*kmsg.FetchResponse](f, q)
	require.NotZero(t, p.SessionID)
	q.SessionID, q.SessionEpoch, q.Topics = p.SessionID, 1, nil
	f.fault("api=Fetch topic=t partition=1 times=1 error=OFFSET_OUT_OF_RANGE")
	p = ask1[*kmsg.FetchResponse](f, q)
	require.Zero(t, p.ErrorCode)
	found := map[int32]int16{}
	for _, e := range p.Topics[0].Partitions {
		found[e.Partition] = e.ErrorCode
	}
	require.Equal(t, map[int32]int16{0: 0, 1: errorcode.OffsetOutOfRange}, found)
	q.SessionEpoch = 2
	p = ask1[*kmsg.FetchResponse](f, q)
	require.Zero(t, p.ErrorCode)
	require.Len(t, p.Topics[0].Partitions, 2)
}

// The log says what was asked and answered, by whom and when.
func TestRequestLog(t *testing.T) {
	f := newFaulty(t, kshare.WithRequestLog(6))
	began := f.clock.Now()
	f.fault("name=slow api=Fetch delay=1s")
	poll := longPoll()
	sendDirect(f.d, poll, 41)
	query := func(q kshare.RequestQuery) []kshare.Request {
		t.Helper()
		found, err := f.c.Requests(q)
		require.NoError(t, err)
		return found
	}
	require.EqualValues(t, "pending", query(kshare.RequestQuery{})[0].Outcome)
	f.clock.Advance(10 * time.Second)
	receiveDirect[*kmsg.FetchResponse](t, f.d, poll)
	e := query(kshare.RequestQuery{API: "1"})[0]
	require.Equal(t, []any{uint64(1), "Fetch", int16(12), int32(1), int32(41), began, began.Add(6 * time.Second), []string{"slow"}},
		[]any{e.Seq, e.API, e.Version, e.Node, e.CorrelationID, e.Arrived, e.Answered, e.Faults})
	require.EqualValues(t, "answered", e.Outcome)
	asked, err := e.Request()
	require.NoError(t, err)
	require.EqualValues(t, 5000, asked.(*kmsg.FetchRequest).MaxWaitMillis)
	answered, err := e.Answer()
	require.NoError(t, err)
	require.Equal(t, "t", answered.(*kmsg.FetchResponse).Topics[0].Topic)

	topics := f.shareGroup() // four requests
	ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(0, topics...))
	ask1[*kmsg.ShareFetchResponse](f, shareFetchOf(1))
	all := query(kshare.RequestQuery{})
	require.Len(t, all, 6, "the oldest are forgotten")
	require.EqualValues(t, 2, all[0].Seq)
	require.Len(t, query(kshare.RequestQuery{Since: 5}), 2)
	require.Len(t, query(kshare.RequestQuery{Group: "g"}), 5)
	require.Len(t, query(kshare.RequestQuery{Member: "m"}), 3)
	require.Len(t, query(kshare.RequestQuery{Topic: "t", API: "ShareFetch"}), 2, "the second means the topic by its session")
	require.Empty(t, query(kshare.RequestQuery{Topic: "u"}))
	require.Empty(t, query(kshare.RequestQuery{ClientID: "nobody"}))
	require.Len(t, query(kshare.RequestQuery{Connection: e.Connection}), 6)
	require.Empty(t, query(kshare.RequestQuery{Connection: e.Connection + 1}))
	_, err = f.c.Requests(kshare.RequestQuery{API: "Fetsch"})
	require.ErrorContains(t, err, "no API")

	b, err := json.Marshal(query(kshare.RequestQuery{Since: 6}))
	require.NoError(t, err)
	var decoded []map[string]any
	require.NoError(t, json.Unmarshal(b, &decoded))
	require.Equal(t, "m", decoded[0]["request"].(map[string]any)["MemberID"])
	require.Equal(t, float64(0), decoded[0]["answer"].(map[string]any)["ErrorCode"])

	f.fault("api=ApiVersions hex=ff")
	sendDirect(f.d, kmsg.NewPtrApiVersionsRequest(), 9)
	f.fault("api=ListGroups close")
	sendDirect(f.d, kmsg.NewPtrListGroupsRequest(), 10)
	last := query(kshare.RequestQuery{Since: 7})
	require.Equal(t, []string{"fault 2"}, last[0].Faults)
	_, err = last[0].Answer()
	require.Error(t, err)
	b, err = json.Marshal(last[0])
	require.NoError(t, err)
	require.Contains(t, string(b), `"undecodable":"answer of ApiVersions v0`)
	require.EqualValues(t, "closed", last[1].Outcome)
	require.Equal(t, "ListGroups v0: closed by fault 3", last[1].Reason)

	quiet := newFaulty(t)
	none, err := quiet.c.Requests(kshare.RequestQuery{})
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = kshare.Start(kshare.WithRequestLog(0))
	require.ErrorContains(t, err, "a request log has 1 to")
}

// A client whose Produce was applied before its connection was closed tries again, and the record is there once.
func TestClientWhoseConnectionIsClosedAfterProduce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *kshare.Cluster) {
		client := newClient(t, c)
		_, err := c.AddFault(kshare.Fault{API: "Produce", Times: 1, Close: true, Stage: fault.After})
		require.NoError(t, err)
		produce(t, client, "t", 0, 1)
		require.Equal(t, 2, c.Faults()[0].Matches, "the client has tried twice")
		q := kmsg.NewPtrListOffsetsRequest()
		q.ReplicaID = -1
		topic, partition := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		partition.Timestamp = -1
		topic.Topic, topic.Partitions = "t", append(topic.Partitions, partition)
		q.Topics = append(q.Topics, topic)
		p := ask[*kmsg.ListOffsetsResponse](t, client, 1, q)
		require.EqualValues(t, 1, p.Topics[0].Partitions[0].Offset)
	}, kshare.WithTopic("t", 1))
}

// On a network connection waits are the bubble's time, a client that leaves a silent connection is noticed, and a held request ends with the cluster.
func TestFaultsOnTheNetwork(t *testing.T) {
	inBubble(t, func(t *testing.T, c *kshare.Cluster) {
		client := newClient(t, c)
		began := time.Now()
		for _, rule := range []kshare.Fault{{API: "Metadata", Times: 1, Delay: time.Second}, {API: "Metadata", Times: 1, Delay: time.Second, Stage: fault.After}} {
			_, err := c.AddFault(rule)
			require.NoError(t, err)
		}
		metadata(t, client, "t")
		require.Equal(t, 2*time.Second, time.Since(began))

		_, err := c.AddFault(kshare.Fault{API: "ListGroups", Silence: true})
		require.NoError(t, err)
		conn, err := c.Dial(context.Background(), "tcp", c.Addrs()[0])
		require.NoError(t, err)
		for range 3 {
			_, err = conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrListGroupsRequest(), 1))
			require.NoError(t, err, "a silent connection takes what is sent")
		}
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Hour)))
		_, err = conn.Read(make([]byte, 1))
		var timeout net.Error
		require.True(t, errors.As(err, &timeout) && timeout.Timeout(), err)
		require.NoError(t, conn.Close())

		_, err = c.AddFault(kshare.Fault{Name: "stop", API: "DescribeCluster", Hold: true})
		require.NoError(t, err)
		held, err := c.Dial(context.Background(), "tcp", c.Addrs()[0])
		require.NoError(t, err)
		q := kmsg.NewPtrDescribeClusterRequest()
		_, err = held.Write(kmsg.NewRequestFormatter().AppendRequest(nil, q, 1))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, c.Faults()[3].Held)
		n, err := c.ReleaseFault("stop")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		size := make([]byte, 4)
		_, err = io.ReadFull(held, size)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, held, int64(binary.BigEndian.Uint32(size)))
		require.NoError(t, err)
		_, err = held.Write(kmsg.NewRequestFormatter().AppendRequest(nil, q, 1))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, c.Faults()[3].Held) // and the bubble sees that nothing of it is left
	}, kshare.WithTopic("t", 1))
}

// Rules come and go, requests are held and released, connections and the clock move, all at once: nothing races or hangs, and what was acknowledged is there.
func TestFaultsUnderWay(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	now := clock.NewVirtual(time.Unix(1_800_000_000, 0))
	c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithClock(now), kshare.WithTopic("t", 2), kshare.WithRequestLog(50))
	require.NoError(t, err)
	rules := []kshare.Fault{
		{Delay: time.Millisecond}, {Delay: time.Millisecond, Stage: fault.After}, {Name: "stop", Hold: true}, {Name: "stop", Hold: true, Stage: fault.After},
		{Close: true}, {Close: true, Stage: fault.After}, {Silence: true}, {Error: "NOT_LEADER_OR_FOLLOWER", Topic: "t"},
		{Error: "NOT_LEADER_OR_FOLLOWER", Topic: "t", Partition: new(int32(1)), Stage: fault.After}, {Flip: 3},
	}
	var clients sync.WaitGroup
	done := make(chan struct{})
	for i := range 4 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 150 {
				d, err := c.OpenDirect(1)
				if err != nil {
					t.Error(err)
					return
				}
				for range random.IntN(4) {
					sendDirect(d, []kmsg.Request{produceTo(0, 1), longPoll(), kmsg.NewPtrMetadataRequest()}[random.IntN(3)], 1)
					d.Receive()
				}
				d.Close()
			}
		})
	}
	go func() { clients.Wait(); close(done) }()
	random := rand.New(rand.NewPCG(seed, 99))
	var kept []int
	for working := true; working; {
		select {
		case <-done:
			working = false
		default:
		}
		rule := rules[random.IntN(len(rules))]
		rule.Probability, rule.Seed = 0.5, random.Uint64()
		id, err := c.AddFault(rule)
		require.NoError(t, err)
		now.Advance(time.Millisecond)
		c.ReleaseFault("stop")
		if kept = append(kept, id); random.IntN(3) > 0 || len(kept) > 100 { // the clients may take as long as they like
			at := random.IntN(len(kept))
			require.NoError(t, c.RemoveFault(kept[at]))
			kept = slices.Delete(kept, at, at+1)
		}
		_, err = c.Requests(kshare.RequestQuery{Topic: "t"})
		require.NoError(t, err)
	}
	for _, s := range c.Faults() {
		require.Zero(t, s.Held, "connections that have gone hold nothing")
		require.NoError(t, c.RemoveFault(s.ID))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.Dialer(c.Dial))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(context.Background(), &kgo.Record{Topic: "t"}).FirstErr())
	require.NoError(t, c.Close())
}

// The answer of a request that outlives its connection, as a member's that joins, is held for nobody.
func TestNothingIsHeldForAConnectionThatHasGone(t *testing.T) {
	f := newFaulty(t, kshare.WithConfig("group.initial.rebalance.delay.ms", "3000"))
	f.findCoordinator("g")
	f.fault("name=stop api=JoinGroup hold stage=after")
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version, q.Group, q.ProtocolType, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 3, "g", "consumer", 10000, 10000
	q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	sendDirect(f.d, q, 1)
	require.True(t, f.d.Waits())
	f.d.Close()
	f.clock.Advance(3 * time.Second)
	require.Zero(t, f.c.Faults()[0].Held)

	f.d = f.connect() // one whose connection stays is held
	sendDirect(f.d, q, 1)
	f.clock.Advance(20 * time.Second)
	require.Equal(t, 1, f.c.Faults()[0].Held)
}

// So many requests may be held; of one more the connection is closed and says why. Those that are held go on in their order.
func TestHeldRequestsAreBounded(t *testing.T) {
	const most = 10_000
	for _, stage := range []fault.Stage{fault.Before, fault.After} {
		f := newFaulty(t, kshare.WithRequestLog(1))
		_, err := f.c.AddFault(kshare.Fault{Name: "wall", API: "ListGroups", Hold: true, Stage: stage})
		require.NoError(t, err)
		q := kmsg.NewPtrListGroupsRequest()
		held := make([]*kshare.Direct, most)
		for i := range held {
			held[i], err = f.c.OpenDirect(1)
			require.NoError(t, err)
			sendDirect(held[i], q, 1)
			require.True(t, held[i].Waits())
		}
		require.Equal(t, most, f.c.Faults()[0].Held)
		d := f.connect()
		sendDirect(d, q, 1)
		_, err = d.Receive()
		require.ErrorIs(t, err, io.EOF)
		last, err := f.c.Requests(kshare.RequestQuery{})
		require.NoError(t, err)
		require.Equal(t, "ListGroups v0: wall holds no more: 10000 requests are held already; release some", last[0].Reason)
		held[0].Close()
		d = f.connect()
		sendDirect(d, q, 1)
		require.True(t, d.Waits(), "there is room again")
		n, err := f.c.ReleaseFault("wall")
		require.NoError(t, err)
		require.Equal(t, most, n)
		receiveDirect[*kmsg.ListGroupsResponse](t, held[most-1], q)
		receiveDirect[*kmsg.ListGroupsResponse](t, d, q)
	}
}
