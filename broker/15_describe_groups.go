package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
	"kshare/fault"
	"kshare/protocol/errorcode"
)

// DescribeGroups (15), v0 to v6.
//
// Behaviour: package coordinator.
//   - An unknown group, and one of another type, is Dead: without error up to v5, with GROUP_ID_NOT_FOUND from v6 on.
//   - Groups of another node are NOT_COORDINATOR.

const describeGroupsKey = 15

func init() {
	handlers[describeGroupsKey] = needing(locked((*Cluster).describeGroups),
		onEach(acl.Describe, acl.Group, fault.Group),
	)
}

func (c *Cluster) describeGroups(r *request, q *kmsg.DescribeGroupsRequest) kmsg.Response {
	here, elsewhere := c.splitGroups(r.node, q.Groups)
	q.Groups = here
	p := c.groups.coordinator.DescribeGroups(c.caller(r), q)
	for _, g := range elsewhere {
		entry := kmsg.NewDescribeGroupsResponseGroup()
		entry.Group, entry.ErrorCode = g.group, g.code
		p.Groups = append(p.Groups, entry)
	}
	return p
}

// groupElsewhere is a group that a node does not coordinate, and why.
type groupElsewhere struct {
	group string
	code  int16
}

// splitGroups divides groups into those that a node coordinates and the others.
func (c *Cluster) splitGroups(n *node, groups []string) (here []string, elsewhere []groupElsewhere) {
	here = make([]string, 0, len(groups))
	for _, group := range groups {
		if code := c.notCoordinating(n, group); code == errorcode.None {
			here = append(here, group)
		} else {
			elsewhere = append(elsewhere, groupElsewhere{group, code})
		}
	}
	return here, elsewhere
}

// caller is who sent a request, as the group coordinator wants to know it.
func (c *Cluster) caller(r *request) coordinator.Caller {
	caller := coordinator.Caller{ClientID: r.header.ClientID, ClientHost: r.conn.clientHost(), Version: r.header.Version, Token: r}
	if c.authorizer != nil {
		caller.Auth = groupAuthorizer{r}
	}
	return caller
}

// groupAuthorizer implements coordinator.Authorizer for a request.
type groupAuthorizer struct{ request *request }

func (a groupAuthorizer) Allowed(op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool {
	return a.request.may(acl.Operation(op), acl.ResourceType(kind), name)
}
