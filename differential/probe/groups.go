package probe

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (w *world) offsetCommit() request {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group, q.Generation = w.group(one(w.rand, simpleGroup, simpleGroup, consumerGroup)), -1
	if q.Group == w.groups[consumerGroup][0] && !w.odds(4) {
		m, s := w.member(consumerGroup)
		q.MemberID, q.Generation = m.id, w.near(s.epoch)
	}
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = w.topic(), w.topicID()
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch = w.partition(), w.offset(), one[int32](w.rand, -1, 0, 1)
	metadata := "m"
	p.Metadata = one(w.rand, nil, &metadata)
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return request{Request: q, least: 5, most: anyVersion} // the oldest without a retention time
}

func (w *world) offsetFetch() request {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Group = w.group(one(w.rand, simpleGroup, simpleGroup, consumerGroup))
	q.RequireStable = w.odds(3)
	name, id, partition := w.topic(), w.topicID(), w.partition()
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = name, []int32{partition}
	q.Topics = append(q.Topics, t)
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = q.Group, -1
	x := kmsg.NewOffsetFetchRequestGroupTopic()
	x.Topic, x.TopicID, x.Partitions = name, id, []int32{partition}
	g.Topics = append(g.Topics, x)
	q.Groups = append(q.Groups, g)
	return of(q)
}

func (w *world) offsetDelete() request {
	q := kmsg.NewPtrOffsetDeleteRequest()
	q.Group = w.group(simpleGroup)
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic = w.topic()
	p := kmsg.NewOffsetDeleteRequestTopicPartition()
	p.Partition = w.partition()
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return of(q)
}

// subscription draws names of topics that are never deleted; nil says that nothing has changed.
func (w *world) subscription(epoch int32) []string {
	if epoch != 0 && !w.odds(5) {
		return nil
	}
	names := slices.Clone(w.stable())
	return names[:1+w.rand.IntN(2)]
}

func (w *world) consumerHeartbeat() request {
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	m, s := w.member(consumerGroup)
	q.Group, q.MemberID, q.MemberEpoch = m.group, m.id, w.near(s.epoch)
	if w.odds(10) {
		q.MemberEpoch = -1 // leaves
	}
	q.RebalanceTimeoutMillis = -1
	q.SubscribedTopicNames = w.subscription(q.MemberEpoch)
	if q.MemberEpoch == 0 {
		q.RebalanceTimeoutMillis = 60000
		q.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	return from(q, m, s)
}

func (w *world) consumerDescribe() request {
	q := kmsg.NewPtrConsumerGroupDescribeRequest()
	q.Groups, q.IncludeAuthorizedOperations = []string{w.group(consumerGroup)}, w.odds(3)
	return of(q)
}

func (w *world) deleteGroups() request {
	q := kmsg.NewPtrDeleteGroupsRequest()
	q.Groups = []string{w.group(one(w.rand, simpleGroup, consumerGroup, shareGroup))}
	return of(q)
}
