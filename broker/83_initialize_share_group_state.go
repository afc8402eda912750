package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/sharecoordinator"
)

// InitializeShareGroupState (83), v0. Brokers send it to each other.
//
// Behaviour: package sharecoordinator.
//   - Only the share coordinator of a share partition answers for it, other nodes NOT_COORDINATOR for each partition.
//   - Without a group, topics, or partitions of any topic the answer is empty.
//   - What is named twice is done twice, in the order of the request, and answered once, with what came of the last. Topics and partitions are answered in
//     the order of java.util.HashMap.

const initializeShareGroupStateKey = 83

func init() {
	handlers[initializeShareGroupStateKey] = needing(writing(locked((*Cluster).initializeShareGroupState)),
		onCluster(acl.ClusterAction, saysCluster, fault.Partition),
	)
}

func (c *Cluster) initializeShareGroupState(r *request, q *kmsg.InitializeShareGroupStateRequest) kmsg.Response {
	p := response[*kmsg.InitializeShareGroupStateResponse](q)
	if namesNoShareState(q.GroupID, q.Topics, func(t *kmsg.InitializeShareGroupStateRequestTopic) int { return len(t.Partitions) }) {
		return p
	}
	var results shareStateResults[kmsg.InitializeShareGroupStateResponseTopicPartition]
	for i := range q.Topics {
		id := q.Topics[i].TopicID
		for _, asked := range q.Topics[i].Partitions {
			k := sharecoordinator.Key{Group: q.GroupID, Topic: id, Partition: asked.Partition}
			e := kmsg.NewInitializeShareGroupStateResponseTopicPartition()
			e.Partition = asked.Partition
			e.ErrorCode, e.ErrorMessage = c.changeStored(r, "initialize share group state", k, func() (sharecoordinator.Record, *sharecoordinator.Refusal) {
				return c.share.coordinator.Initialize(c.now(), k, asked.StateEpoch, asked.StartOffset)
			})
			results.put(id, e.Partition, e)
		}
	}
	results.each(func(id [16]byte, partitions []kmsg.InitializeShareGroupStateResponseTopicPartition) {
		topic := kmsg.NewInitializeShareGroupStateResponseTopic()
		topic.TopicID, topic.Partitions = id, partitions
		p.Topics = append(p.Topics, topic)
	})
	return p
}
