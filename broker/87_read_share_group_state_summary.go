package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
)

// ReadShareGroupStateSummary (87), v0 to v1. Group coordinators send it to the share coordinator.
//
// Behaviour: package sharecoordinator.
//   - The request's leader epochs are not looked at. A share partition without state has the start offset -1, without error.
//   - v1 answers DeliveryCompleteCount too.
//   - Other nodes than the coordinator, empty requests and what is named twice: as InitializeShareGroupState.

const readShareGroupStateSummaryKey = 87

func init() {
	handlers[readShareGroupStateSummaryKey] = needing(locked((*Cluster).readShareGroupStateSummary),
		onCluster(acl.ClusterAction, saysCluster, fault.Partition),
	)
}

func (c *Cluster) readShareGroupStateSummary(r *request, q *kmsg.ReadShareGroupStateSummaryRequest) kmsg.Response {
	p := response[*kmsg.ReadShareGroupStateSummaryResponse](q)
	if namesNoShareState(q.GroupID, q.Topics, func(t *kmsg.ReadShareGroupStateSummaryRequestTopic) int { return len(t.Partitions) }) {
		return p
	}
	var results shareStateResults[kmsg.ReadShareGroupStateSummaryResponseTopicPartition]
	for i := range q.Topics {
		id := q.Topics[i].TopicID
		for _, asked := range q.Topics[i].Partitions {
			k := sharecoordinator.Key{Group: q.GroupID, Topic: id, Partition: asked.Partition}
			e := kmsg.NewReadShareGroupStateSummaryResponseTopicPartition()
			e.Partition = asked.Partition
			var state sharecoordinator.State
			e.ErrorCode, e.ErrorMessage = c.shareState(r, "read share group state summary", k, func() (record sharecoordinator.Record, no *sharecoordinator.Refusal) {
				state, no = c.share.coordinator.Summary(k)
				return record, no
			})
			if e.ErrorCode == errorcode.None {
				e.StateEpoch, e.LeaderEpoch, e.StartOffset, e.DeliveryCompleteCount = state.StateEpoch, state.LeaderEpoch, state.StartOffset, state.DeliveryCompleteCount
			}
			results.put(id, e.Partition, e)
		}
	}
	results.each(func(id [16]byte, partitions []kmsg.ReadShareGroupStateSummaryResponseTopicPartition) {
		topic := kmsg.NewReadShareGroupStateSummaryResponseTopic()
		topic.TopicID, topic.Partitions = id, partitions
		p.Topics = append(p.Topics, topic)
	})
	return p
}
