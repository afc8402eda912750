package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// consumerMakesID is the first version of ConsumerGroupHeartbeat in which clients make their member ids.
const consumerMakesID = 1

// ConsumerGroupHeartbeat (key 68, versions 0 and 1) joins, keeps and leaves consumer groups.
func (g *Groups) ConsumerGroupHeartbeat(now time.Time, c Caller, req *kmsg.ConsumerGroupHeartbeatRequest, e *Effects) *kmsg.ConsumerGroupHeartbeatResponse {
	var effects Effects
	resp, fail := g.consumerHeartbeat(now, c, req, &effects)
	if fail != nil {
		resp = kmsg.NewPtrConsumerGroupHeartbeatResponse()
		resp.ErrorCode, resp.ErrorMessage = fail.code, fail.text()
	}
	resp.Version = c.Version
	e.Records = append(e.Records, effects.Records...)
	e.Completed = append(e.Completed, effects.Completed...)
	return resp
}

func (g *Groups) consumerHeartbeat(now time.Time, c Caller, req *kmsg.ConsumerGroupHeartbeatRequest, e *Effects) (*kmsg.ConsumerGroupHeartbeatResponse, *failure) {
	if !g.config.ConsumerProtocolEnabled {
		return nil, &failure{code: errorcode.UnsupportedVersion}
	}
	if !c.allowed(kmsg.ACLOperationRead, kmsg.ACLResourceTypeGroup, req.Group) {
		return nil, &failure{code: errorcode.GroupAuthorizationFailed}
	}
	for _, name := range req.SubscribedTopicNames {
		if !c.allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, name) {
			return nil, &failure{code: errorcode.TopicAuthorizationFailed}
		}
	}
	if fail := g.checkConsumerHeartbeat(c.Version, req); fail != nil {
		return nil, fail
	}
	if req.MemberEpoch < epochJoin {
		return g.consumerLeave(now, req, e)
	}
	cg, fail := g.consumerGroupFor(req)
	if fail != nil {
		return nil, fail
	}
	if req.MemberID == "" {
		req.MemberID = g.newKafkaUUID()
	}
	return cg.heartbeatOf(now, c, req, e)
}

