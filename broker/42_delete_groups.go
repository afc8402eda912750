package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/coordinator"
)

// DeleteGroups (42), v0 to v3.
//
// Behaviour: package coordinator.
//   - A group with members is NON_EMPTY_GROUP, an unknown one GROUP_ID_NOT_FOUND. A share group's state goes with it.
//   - Groups of another node are NOT_COORDINATOR.

const deleteGroupsKey = 42

func init() { handlers[deleteGroupsKey] = writing(locked((*Cluster).deleteGroups)) }

func (c *Cluster) deleteGroups(r *request, q *kmsg.DeleteGroupsRequest) kmsg.Response {
	here, elsewhere := c.splitGroups(r.node, q.Groups)
	q.Groups = here
	p := callGroups(c, r, q, withoutTime((*coordinator.Groups).DeleteGroups))
	if deleted, ok := p.(*kmsg.DeleteGroupsResponse); ok {
		for _, g := range elsewhere {
			entry := kmsg.NewDeleteGroupsResponseGroup()
			entry.Group, entry.ErrorCode = g.group, g.code
			deleted.Groups = append(deleted.Groups, entry)
		}
	}
	return p
}

// withoutTime makes a call of one that does not ask for the time.
func withoutTime[Q kmsg.Request, R kmsg.Response](f func(*coordinator.Groups, coordinator.Caller, Q, *coordinator.Effects) R) groupCall[Q, R] {
	return func(g *coordinator.Groups, _ time.Time, caller coordinator.Caller, q Q, e *coordinator.Effects) R {
		return f(g, caller, q, e)
	}
}
