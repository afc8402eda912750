package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListGroups (16), v0 to v5.
//
// Behaviour: package coordinator.
//   - A node lists the groups that it coordinates. Filters by state (v4) and type (v5) look at no case.

const listGroupsKey = 16

func init() { handlers[listGroupsKey] = locked((*Cluster).listGroups) }

func (c *Cluster) listGroups(r *request, q *kmsg.ListGroupsRequest) kmsg.Response {
	p := c.groups.coordinator.ListGroups(c.caller(r), q)
	here := p.Groups[:0]
	for _, g := range p.Groups {
		if c.coordinates(r.node, g.Group) {
			here = append(here, g)
		}
	}
	p.Groups = here
	return p
}
