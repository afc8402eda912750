package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// OffsetFetch (9), v1 to v10.
//
// Behaviour: package coordinator.
//   - An unknown group, topic or partition, and one without an offset, is offset -1 without error.
//   - v8+ asks for several groups; those of another node are NOT_COORDINATOR. v10 names topics by id.

const offsetFetchKey = 9

func init() { handlers[offsetFetchKey] = locked((*Cluster).offsetFetch) }

func (c *Cluster) offsetFetch(r *request, q *kmsg.OffsetFetchRequest) kmsg.Response {
	if q.Version < 8 {
		if !c.coordinates(r.node, q.Group) {
			return notCoordinatedOffsets(q)
		}
		return c.groups.coordinator.OffsetFetch(c.caller(r), q)
	}
	here := make([]kmsg.OffsetFetchRequestGroup, 0, len(q.Groups))
	var elsewhere []string
	for _, g := range q.Groups {
		if c.coordinates(r.node, g.Group) {
			here = append(here, g)
		} else {
			elsewhere = append(elsewhere, g.Group)
		}
	}
	q.Groups = here
	p := c.groups.coordinator.OffsetFetch(c.caller(r), q)
	for _, group := range elsewhere {
		entry := kmsg.NewOffsetFetchResponseGroup()
		entry.Group, entry.ErrorCode = group, errorcode.NotCoordinator
		p.Groups = append(p.Groups, entry)
	}
	return p
}

// notCoordinatedOffsets is the answer up to v7 where another node coordinates the group: v1 has room for the error in partitions only.
func notCoordinatedOffsets(q *kmsg.OffsetFetchRequest) kmsg.Response {
	p := response[*kmsg.OffsetFetchResponse](q)
	if q.Version >= 2 {
		p.ErrorCode = errorcode.NotCoordinator
		return p
	}
	for _, t := range q.Topics {
		entry := kmsg.NewOffsetFetchResponseTopic()
		entry.Topic = t.Topic
		for _, index := range t.Partitions {
			e := kmsg.NewOffsetFetchResponseTopicPartition()
			e.Partition, e.Offset, e.ErrorCode = index, -1, errorcode.NotCoordinator
			entry.Partitions = append(entry.Partitions, e)
		}
		p.Topics = append(p.Topics, entry)
	}
	return p
}
