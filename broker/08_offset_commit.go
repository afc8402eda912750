package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
	"kshare/fault"
	"kshare/protocol/errorcode"
)

// OffsetCommit (8), v2 to v10.
//
// Behaviour: package coordinator.
//   - Each partition is answered, those that cannot be committed to first. v10 names topics by id.

const offsetCommitKey = 8

func init() {
	handlers[offsetCommitKey] = needing(writing(locked((*Cluster).offsetCommit)),
		onOne(acl.Read, acl.Group, func(q *kmsg.OffsetCommitRequest) string { return q.Group }, fault.Partition),
		looksItself(acl.Read, acl.Topic, "each partition"),
	)
}

func (c *Cluster) offsetCommit(r *request, q *kmsg.OffsetCommitRequest) kmsg.Response {
	code := c.notCoordinating(r.node, q.Group)
	if code == errorcode.None {
		return callGroups(c, r, q, (*coordinator.Groups).OffsetCommit)
	}
	p := response[*kmsg.OffsetCommitResponse](q)
	for _, t := range q.Topics {
		entry := kmsg.NewOffsetCommitResponseTopic()
		entry.Topic, entry.TopicID = t.Topic, t.TopicID
		for _, asked := range t.Partitions {
			e := kmsg.NewOffsetCommitResponseTopicPartition()
			e.Partition, e.ErrorCode = asked.Partition, code
			entry.Partitions = append(entry.Partitions, e)
		}
		p.Topics = append(p.Topics, entry)
	}
	return p
}
