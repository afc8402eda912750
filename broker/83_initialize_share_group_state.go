package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/sharecoordinator"
)

// InitializeShareGroupState (83), v0. Brokers send it to each other.
//
// Behaviour: package sharecoordinator.
//   - Only the share coordinator of a share partition answers for it, other nodes NOT_COORDINATOR for each partition.
//   - Without a group, topics, or partitions of any topic the answer is empty.

const initializeShareGroupStateKey = 83

func init() {
	handlers[initializeShareGroupStateKey] = writing(locked((*Cluster).initializeShareGroupState))
}

func (c *Cluster) initializeShareGroupState(r *request, q *kmsg.InitializeShareGroupStateRequest) kmsg.Response {
	p := response[*kmsg.InitializeShareGroupStateResponse](q)
	if namesNoShareState(q.GroupID, q.Topics, func(t *kmsg.InitializeShareGroupStateRequestTopic) int { return len(t.Partitions) }) {
		return p
	}
	for i := range q.Topics {
		topic := kmsg.NewInitializeShareGroupStateResponseTopic()
		topic.TopicID = q.Topics[i].TopicID
		for _, asked := range q.Topics[i].Partitions {
			k := sharecoordinator.Key{Group: q.GroupID, Topic: topic.TopicID, Partition: asked.Partition}
			e := kmsg.NewInitializeShareGroupStateResponseTopicPartition()
			e.Partition = asked.Partition
			e.ErrorCode, e.ErrorMessage = c.shareState(r, "initialize share group state", k, func() (sharecoordinator.Record, *sharecoordinator.Refusal) {
				return c.share.coordinator.Initialize(c.now(), k, asked.StateEpoch, asked.StartOffset)
			})
			topic.Partitions = append(topic.Partitions, e)
		}
		p.Topics = append(p.Topics, topic)
	}
	return p
}