// checkConsumerHeartbeat checks the fields of a request without regard to any group.
func (g *Groups) checkConsumerHeartbeat(version int16, req *kmsg.ConsumerGroupHeartbeatRequest) *failure {
	blank := func(s *string) bool { return s != nil && strings.TrimSpace(*s) == "" }
	bad := func(message string) *failure { return &failure{errorcode.InvalidRequest, message} }
	needsID := version >= consumerMakesID || req.MemberEpoch > epochJoin || req.MemberEpoch == epochLeave
	switch {
	case needsID && blank(&req.MemberID):
		return bad("MemberId can't be empty.")
	case blank(&req.Group):
		return bad("GroupId can't be empty.")
	case blank(req.InstanceID):
		return bad("InstanceId can't be empty.")
	case blank(req.RackID):
		return bad("RackId can't be empty.")
	}
	switch {
	case req.MemberEpoch == epochJoin && req.RebalanceTimeoutMillis == -1:
		return bad("RebalanceTimeoutMs must be provided in first request.")
	case req.MemberEpoch == epochJoin && (req.Topics == nil || len(req.Topics) > 0):
		return bad("TopicPartitions must be empty when (re-)joining.")
	case req.MemberEpoch == epochJoin && req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
		return bad("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	case req.MemberEpoch == epochLeaveStatic && req.InstanceID == nil:
		return bad("InstanceId can't be null.")
	case req.MemberEpoch < epochLeaveStatic:
		return bad("MemberEpoch is invalid.")
	}
	if a := req.ServerAssignor; a != nil && !slices.Contains(g.config.ConsumerAssignors, *a) {
		return &failure{errorcode.UnsupportedAssignor, fmt.Sprintf(
			"ServerAssignor %s is not supported. Supported assignors: %s.", *a, strings.Join(g.config.ConsumerAssignors, ", "))}
	}
	return nil
}

// consumerGroupFor finds the group of a request that joins or stays; one that joins makes it if there is none,
// or of a classic group.
func (g *Groups) consumerGroupFor(req *kmsg.ConsumerGroupHeartbeatRequest) (*consumerGroup, *failure) {
	joins := req.MemberEpoch == epochJoin
	switch gr := g.groups[req.Group].(type) {
	case nil:
		if joins {
			return g.newConsumerGroup(req.Group), nil
		}
		return nil, &failure{errorcode.GroupIDNotFound, fmt.Sprintf("Consumer group %s not found.", req.Group)}
	case *consumerGroup:
		return gr, nil
	case *classicGroup:
		if joins {
			return g.upgraded(gr)
		}
	}
	return nil, &failure{errorcode.GroupIDNotFound, g.notFound(req.Group, consumerType)}
}

// consumerLeave removes a member or, with epoch -2, keeps the place of a static one until its session ends.
func (g *Groups) consumerLeave(now time.Time, req *kmsg.ConsumerGroupHeartbeatRequest, e *Effects) (*kmsg.ConsumerGroupHeartbeatResponse, *failure) {
	cg, ok := g.groups[req.Group].(*consumerGroup)
	if !ok {
		return nil, &failure{errorcode.GroupIDNotFound, g.notFound(req.Group, consumerType)}
	}
	m, fail := cg.member(req.MemberID, req.InstanceID)
	if fail != nil {
		return nil, fail
	}
	if req.MemberEpoch == epochLeaveStatic {
		away := m.clone()
		away.epoch, away.revoking, away.assigned = epochLeaveStatic, owned{}, m.assigned.clone()
		for _, ps := range away.assigned {
			for p := range ps {
				ps[p] = 0
			}
		}
		cg.set(away)
		cg.recordCurrent(away, e)
	} else {
		cg.fence(now, []string{m.id}, e)
	}
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.MemberID, resp.MemberEpoch = &req.MemberID, req.MemberEpoch
	return resp, nil
}

// member is the member that a request names, by its instance if it has one.
func (cg *consumerGroup) member(id string, instance *string) (*consumerMember, *failure) {
	if instance == nil {
		if m := cg.members[id]; m != nil {
			return m, nil
		}
		return nil, &failure{errorcode.UnknownMemberID, fmt.Sprintf("Member %s is not a member of group %s.", id, cg.name)}
	}
	m := cg.staticMember(*instance)
	switch {
	case m == nil:
		return nil, &failure{errorcode.UnknownMemberID, fmt.Sprintf("Instance id %s is unknown.", *instance)}
	case m.id != id:
		return nil, &failure{errorcode.FencedInstanceID, fmt.Sprintf(
			"Static member %s with instance id %s was fenced by member %s.", id, *instance, m.id)}
	}
	return m, nil
}

// heartbeatOf takes in what a member says of itself. The group is known from the moment that nothing can fail any
// more.
func (cg *consumerGroup) heartbeatOf(now time.Time, c Caller, req *kmsg.ConsumerGroupHeartbeatRequest, e *Effects) (*kmsg.ConsumerGroupHeartbeatResponse, *failure) {
	if fail := cg.full(req.MemberID, req.InstanceID); fail != nil {
		return nil, fail
	}
	before, replaces, fail := cg.heartbeating(req)
	if fail != nil {
		return nil, fail
	}
	m := before.clone()
	m.say(c, req)
	if cg.newPattern(before, m) {
		if _, fail := compileRegex(m.pattern()); fail != nil {
			return nil, fail
		}
	}
	return cg.answer(req, before, cg.update(now, c, before, m, replaces, req.Topics, e)), nil
}

// newPattern reports whether a member is the first to subscribe to its regular expression.
func (cg *consumerGroup) newPattern(before, m *consumerMember) bool {
	return m.pattern() != "" && m.pattern() != before.pattern() && cg.regexCounts()[m.pattern()] == 0
}

// update takes in a member as it has become and brings it nearer to its target. Nothing can fail any more. replaces
// is the member whose instance it takes over, before then being a copy of that under the new id.
func (cg *consumerGroup) update(now time.Time, c Caller, before, m, replaces *consumerMember, owns ownedTopics, e *Effects) *consumerMember {
	if cg.converts != nil {
		cg.convert(now, e)
	}
	cg.g.put(cg)
	newPattern, regexes, assignorBefore := cg.newPattern(before, m), cg.regexState(), cg.preferredAssignor()
	if replaces != nil {
		cg.replace(replaces, before, e)
	}
	_, known := cg.members[m.id]
	cg.set(m)
	if !known || !m.sameMetadata(before) {
		cg.recordMember(m, e)
	}
	resubscribed := !sameNames(m.topics, before.topics)
	bump := resubscribed || cg.preferredAssignor() != assignorBefore
	if old := before.pattern(); m.pattern() != old {
		resubscribed = true
		if old != "" && cg.regexCounts()[old] == 0 {
			cg.forgetRegex(old, e)
		}
		bump = bump || m.pattern() == "" || cg.regexes[m.pattern()] != nil
	}
	if bump || cg.stale && topicHash(cg.g.topics, cg.names()) != cg.hash {
		cg.bump(e)
	}
	cg.stale = false
	due := cg.resolveDue(now, regexes, newPattern)
	if due && cg.g.config.ConsumerAssignmentInterval == 0 {
		// Where nothing waits, neither does the answer for topics that match.
		due = false
		cg.resolve(now, c, e)
	}
	cg.assign(now, e)
	after := cg.reconcile(now, m, resubscribed, owns, e)
	cg.beat(now, after)
	if due {
		cg.resolve(now, c, e)
	}
	return after
}

// full is the failure of a new member of a group that has no room.
func (cg *consumerGroup) full(id string, instance *string) *failure {
	limit := cg.g.config.ConsumerMaxSize
	if len(cg.members) < limit || cg.members[id] != nil || instance != nil && cg.staticMember(*instance) != nil {
		return nil
	}
	return &failure{errorcode.GroupMaxSizeReached, fmt.Sprintf(
		"The consumer group has reached its maximum capacity of %d members.", limit)}
}

// heartbeating is the member of a request as it was before, a blank one if it is new. replaces is the member
// whose instance it takes over.
func (cg *consumerGroup) heartbeating(req *kmsg.ConsumerGroupHeartbeatRequest) (m, replaces *consumerMember, fail *failure) {
	joins := req.MemberEpoch == epochJoin
	if req.InstanceID != nil && joins {
		old := cg.staticMember(*req.InstanceID)
		switch {
		case old == nil:
			return cg.memberOrNew(req.MemberID), nil, nil
		case old.classic == nil && old.epoch != epochLeaveStatic:
			return nil, nil, &failure{errorcode.UnreleasedInstanceID, fmt.Sprintf(
				"Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.",
				req.MemberID, *req.InstanceID, old.id)}
		}
		taken := old.clone()
		taken.id, taken.epoch, taken.previousEpoch = req.MemberID, 0, 0
		return taken, old, nil
	}
	if joins {
		return cg.memberOrNew(req.MemberID), nil, nil
	}
	if m, fail = cg.member(req.MemberID, req.InstanceID); fail != nil {
		return nil, nil, fail
	}
	return m, nil, m.checkEpoch(req.MemberEpoch, req.Topics)
}

func (cg *consumerGroup) memberOrNew(id string) *consumerMember {
	if m := cg.members[id]; m != nil {
		return m
	}
	return &consumerMember{id: id, rebalanceTimeoutMs: -1}
}

// checkEpoch is the failure of a client that has another epoch than its member. One that missed the last answer
// may come with the epoch before, if it owns no more than it is assigned.
func (m *consumerMember) checkEpoch(epoch int32, owns ownedTopics) *failure {
	relation := ""
	switch {
	case epoch > m.epoch:
		relation = "greater"
	case epoch < m.epoch && (epoch != m.previousEpoch || !owns.within(m.assigned)):
		relation = "smaller"
	default:
		return nil
	}
	return &failure{errorcode.FencedMemberEpoch, fmt.Sprintf(
		"The consumer group member has a %s member epoch (%d) than the one known by the group coordinator (%d). "+
			"The member must abandon all its partitions and rejoin.", relation, epoch, m.epoch)}
}

// say takes in what a request says; null fields leave things as they are.
func (m *consumerMember) say(c Caller, req *kmsg.ConsumerGroupHeartbeatRequest) {
	if req.InstanceID != nil {
		m.instance = clonePtr(req.InstanceID)
	}
	if req.RackID != nil {
		m.rack = clonePtr(req.RackID)
	}
	if req.RebalanceTimeoutMillis != -1 {
		m.rebalanceTimeoutMs = req.RebalanceTimeoutMillis
	}
	if req.ServerAssignor != nil {
		m.serverAssignor = clonePtr(req.ServerAssignor)
	}
	if req.SubscribedTopicNames != nil {
		m.topics = distinct(req.SubscribedTopicNames)
	}
	if req.SubscribedTopicRegex != nil {
		m.regex = clonePtr(req.SubscribedTopicRegex)
	}
	m.clientID, m.clientHost, m.classic = c.ClientID, c.ClientHost, nil
}

// replace gives the place of a static member to another member id, target and assignment included.
func (cg *consumerGroup) replace(old, taken *consumerMember, e *Effects) {
	target := cg.targets[old.id]
	cg.remove(old.id, e)
	cg.set(taken)
	cg.targets[taken.id] = target
	cg.recordMember(taken, e)
	cg.recordTarget(taken.id, target, e)
	cg.recordCurrent(taken, e)
}

// answer tells a member its assignment if it joined, said all of itself or the assignment changed.
func (cg *consumerGroup) answer(req *kmsg.ConsumerGroupHeartbeatRequest, before, after *consumerMember) *kmsg.ConsumerGroupHeartbeatResponse {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	id := after.id
	resp.MemberID, resp.MemberEpoch = &id, after.epoch
	interval := cg.g.groupMillis(cg.name, "consumer.heartbeat.interval.ms", cg.g.config.ConsumerHeartbeat)
	resp.HeartbeatIntervalMillis = int32(interval.Milliseconds())
	full := req.RebalanceTimeoutMillis != -1 && (req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil) && req.Topics != nil
	if req.MemberEpoch != epochJoin && !full && before.assigned.equal(after.assigned) {
		return resp
	}
	assignment := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	assignment.Topics = []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}
	partitions := after.assigned.partitions()
	for _, topic := range listed(partitions) {
		x := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		x.TopicID, x.Partitions = topic, partitions[topic]
		assignment.Topics = append(assignment.Topics, x)
	}
	resp.Assignment = &assignment
	return resp
}
