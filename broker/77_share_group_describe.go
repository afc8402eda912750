package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
)

// ShareGroupDescribe (77), v1.
//
// Behaviour: package coordinator.
//   - Groups of another type and unknown ones are GROUP_ID_NOT_FOUND, those of another node NOT_COORDINATOR.

const shareGroupDescribeKey = 77

func init() {
	handlers[shareGroupDescribeKey] = needing(locked((*Cluster).shareGroupDescribe),
		onEach(acl.Describe, acl.Group, fault.Group),
		looksItself(acl.Describe, acl.Topic, "each topic of the members, of whom nothing is told without"),
	)
}

func (c *Cluster) shareGroupDescribe(r *request, q *kmsg.ShareGroupDescribeRequest) kmsg.Response {
	here, elsewhere := c.splitGroups(r.node, q.GroupIDs)
	q.GroupIDs = here
	p := c.groups.coordinator.ShareGroupDescribe(c.caller(r), q)
	for _, g := range elsewhere {
		entry := kmsg.NewShareGroupDescribeResponseGroup()
		message := coordinatorMessage(g.code)
		entry.GroupID, entry.ErrorCode, entry.ErrorMessage = g.group, g.code, &message
		p.Groups = append(p.Groups, entry)
	}
	return p
}
