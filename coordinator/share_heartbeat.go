package coordinator

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// shareMemberIDMax is the longest member id, in UTF-16 units: that of a UUID.
const shareMemberIDMax = 36

// ShareGroupHeartbeat (key 76, version 1) joins, keeps and leaves share groups. Partitions are assigned once
// they have state, which e.Share asks the share coordinator for; its answer goes to
// [Groups.ShareStateInitialized] or [Groups.ShareStateFailed].
//
// With an assignment interval of 0 a caller that initialises at once can answer the partitions at once: it
// repeats the request with the epoch answered before.
func (g *Groups) ShareGroupHeartbeat(now time.Time, c Caller, req *kmsg.ShareGroupHeartbeatRequest, e *Effects) *kmsg.ShareGroupHeartbeatResponse {
	resp, fail := g.shareHeartbeat(now, c, req, e)
	if fail != nil {
		resp = kmsg.NewPtrShareGroupHeartbeatResponse()
		resp.ErrorCode, resp.ErrorMessage = fail.code, fail.text()
	}
	resp.Version = c.Version
	return resp
}

func (g *Groups) shareHeartbeat(now time.Time, c Caller, req *kmsg.ShareGroupHeartbeatRequest, e *Effects) (*kmsg.ShareGroupHeartbeatResponse, *failure) {
	switch {
	case !g.config.ShareEnabled:
		return nil, &failure{code: errorcode.UnsupportedVersion}
	case !c.allowed(kmsg.ACLOperationRead, kmsg.ACLResourceTypeGroup, req.GroupID):
		return nil, &failure{code: errorcode.GroupAuthorizationFailed}
	case req.MemberID == "" || utf16Len(req.MemberID) > shareMemberIDMax:
		return nil, &failure{code: errorcode.InvalidRequest}
	}
	for _, name := range req.SubscribedTopicNames {
		if !c.allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, name) {
			return nil, &failure{code: errorcode.TopicAuthorizationFailed}
		}
	}
	if fail := checkShareHeartbeat(req); fail != nil {
		return nil, fail
	}
	if req.MemberEpoch == epochLeave {
		return g.shareLeave(req, e)
	}
	sg, ok := g.groups[req.GroupID].(*shareGroup)
	switch {
	case ok:
	case g.groups[req.GroupID] != nil:
		return nil, &failure{errorcode.GroupIDNotFound, g.notFound(req.GroupID, shareType)}
	case req.MemberEpoch != epochJoin:
		return nil, &failure{errorcode.GroupIDNotFound, fmt.Sprintf("Share group %s not found.", req.GroupID)}
	default:
		sg = g.newShareGroup(req.GroupID)
	}
	return sg.heartbeatOf(now, c, req, e)
}

// checkShareHeartbeat checks the fields of a request without regard to any group.
func checkShareHeartbeat(req *kmsg.ShareGroupHeartbeatRequest) *failure {
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	message := ""
	switch {
	case blank(req.MemberID):
		message = "MemberId can't be empty."
	case blank(req.GroupID):
		message = "GroupId can't be empty."
	case req.RackID != nil && blank(*req.RackID):
		message = "RackId can't be empty."
	case req.MemberEpoch == epochJoin && len(req.SubscribedTopicNames) == 0:
		message = "SubscribedTopicNames must be set in first request."
	case req.MemberEpoch < epochLeave:
		message = "MemberEpoch is invalid."
	default:
		return nil
	}
	return &failure{errorcode.InvalidRequest, message}
}

func (g *Groups) shareLeave(req *kmsg.ShareGroupHeartbeatRequest, e *Effects) (*kmsg.ShareGroupHeartbeatResponse, *failure) {
	sg, ok := g.groups[req.GroupID].(*shareGroup)
	if !ok {
		return nil, &failure{errorcode.GroupIDNotFound, g.notFound(req.GroupID, shareType)}
	}
	if sg.members[req.MemberID] == nil {
		return nil, sg.unknownMember(req.MemberID)
	}
	sg.fence(req.MemberID, e)
	resp := kmsg.NewPtrShareGroupHeartbeatResponse()
	resp.MemberID, resp.MemberEpoch = &req.MemberID, epochLeave
	return resp, nil
}

func (sg *shareGroup) unknownMember(id string) *failure {
	return &failure{errorcode.UnknownMemberID, fmt.Sprintf("Member %s is not a member of group %s.", id, sg.name)}
}

