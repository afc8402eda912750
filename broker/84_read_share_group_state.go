package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
)

// ReadShareGroupState (84), v0. The leaders of partitions send it to the share coordinator.
//
// Behaviour: package sharecoordinator.
//   - A higher leader epoch than any before is stored and fences the lower ones: the leader that has the share partition now learns of it as
//     its next write is refused.
//   - Other nodes than the coordinator, empty requests and what is named twice: as InitializeShareGroupState.

const readShareGroupStateKey = 84

func init() {
	handlers[readShareGroupStateKey] = needing(writing(locked((*Cluster).readShareGroupState)),
		onCluster(acl.ClusterAction, saysCluster, fault.Partition),
	)
}

func (c *Cluster) readShareGroupState(r *request, q *kmsg.ReadShareGroupStateRequest) kmsg.Response {
	p := response[*kmsg.ReadShareGroupStateResponse](q)
	if namesNoShareState(q.GroupID, q.Topics, func(t *kmsg.ReadShareGroupStateRequestTopic) int { return len(t.Partitions) }) {
		return p
	}
	var results shareStateResults[kmsg.ReadShareGroupStateResponseTopicPartition]
	for i := range q.Topics {
		id := q.Topics[i].TopicID
		for _, asked := range q.Topics[i].Partitions {
			k := sharecoordinator.Key{Group: q.GroupID, Topic: id, Partition: asked.Partition}
			e := kmsg.NewReadShareGroupStateResponseTopicPartition()
			e.Partition = asked.Partition
			var state sharecoordinator.State
			e.ErrorCode, e.ErrorMessage = c.shareState(r, "read share group state", k, func() (record sharecoordinator.Record, no *sharecoordinator.Refusal) {
				state, record, no = c.share.coordinator.Read(c.now(), k, asked.LeaderEpoch)
				return record, no
			})
			if e.ErrorCode == errorcode.None {
				e.StateEpoch, e.StartOffset = state.StateEpoch, state.StartOffset
				e.StateBatches = readStateBatches(state.Batches)
			}
			results.put(id, e.Partition, e)
		}
	}
	results.each(func(id [16]byte, partitions []kmsg.ReadShareGroupStateResponseTopicPartition) {
		topic := kmsg.NewReadShareGroupStateResponseTopic()
		topic.TopicID, topic.Partitions = id, partitions
		p.Topics = append(p.Topics, topic)
	})
	return p
}

// readStateBatches are batches of the share coordinator as the answer has them.
func readStateBatches(batches []sharecoordinator.Batch) []kmsg.ReadShareGroupStateResponseTopicPartitionStateBatch {
	out := make([]kmsg.ReadShareGroupStateResponseTopicPartitionStateBatch, len(batches))
	for i, b := range batches {
		out[i] = kmsg.ReadShareGroupStateResponseTopicPartitionStateBatch{
			FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, DeliveryState: b.State, DeliveryCount: b.DeliveryCount,
		}
	}
	return out
}
