package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
)

// ListGroups (16), v0 to v5.
//
// Behaviour: package coordinator.
//   - A node lists the groups that it coordinates. Filters by state (v4) and type (v5) look at no case.
//   - While it loads any of them it lists none: COORDINATOR_LOAD_IN_PROGRESS.

const listGroupsKey = 16

func init() {
	handlers[listGroupsKey] = needing(locked((*Cluster).listGroups),
		looksItself(acl.Describe, acl.Cluster, "or DESCRIBE GROUP, each group; those without are left out").silently(),
	)
}

func (c *Cluster) listGroups(r *request, q *kmsg.ListGroupsRequest) kmsg.Response {
	p := c.groups.coordinator.ListGroups(c.caller(r), q)
	here := p.Groups[:0]
	for _, g := range p.Groups {
		if c.notCoordinating(r.node, g.Group) == errorcode.None {
			here = append(here, g)
		}
	}
	p.Groups = here
	if t := c.topics[consumerOffsetsTopic]; t != nil && slices.ContainsFunc(t.partitions, func(of *partition) bool {
		return of.notCoordinating(r.node) == errorcode.CoordinatorLoadInProgress
	}) {
		p.ErrorCode, p.Groups = errorcode.CoordinatorLoadInProgress, nil
	}
	return p
}
