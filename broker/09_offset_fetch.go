package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/protocol/errorcode"
)

// OffsetFetch (9), v1 to v10.
//
// Behaviour: package coordinator.
//   - An unknown group, topic or partition, and one without an offset, is offset -1 without error.
//   - v8+ asks for several groups; those of another node are NOT_COORDINATOR. v10 names topics by id.

const offsetFetchKey = 9

func init() {
	handlers[offsetFetchKey] = needing(locked((*Cluster).offsetFetch),
		onOne(acl.Describe, acl.Group, func(q *kmsg.OffsetFetchRequest) string { return q.Group }, fault.Partition).when(before(8)),
		onEach(acl.Describe, acl.Group, fault.Group).when(since(8)),
		looksItself(acl.Describe, acl.Topic, "each partition; of all topics, those without are left out"),
	)
}

func (c *Cluster) offsetFetch(r *request, q *kmsg.OffsetFetchRequest) kmsg.Response {
	if q.Version < 8 {
		if code := c.notCoordinating(r.node, q.Group); code != errorcode.None {
			return notCoordinatedOffsets(q, code)
		}
		return c.groups.coordinator.OffsetFetch(c.caller(r), q)
	}
	here := make([]kmsg.OffsetFetchRequestGroup, 0, len(q.Groups))
	var elsewhere []kmsg.OffsetFetchResponseGroup
	for _, g := range q.Groups {
		if code := c.notCoordinating(r.node, g.Group); code == errorcode.None {
			here = append(here, g)
		} else {
			entry := kmsg.NewOffsetFetchResponseGroup()
			entry.Group, entry.ErrorCode = g.Group, code
			elsewhere = append(elsewhere, entry)
		}
	}
	q.Groups = here
	p := c.groups.coordinator.OffsetFetch(c.caller(r), q)
	p.Groups = append(p.Groups, elsewhere...)
	return p
}

// notCoordinatedOffsets is the answer up to v7 where another node coordinates the group: v1 has room for the error in partitions only.
func notCoordinatedOffsets(q *kmsg.OffsetFetchRequest, code int16) kmsg.Response {
	p := response[*kmsg.OffsetFetchResponse](q)
	if q.Version >= 2 {
		p.ErrorCode = code
		return p
	}
	for _, t := range q.Topics {
		entry := kmsg.NewOffsetFetchResponseTopic()
		entry.Topic = t.Topic
		for _, index := range t.Partitions {
			e := kmsg.NewOffsetFetchResponseTopicPartition()
			e.Partition, e.Offset, e.ErrorCode = index, -1, code
			entry.Partitions = append(entry.Partitions, e)
		}
		p.Topics = append(p.Topics, entry)
	}
	return p
}
