package crash

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
)

// What a share group has settled and how often it was given the rest survives; what was held is given back as the session ends.
func TestSharePartitionsSurvive(t *testing.T) {
	r := startRestarting(t, kshare.WithTopic("orders", 1))
	r.alter(kmsg.ConfigResourceTypeGroupConfig, "workers", "share.auto.offset.reset", "earliest")
	r.produce("orders", 10)
	epoch := r.heartbeatShare("workers", newMemberID, 0).MemberEpoch
	topic := r.heartbeatShare("workers", newMemberID, epoch).Assignment
	if topic == nil {
		topic = r.heartbeatShare("workers", newMemberID, 0).Assignment
	}
	id := topic.TopicPartitions[0].TopicID

	fetched := r.shareFetch("workers", id, 0)
	require.Equal(t, map[int64]int16{0: 1, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1, 9: 1}, fetched)
	const accept, release, reject = 1, 2, 3
	r.shareAcknowledge("workers", id, 1, 0, accept, accept, accept, release, accept, release, reject)

	restart := func() {
		const final = -1
		require.Zero(t, ask[*kmsg.ShareFetchResponse](r, r.shareFetchRequest("workers", id, final)).ErrorCode)
		start := r.shareStart("workers")
		r.restart()
		require.GreaterOrEqual(t, r.shareStart("workers"), start)
	}
	restart()
	q := r.shareFetchRequest("workers", id, 2)
	require.Equal(t, kerr.ShareSessionNotFound.Code, ask[*kmsg.ShareFetchResponse](r, q).ErrorCode)
	fetched = r.shareFetch("workers", id, 0)
	require.Equal(t, map[int64]int16{3: 2, 5: 2, 7: 2, 8: 2, 9: 2}, fetched, "3 and 5 were released, 7 to 9 given back with the session")
	r.shareAcknowledge("workers", id, 1, 3, release)

	restart()
	fetched = r.shareFetch("workers", id, 0)
	require.Equal(t, map[int64]int16{3: 3, 5: 3, 7: 3, 8: 3, 9: 3}, fetched)
	r.shareAcknowledge("workers", id, 1, 3, accept)
	r.shareAcknowledge("workers", id, 2, 5, accept)
	r.shareAcknowledge("workers", id, 3, 7, accept, accept, accept)

	restart()
	require.Empty(t, r.shareFetch("workers", id, 0))
	r.produce("orders", 1)
	require.Equal(t, map[int64]int16{10: 1}, r.shareFetch("workers", id, 1))
	r.shareAcknowledge("workers", id, 2, 10, accept)
	require.EqualValues(t, 10, r.shareStart("workers"), "a write tells the start as it was before it")
}

func (r *restarting) shareFetchRequest(group string, topicID [16]byte, epoch int32) *kmsg.ShareFetchRequest {
	member := newMemberID
	topic := kmsg.NewShareFetchRequestTopic()
	topic.TopicID = topicID
	topic.Partitions = []kmsg.ShareFetchRequestTopicPartition{kmsg.NewShareFetchRequestTopicPartition()}
	q := kmsg.NewPtrShareFetchRequest()
	q.GroupID, q.MemberID, q.ShareSessionEpoch = &group, &member, epoch
	q.MaxWaitMillis, q.MaxBytes, q.MaxRecords, q.BatchSize = 0, 1<<20, 500, 500
	q.Topics = append(q.Topics, topic)
	return q
}

// shareFetch returns the delivery counts of the records acquired from orders-0.
func (r *restarting) shareFetch(group string, topicID [16]byte, epoch int32) map[int64]int16 {
	r.t.Helper()
	p := ask[*kmsg.ShareFetchResponse](r, r.shareFetchRequest(group, topicID, epoch))
	require.Zero(r.t, p.ErrorCode)
	counts := map[int64]int16{}
	for _, t := range p.Topics {
		for _, p := range t.Partitions {
			require.Zero(r.t, p.ErrorCode)
			for _, a := range p.AcquiredRecords {
				for offset := a.FirstOffset; offset <= a.LastOffset; offset++ {
					counts[offset] = a.DeliveryCount
				}
			}
		}
	}
	return counts
}

// shareAcknowledge answers for records from first on, one type each.
func (r *restarting) shareAcknowledge(group string, topicID [16]byte, epoch int32, first int64, types ...int8) {
	r.t.Helper()
	member := newMemberID
	batch := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
	batch.FirstOffset, batch.LastOffset, batch.AcknowledgeTypes = first, first+int64(len(types))-1, types
	partition := kmsg.NewShareAcknowledgeRequestTopicPartition()
	partition.AcknowledgementBatches = append(partition.AcknowledgementBatches, batch)
	topic := kmsg.NewShareAcknowledgeRequestTopic()
	topic.TopicID, topic.Partitions = topicID, append(topic.Partitions, partition)
	q := kmsg.NewPtrShareAcknowledgeRequest()
	q.GroupID, q.MemberID, q.ShareSessionEpoch = &group, &member, epoch
	q.Topics = append(q.Topics, topic)
	p := ask[*kmsg.ShareAcknowledgeResponse](r, q)
	require.Zero(r.t, p.ErrorCode)
	require.Zero(r.t, p.Topics[0].Partitions[0].ErrorCode)
}

// shareStart is the start offset of the group in orders-0.
func (r *restarting) shareStart(group string) int64 {
	r.t.Helper()
	q := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	asked := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	asked.GroupID = group
	topic := kmsg.NewDescribeShareGroupOffsetsRequestGroupTopic()
	topic.Topic, topic.Partitions = "orders", []int32{0}
	asked.Topics = append(asked.Topics, topic)
	q.Groups = append(q.Groups, asked)
	p := ask[*kmsg.DescribeShareGroupOffsetsResponse](r, q)
	require.Zero(r.t, p.Groups[0].ErrorCode)
	require.Zero(r.t, p.Groups[0].Topics[0].Partitions[0].ErrorCode)
	return p.Groups[0].Topics[0].Partitions[0].StartOffset
}