// heartbeatOf takes in what a member says of itself and gives it its target. The group is known from the moment
// that nothing can fail any more.
func (sg *shareGroup) heartbeatOf(now time.Time, c Caller, req *kmsg.ShareGroupHeartbeatRequest, e *Effects) (*kmsg.ShareGroupHeartbeatResponse, *failure) {
	before, known := sg.members[req.MemberID]
	if limit := sg.g.config.ShareMaxSize; !known && len(sg.members) >= limit {
		return nil, &failure{errorcode.GroupMaxSizeReached, fmt.Sprintf(
			"The share group has reached its maximum capacity of %d members.", limit)}
	}
	switch {
	case !known && req.MemberEpoch != epochJoin:
		return nil, sg.unknownMember(req.MemberID)
	case !known:
		before = &shareMember{id: req.MemberID}
	case req.MemberEpoch != epochJoin:
		if fail := before.checkEpoch(req.MemberEpoch); fail != nil {
			return nil, fail
		}
	}

	sg.g.put(sg)
	m := *before
	m.clientID, m.clientHost = c.ClientID, c.ClientHost
	if req.RackID != nil {
		m.rack = clonePtr(req.RackID)
	}
	if req.SubscribedTopicNames != nil {
		m.topics = distinct(req.SubscribedTopicNames)
	}
	sg.members[m.id] = &m
	if !known || !m.sameMetadata(before) {
		sg.recordMember(&m, e)
	}
	bump := !sameNames(m.topics, before.topics)
	if (sg.assignmentEpoch >= sg.epoch || sg.g.config.Release.LooksWhileAssigning) && sg.assignmentPending() {
		bump = true
	}
	if sg.stale && topicHash(sg.g.topics, sg.names()) != sg.hash {
		bump = true
	}
	sg.stale = false
	if bump {
		sg.g.shareRebalances++
		sg.bump(e)
	}
	sg.assign(now, e)
	after := sg.reconcile(&m, bump, e)
	sg.beat(now, m.id)
	sg.initialize(now, e)
	return sg.answer(req, before, after), nil
}

// checkEpoch is the failure of a client that has another epoch than its member, and not the one before either.
func (m *shareMember) checkEpoch(epoch int32) *failure {
	switch {
	case epoch > m.epoch:
		return &failure{errorcode.FencedMemberEpoch, fmt.Sprintf(
			"The share group member has a greater member epoch (%d) than the one known by the group coordinator (%d). "+
				"The member must abandon all its partitions and rejoin.", epoch, m.epoch)}
	case epoch < m.epoch && epoch != m.previousEpoch:
		return &failure{errorcode.FencedMemberEpoch, fmt.Sprintf(
			"The share group member has a smaller member epoch (%d) than the one known by the group coordinator (%d), "+
				"and it does not match the previous member epoch (%d). The member must abandon all its partitions and rejoin.",
			epoch, m.epoch, m.previousEpoch)}
	}
	return nil
}

// answer tells a member its assignment if it joined, named its topics or the assignment changed.
func (sg *shareGroup) answer(req *kmsg.ShareGroupHeartbeatRequest, before, after *shareMember) *kmsg.ShareGroupHeartbeatResponse {
	resp := kmsg.NewPtrShareGroupHeartbeatResponse()
	id := after.id
	resp.MemberID, resp.MemberEpoch = &id, after.epoch
	interval := sg.g.groupMillis(sg.name, "share.heartbeat.interval.ms", sg.g.config.ShareHeartbeat)
	resp.HeartbeatIntervalMillis = int32(interval.Milliseconds())
	if req.MemberEpoch != epochJoin && req.SubscribedTopicNames == nil && before.assigned.Equal(after.assigned) {
		return resp
	}
	assignment := kmsg.NewShareGroupHeartbeatResponseAssignment()
	assignment.TopicPartitions = []kmsg.ShareGroupHeartbeatResponseAssignmentTopicPartition{}
	for _, topic := range listed(after.assigned) {
		x := kmsg.NewShareGroupHeartbeatResponseAssignmentTopicPartition()
		x.TopicID, x.Partitions = topic, after.assigned[topic]
		assignment.TopicPartitions = append(assignment.TopicPartitions, x)
	}
	resp.Assignment = &assignment
	return resp
}
