package broker

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
	"kshare/fault"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
)

// DeleteGroups (42), v0 to v3.
//
// Behaviour: package coordinator.
//   - A group with members is NON_EMPTY_GROUP, an unknown one GROUP_ID_NOT_FOUND. A share group's state goes with it.
//   - Waits for share coordinators that are not there as AlterShareGroupOffsets does; a share group whose state they keep stays where they do not come: COORDINATOR_NOT_AVAILABLE.
//   - Groups of another node are NOT_COORDINATOR.

const deleteGroupsKey = 42

func init() {
	handlers[deleteGroupsKey] = needing(writing(locked((*Cluster).deleteGroups)),
		onEach(acl.Delete, acl.Group, fault.Group),
	)
}

func (c *Cluster) deleteGroups(r *request, q *kmsg.DeleteGroupsRequest) kmsg.Response {
	return c.tryToDeleteGroups(r, q, 1)
}

func (c *Cluster) tryToDeleteGroups(r *request, q *kmsg.DeleteGroupsRequest, attempts int) kmsg.Response {
	here, elsewhere := c.splitGroups(r.node, q.Groups)
	lost := slices.DeleteFunc(slices.Clone(here), c.canDeleteShareState)
	if len(lost) > 0 {
		if attempts < shareWriteAttempts {
			r.again(shareWriteBackoff<<(attempts-1), func() kmsg.Response { return c.tryToDeleteGroups(r, q, attempts+1) })
			return nil
		}
		here = slices.DeleteFunc(here, func(group string) bool { return slices.Contains(lost, group) })
		slices.Sort(lost)
		for _, group := range slices.Compact(lost) {
			elsewhere = append(elsewhere, groupElsewhere{group, errorcode.CoordinatorNotAvailable})
		}
	}
	q.Groups = here
	p := callGroups(c, r, q, withoutTime(func(g *coordinator.Groups, by coordinator.Caller, q *kmsg.DeleteGroupsRequest, e *coordinator.Effects) *kmsg.DeleteGroupsResponse {
		for _, group := range lost {
			g.ShareStateLost(group, e)
		}
		return g.DeleteGroups(by, q, e)
	}))
	if deleted, ok := p.(*kmsg.DeleteGroupsResponse); ok {
		for _, g := range elsewhere {
			entry := kmsg.NewDeleteGroupsResponseGroup()
			entry.Group, entry.ErrorCode = g.group, g.code
			deleted.Groups = append(deleted.Groups, entry)
		}
	}
	return p
}

// canDeleteShareState tells whether the share coordinators are there that a group's deletion needs.
func (c *Cluster) canDeleteShareState(group string) bool {
	return !slices.ContainsFunc(c.groups.coordinator.ShareStateToDelete(group), func(t coordinator.ShareStateTopic) bool {
		return slices.ContainsFunc(t.Partitions, func(p coordinator.ShareStatePartition) bool {
			return !c.hasShareCoordinator(sharecoordinator.Key{Group: group, Topic: t.ID, Partition: p.Partition})
		})
	})
}

// withoutTime makes a call of one that does not ask for the time.
func withoutTime[Q kmsg.Request, R kmsg.Response](f func(*coordinator.Groups, coordinator.Caller, Q, *coordinator.Effects) R) groupCall[Q, R] {
	return func(g *coordinator.Groups, _ time.Time, caller coordinator.Caller, q Q, e *coordinator.Effects) R {
		return f(g, caller, q, e)
	}
}
