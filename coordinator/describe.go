package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/internal/javamap"
	"kshare/protocol/errorcode"
)

const (
	describeHasOperations = 3
	describeSaysNotFound  = 6
	stateDead             = "Dead"
)

// ListGroups (key 16, versions 0 to 5) lists the groups in the order of their ids. Who may not describe the
// cluster sees only the groups that it may describe.
func (g *Groups) ListGroups(c Caller, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	resp := kmsg.NewPtrListGroupsResponse()
	resp.Version = c.Version
	all := c.allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeCluster, "kafka-cluster")
	for _, gr := range g.sorted() {
		if !filtered(req.StatesFilter, gr.state()) || !filtered(req.TypesFilter, string(gr.kind())) {
			continue
		}
		if !all && !c.allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeGroup, gr.id()) {
			continue
		}
		x := kmsg.NewListGroupsResponseGroup()
		x.Group, x.ProtocolType, x.GroupState, x.GroupType = gr.id(), gr.protocolType(), gr.state(), string(gr.kind())
		resp.Groups = append(resp.Groups, x)
	}
	return resp
}

// filtered reports whether a filter names a value in any case, or nothing.
func filtered(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}

// DescribeGroups (key 15, versions 0 to 6) describes classic groups. Any other is Dead, which only version 6
// calls an error.
func (g *Groups) DescribeGroups(c Caller, req *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Version = c.Version
	for _, id := range g.answerOrder(req.Groups) {
		x := g.describeClassic(c, id)
		if c.Version >= describeHasOperations && req.IncludeAuthorizedOperations && x.ErrorCode == errorcode.None {
			x.AuthorizedOperations = c.authorizedOperations(id)
		}
		resp.Groups = append(resp.Groups, x)
	}
	return resp
}

func (g *Groups) describeClassic(c Caller, id string) kmsg.DescribeGroupsResponseGroup {
	x := kmsg.NewDescribeGroupsResponseGroup()
	x.Group, x.AuthorizedOperations = id, noOperations
	if !c.allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeGroup, id) {
		x.ErrorCode = errorcode.GroupAuthorizationFailed
		return x
	}
	cg, ok := g.groups[id].(*classicGroup)
	if !ok {
		x.State = stateDead
		if c.Version >= describeSaysNotFound {
			message := g.notFound(id, classicType)
			x.ErrorCode, x.ErrorMessage = errorcode.GroupIDNotFound, &message
		}
		return x
	}
	x.State, x.ProtocolType = cg.state(), cg.protocols
	if cg.current == classicStable {
		x.Protocol = cg.protocol
	}
	for _, m := range cg.ordered() {
		y := kmsg.NewDescribeGroupsResponseGroupMember()
		y.MemberID, y.InstanceID, y.ClientID, y.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		y.MemberAssignment = m.assignment
		if cg.current == classicStable {
			y.ProtocolMetadata, _ = m.metadata(cg.protocol)
		}
		x.Members = append(x.Members, y)
	}
	return x
}

// notFound says that there is no group of a type under an id.
func (g *Groups) notFound(id string, kind groupType) string {
	if g.groups[id] == nil {
		return fmt.Sprintf("Group %s not found.", id)
	}
	return fmt.Sprintf("Group %s is not a %s group.", id, kind)
}

// DeleteGroups (key 42, versions 0 to 3) removes groups without members, their offsets included. A group that
// is named twice is answered once.
func (g *Groups) DeleteGroups(c Caller, req *kmsg.DeleteGroupsRequest, e *Effects) *kmsg.DeleteGroupsResponse {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Version = c.Version
	seen := map[string]bool{}
	for _, id := range g.answerOrder(req.Groups) {
		if seen[id] {
			continue
		}
		seen[id] = true
		x := kmsg.NewDeleteGroupsResponseGroup()
		x.Group, x.ErrorCode = id, g.deleteGroup(c, id, e)
		resp.Groups = append(resp.Groups, x)
	}
	return resp
}

func (g *Groups) deleteGroup(c Caller, id string, e *Effects) int16 {
	if !c.allowed(kmsg.ACLOperationDelete, kmsg.ACLResourceTypeGroup, id) {
		return errorcode.GroupAuthorizationFailed
	}
	gr := g.groups[id]
	if gr == nil {
		return errorcode.GroupIDNotFound
	}
	if code := gr.checkDelete(); code != errorcode.None {
		return code
	}
	g.deleteGroupOffsets(id, e)
	g.removeGroup(gr, e)
	return errorcode.None
}

// removeGroup forgets a group without members and records that.
func (g *Groups) removeGroup(gr group, e *Effects) {
	gr.tombstones(e)
	g.forget(gr.id())
}

// answerOrder is the order in which Kafka answers for several groups: those without a name first, which no coordinator is asked for,
// then the others by their partitions of __consumer_offsets, as a java.util.HashMap with TopicPartitions as keys lists them.
// Source: GroupCoordinatorService.
func (g *Groups) answerOrder(ids []string) []string {
	const topic = "__consumer_offsets"
	var partitions []int32
	for _, id := range ids {
		if id != "" {
			partitions = append(partitions, g.PartitionFor(id))
		}
	}
	partitions = javamap.OrderOfPut(partitions, func(p int32) int32 { return 31*(31+p) + javamap.String(topic) })
	place := map[int32]int{}
	for i, p := range partitions {
		place[p] = i
	}
	at := func(id string) int {
		if id == "" {
			return -1
		}
		return place[g.PartitionFor(id)]
	}
	ordered := slices.Clone(ids)
	slices.SortStableFunc(ordered, func(a, b string) int { return cmp.Compare(at(a), at(b)) })
	return ordered
}
