package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
)

// ConsumerGroupDescribe (69), v0 to v1.
//
// Behaviour: package coordinator.
//   - Groups of another type and unknown ones are GROUP_ID_NOT_FOUND, those of another node NOT_COORDINATOR.

const consumerGroupDescribeKey = 69

func init() {
	handlers[consumerGroupDescribeKey] = needing(locked((*Cluster).consumerGroupDescribe),
		onEach(acl.Describe, acl.Group, fault.Group),
		looksItself(acl.Describe, acl.Topic, "each topic of the members, of whom nothing is told without"),
	)
}

func (c *Cluster) consumerGroupDescribe(r *request, q *kmsg.ConsumerGroupDescribeRequest) kmsg.Response {
	here, elsewhere := c.splitGroups(r.node, q.Groups)
	q.Groups = here
	p := c.groups.coordinator.ConsumerGroupDescribe(c.caller(r), q)
	for _, g := range elsewhere {
		entry := kmsg.NewConsumerGroupDescribeResponseGroup()
		entry.Group, entry.ErrorCode = g.group, g.code
		p.Groups = append(p.Groups, entry)
	}
	return p
}
