package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
)

// WriteShareGroupState (85), v0 to v1. The leaders of partitions send it to the share coordinator.
//
// Behaviour: package sharecoordinator.
//   - v1 tells DeliveryCompleteCount, without it the count is not known.
//   - Other nodes than the coordinator, empty requests and what is named twice: as InitializeShareGroupState.

const writeShareGroupStateKey = 85

func init() {
	handlers[writeShareGroupStateKey] = needing(writing(locked((*Cluster).writeShareGroupState)),
		onCluster(acl.ClusterAction, saysCluster, fault.Partition),
	)
}

func (c *Cluster) writeShareGroupState(r *request, q *kmsg.WriteShareGroupStateRequest) kmsg.Response {
	p := response[*kmsg.WriteShareGroupStateResponse](q)
	if namesNoShareState(q.GroupID, q.Topics, func(t *kmsg.WriteShareGroupStateRequestTopic) int { return len(t.Partitions) }) {
		return p
	}
	var results shareStateResults[kmsg.WriteShareGroupStateResponseTopicPartition]
	for i := range q.Topics {
		id := q.Topics[i].TopicID
		for j := range q.Topics[i].Partitions {
			asked := &q.Topics[i].Partitions[j]
			k := sharecoordinator.Key{Group: q.GroupID, Topic: id, Partition: asked.Partition}
			e := kmsg.NewWriteShareGroupStateResponseTopicPartition()
			e.Partition = asked.Partition
			e.ErrorCode, e.ErrorMessage = c.changeStored(r, "write share group state", k, func() (sharecoordinator.Record, *sharecoordinator.Refusal) {
				return c.share.coordinator.Write(c.now(), k, writtenShareState(asked))
			})
			results.put(id, e.Partition, e)
		}
	}
	results.each(func(id [16]byte, partitions []kmsg.WriteShareGroupStateResponseTopicPartition) {
		topic := kmsg.NewWriteShareGroupStateResponseTopic()
		topic.TopicID, topic.Partitions = id, partitions
		p.Topics = append(p.Topics, topic)
	})
	return p
}

// writtenShareState is what a request writes of a share partition as the share coordinator takes it.
func writtenShareState(asked *kmsg.WriteShareGroupStateRequestTopicPartition) *sharecoordinator.Update {
	u := &sharecoordinator.Update{
		StateEpoch:            asked.StateEpoch,
		LeaderEpoch:           asked.LeaderEpoch,
		StartOffset:           asked.StartOffset,
		DeliveryCompleteCount: asked.DeliveryCompleteCount,
		Batches:               make([]sharecoordinator.Batch, len(asked.StateBatches)),
	}
	for i, b := range asked.StateBatches {
		u.Batches[i] = sharecoordinator.Batch{FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, State: b.DeliveryState, DeliveryCount: b.DeliveryCount}
		if u.Batches[i].State == int8(sharepartition.TxPending) {
			u.Batches[i].Staged = sharecoordinator.NoStaged
		}
	}
	return u
}
