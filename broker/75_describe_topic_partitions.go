package broker

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator/assignor"
	"kshare/protocol/errorcode"
)

// DescribeTopicPartitions (75), v0.
//
// Behaviour (DescribeTopicPartitionsRequestHandler):
//   - Topics in the order of their names, all of them where none is named. Unknown ones only where they were named.
//   - At most ResponsePartitionLimit partitions, itself at most max.request.partition.size.limit and at least 1; the rest is
//     left to the next request, whose Cursor is this answer's NextCursor.
//   - A cursor whose topic is not among the named ones, or with a negative partition, is INVALID_REQUEST.

const describeTopicPartitionsKey = 75

func init() {
	handlers[describeTopicPartitionsKey] = needing(locked((*Cluster).describeTopicPartitions),
		looksItself(acl.Describe, acl.Topic, "each topic that is named, whether it exists or not; of all topics, those without are left out"),
	)
}

func (c *Cluster) describeTopicPartitions(r *request, q *kmsg.DescribeTopicPartitionsRequest) kmsg.Response {
	p := response[*kmsg.DescribeTopicPartitionsResponse](q)
	all := len(q.Topics) == 0
	names := map[string]bool{}
	for _, t := range q.Topics {
		names[t.Topic] = true
	}
	if all {
		for name := range c.topics {
			names[name] = r.may(acl.Describe, acl.Topic, name)
		}
		maps.DeleteFunc(names, func(_ string, may bool) bool { return !may })
	}
	from := int32(0)
	if q.Cursor != nil {
		if q.Cursor.Partition < 0 || !all && !names[q.Cursor.Topic] {
			refuse(p, errorcode.InvalidRequest, "")
			for _, name := range slices.Sorted(maps.Keys(names)) {
				entry := undescribedTopic(name, errorcode.InvalidRequest, noOperations)
				p.Topics = append(p.Topics, entry)
			}
			return p
		}
		from = q.Cursor.Partition
	}
	var forbidden []string // behind the others, out of a java.util.HashSet
	defer func() {
		for _, name := range assignor.StringOrder(forbidden) {
			p.Topics = append(p.Topics, undescribedTopic(name, errorcode.TopicAuthorizationFailed, noOperations))
		}
	}()
	left := max(1, min(int(q.ResponsePartitionLimit), int(c.brokerInt("max.request.partition.size.limit"))))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		start := int32(0)
		if q.Cursor != nil {
			if name < q.Cursor.Topic {
				continue
			}
			if name == q.Cursor.Topic {
				start = from
			}
		}
		if !all && name != "" && !r.may(acl.Describe, acl.Topic, name) {
			forbidden = append(forbidden, name)
			continue
		}
		t := c.topics[name]
		if t == nil {
			if code := errorcode.UnknownTopicOrPartition; !all {
				if invalidTopicName(name) != "" {
					code = errorcode.InvalidTopicException
				}
				entry := undescribedTopic(name, code, r.operations(acl.Topic, name))
				if name == "" { // fails where Apache Kafka looks for the rights
					entry.ErrorCode, entry.AuthorizedOperations = errorcode.UnknownServerError, noOperations
				}
				p.Topics = append(p.Topics, entry)
			}
			continue
		}
		if left == 0 {
			p.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: start}
			return p
		}
		entry, next := describedTopic(t, start, left)
		entry.AuthorizedOperations = r.operations(acl.Topic, name)
		p.Topics = append(p.Topics, entry)
		left -= len(entry.Partitions)
		if next < int32(len(t.partitions)) {
			p.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: next}
			return p
		}
	}
	return p
}

// undescribedTopic is the entry of a topic that cannot be described.
func undescribedTopic(name string, code int16, operations int32) kmsg.DescribeTopicPartitionsResponseTopic {
	entry := kmsg.NewDescribeTopicPartitionsResponseTopic()
	entry.Topic, entry.ErrorCode, entry.IsInternal, entry.AuthorizedOperations = kmsg.StringPtr(name), code, isInternal(name), operations
	return entry
}

// describedTopic is the entry of a topic with up to limit partitions from start on, and the partition after them.
func describedTopic(t *topic, start int32, limit int) (kmsg.DescribeTopicPartitionsResponseTopic, int32) {
	entry := kmsg.NewDescribeTopicPartitionsResponseTopic()
	entry.Topic, entry.TopicID, entry.IsInternal = &t.name, t.id, isInternal(t.name)
	next := start
	for ; next < int32(len(t.partitions)) && len(entry.Partitions) < limit; next++ {
		p := t.partitions[next]
		e := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		e.Partition, e.LeaderID, e.LeaderEpoch, e.Replicas, e.ISR, e.OfflineReplicas = p.index, p.leader, p.leaderEpoch, p.replicas, p.isr, p.offline()
		e.EligibleLeaderReplicas, e.LastKnownELR = append([]int32{}, p.elr...), []int32{}
		if p.leader == noLeader { // which is no error here
			e.LastKnownELR = append(e.LastKnownELR, p.lastLeader)
		}
		entry.Partitions = append(entry.Partitions, e)
	}
	return entry, next
}
