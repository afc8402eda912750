package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/sharecoordinator"
)

// DeleteShareGroupState (86), v0. Brokers send it to each other.
//
// Behaviour: package sharecoordinator.
//   - State that there is none of is deleted without error.
//   - Other nodes than the coordinator, empty requests and what is named twice: as InitializeShareGroupState.

const deleteShareGroupStateKey = 86

func init() {
	handlers[deleteShareGroupStateKey] = needing(writing(locked((*Cluster).deleteShareGroupState)),
		onCluster(acl.ClusterAction, saysCluster, fault.Partition),
	)
}

func (c *Cluster) deleteShareGroupState(r *request, q *kmsg.DeleteShareGroupStateRequest) kmsg.Response {
	p := response[*kmsg.DeleteShareGroupStateResponse](q)
	if namesNoShareState(q.GroupID, q.Topics, func(t *kmsg.DeleteShareGroupStateRequestTopic) int { return len(t.Partitions) }) {
		return p
	}
	var results shareStateResults[kmsg.DeleteShareGroupStateResponseTopicPartition]
	for i := range q.Topics {
		id := q.Topics[i].TopicID
		for _, asked := range q.Topics[i].Partitions {
			k := sharecoordinator.Key{Group: q.GroupID, Topic: id, Partition: asked.Partition}
			e := kmsg.NewDeleteShareGroupStateResponseTopicPartition()
			e.Partition = asked.Partition
			e.ErrorCode, e.ErrorMessage = c.changeStored(r, "delete share group state", k, func() (sharecoordinator.Record, *sharecoordinator.Refusal) {
				return c.share.coordinator.Delete(k)
			})
			results.put(id, e.Partition, e)
		}
	}
	results.each(func(id [16]byte, partitions []kmsg.DeleteShareGroupStateResponseTopicPartition) {
		topic := kmsg.NewDeleteShareGroupStateResponseTopic()
		topic.TopicID, topic.Partitions = id, partitions
		p.Topics = append(p.Topics, topic)
	})
	return p
}
