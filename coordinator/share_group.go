package coordinator

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/coordinator/assignor"
	"kshare/protocol/errorcode"
)

const (
	shareEmpty  = "Empty"
	shareStable = "Stable"
)

// shareGroup is a share group (KIP-932): its members may share partitions, so a member jumps to its target at
// once. Invariants: assignmentEpoch <= epoch; only partitions in initialized are in a new target.
type shareGroup struct {
	g    *Groups
	name string

	epoch int32
	hash  int64 // of the topics subscribed to, as of epoch
	stale bool  // those topics changed since

	assignmentEpoch int32
	assignedMs      int64 // when the target was computed; 0 where the next may be at any time

	members map[string]*shareMember
	order   memberOrder
	targets map[string]assignor.Assignment

	initializing, initialized shareTopics
	deleting                  map[assignor.TopicID]string // names
}

// shareMember is a member. It is replaced, never changed, once it is in its group.
type shareMember struct {
	id, clientID, clientHost string
	rack                     *string
	topics                   []string

	epoch, previousEpoch int32
	assigned             assignor.Assignment
}

func (m *shareMember) sameMetadata(o *shareMember) bool {
	return m.clientID == o.clientID && m.clientHost == o.clientHost && equalPtr(m.rack, o.rack) && sameNames(m.topics, o.topics)
}

func (g *Groups) newShareGroup(id string) *shareGroup {
	return &shareGroup{
		g: g, name: id, epoch: g.config.Release.FirstEpoch, assignmentEpoch: g.config.Release.FirstEpoch,
		members: map[string]*shareMember{}, targets: map[string]assignor.Assignment{},
		initializing: shareTopics{}, initialized: shareTopics{}, deleting: map[assignor.TopicID]string{},
	}
}

func (sg *shareGroup) id() string           { return sg.name }
func (sg *shareGroup) kind() groupType      { return shareType }
func (sg *shareGroup) protocolType() string { return string(shareType) }

func (sg *shareGroup) state() string {
	if len(sg.members) == 0 {
		return shareEmpty
	}
	return shareStable
}

// names are the topics that members subscribe to.
func (sg *shareGroup) names() map[string]bool {
	all := map[string]bool{}
	for _, m := range sg.members {
		for _, n := range m.topics {
			all[n] = true
		}
	}
	return all
}

func (sg *shareGroup) checkOffsetCommit(time.Time, offsetMember, int16, bool) (partitionCheck, int16) {
	return nil, errorcode.GroupIDNotFound
}

// checkOffsetFetch finds no fault: a share group has no committed offsets, which is no error.
func (sg *shareGroup) checkOffsetFetch(*string, int32) int16 { return errorcode.None }

func (sg *shareGroup) checkOffsetDelete() int16 { return errorcode.GroupIDNotFound }

func (sg *shareGroup) checkDelete() int16 {
	if len(sg.members) > 0 {
		return errorcode.NonEmptyGroup
	}
	return errorcode.None
}

func (sg *shareGroup) subscribedTo(topic string) bool { return sg.names()[topic] }

func (sg *shareGroup) offsetsExpireFrom(int64) (int64, bool) { return 0, false }

// expires is false: a share group stays until DeleteGroups.
func (sg *shareGroup) expires() bool { return false }

func (sg *shareGroup) topicsChanged(_ time.Time, names []string, e *Effects) {
	sg.dropTopics(e)
	subscribed := sg.names()
	if slices.ContainsFunc(names, func(n string) bool { return subscribed[n] }) {
		sg.stale = true
	}
}

func (sg *shareGroup) loaded(now time.Time, _ *Effects) {
	for _, id := range sortedKeys(sg.members) {
		sg.beat(now, id)
	}
}

func (sg *shareGroup) unload(int16, *Effects) {}

// beat begins a member's session anew.
func (sg *shareGroup) beat(now time.Time, id string) {
	timeout := sg.g.groupMillis(sg.name, "share.session.timeout.ms", sg.g.config.ShareSession)
	sg.g.timers.schedule(sg.name, sessionTimer(id), now.Add(timeout), func(_ time.Time, e *Effects) {
		sg.fence(id, e)
	})
}

// fence removes a member, which makes a new epoch. The epochs of a group without members are equal in later lines.
func (sg *shareGroup) fence(id string, e *Effects) {
	delete(sg.members, id)
	delete(sg.targets, id)
	sg.g.timers.cancel(sg.name, sessionTimer(id))
	sg.recordRemoval(id, e)
	sg.bump(e)
	if len(sg.members) == 0 && sg.g.config.Release.EpochsOfEmptyGroupsMeet {
		sg.assignmentEpoch, sg.assignedMs = sg.epoch, 0
		sg.recordTargetMetadata(e)
	}
}

// bump makes a new epoch for what members subscribe to and what of it exists.
func (sg *shareGroup) bump(e *Effects) {
	sg.epoch++
	sg.hash, sg.stale = topicHash(sg.g.topics, sg.names()), false
	sg.recordEpoch(e)
}

// assign computes a new target if the group is ahead of the present one and the interval allows it.
func (sg *shareGroup) assign(now time.Time, e *Effects) {
	if sg.assignmentEpoch >= sg.epoch {
		return
	}
	interval := sg.g.groupMillis(sg.name, "share.assignment.interval.ms", sg.g.config.ShareAssignmentInterval)
	if sg.g.config.Release.AssignmentInterval && !mayAssign(now, sg.assignedMs, interval) {
		return
	}
	spec := assignor.Spec{
		Topics:     describeTopics(sg.g.topics, sg.names()),
		Assignable: func(id assignor.TopicID, p int32) bool { return sg.initialized[id].partitions[p] },
	}
	for _, id := range sg.order.walk(sortedKeys(sg.members)) {
		spec.Members = append(spec.Members, assignor.Member{ID: id, Topics: sg.members[id].topics, Target: sg.targets[id]})
	}
	targets := assignor.Simple(spec)
	for _, m := range spec.Members {
		if target := targets[m.ID]; !target.Equal(m.Target) {
			sg.recordTarget(m.ID, target, e)
		}
		sg.targets[m.ID] = targets[m.ID]
	}
	sg.assignmentEpoch, sg.assignedMs = sg.epoch, now.UnixMilli()
	sg.recordTargetMetadata(e)
}

// reconcile gives a member its whole target, but for topics that it does not subscribe to or that are gone.
func (sg *shareGroup) reconcile(m *shareMember, resubscribed bool, e *Effects) *shareMember {
	if m.epoch == sg.assignmentEpoch && !resubscribed {
		return m
	}
	next := *m
	next.assigned = assignor.Assignment{}
	for _, name := range m.topics {
		if t, ok := sg.g.topics.TopicByName(name); ok && len(sg.targets[m.id][t.ID]) > 0 {
			next.assigned[t.ID] = sg.targets[m.id][t.ID]
		}
	}
	if m.epoch != sg.assignmentEpoch {
		next.previousEpoch, next.epoch = m.epoch, sg.assignmentEpoch
	} else if next.assigned.Equal(m.assigned) {
		return m
	}
	sg.members[m.id] = &next
	sg.recordCurrent(&next, e)
	return &next
}

// ShareGroupDescribe (key 77, version 1) describes share groups.
func (g *Groups) ShareGroupDescribe(c Caller, req *kmsg.ShareGroupDescribeRequest) *kmsg.ShareGroupDescribeResponse {
	resp := kmsg.NewPtrShareGroupDescribeResponse()
	resp.Version = c.Version
	for _, id := range g.answerOrder(req.GroupIDs) {
		x := g.describeShare(c, id)
		if req.IncludeAuthorizedOperations && x.ErrorCode == errorcode.None {
			x.AuthorizedOperations = c.authorizedOperations(id)
		}
		resp.Groups = append(resp.Groups, x)
	}
	return resp
}

func (g *Groups) describeShare(c Caller, id string) kmsg.ShareGroupDescribeResponseGroup {
	x := kmsg.NewShareGroupDescribeResponseGroup()
	x.GroupID, x.AuthorizedOperations = id, noOperations
	sg, _ := g.groups[id].(*shareGroup)
	fail := g.mayDescribe(c, g.config.ShareEnabled, id, shareType)
	if fail == nil {
		fail = c.mayDescribeTopics(sg.names())
	}
	if fail != nil {
		x.ErrorCode, x.ErrorMessage = fail.code, fail.text()
		return x
	}
	x.GroupState, x.GroupEpoch, x.AssignmentEpoch = sg.state(), sg.epoch, sg.assignmentEpoch
	x.Assignor = g.config.ShareAssignors[0]
	for _, memberID := range sortedKeys(sg.members) {
		x.Members = append(x.Members, sg.describeMember(sg.members[memberID]))
	}
	return x
}

func (sg *shareGroup) describeMember(m *shareMember) kmsg.ShareGroupDescribeResponseGroupMember {
	x := kmsg.NewShareGroupDescribeResponseGroupMember()
	x.MemberID, x.RackID, x.MemberEpoch = m.id, m.rack, m.epoch
	x.ClientID, x.ClientHost = m.clientID, m.clientHost
	x.SubscribedTopicNames = assignor.StringOrder(m.topics)
	for _, id := range listed(m.assigned) {
		if t, ok := sg.g.topics.TopicByID(id); ok {
			y := kmsg.NewShareGroupDescribeResponseGroupMemberAssignmentTopicPartition()
			y.TopicID, y.Topic, y.Partitions = id, t.Name, m.assigned[id]
			x.Assignment.TopicPartitions = append(x.Assignment.TopicPartitions, y)
		}
	}
	return x
}

// CheckShareMember is why a member that names an epoch is no member of a share group: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH. The
// epoch before the present one is taken too, as heartbeats take it.
func (g *Groups) CheckShareMember(group, member string, epoch int32) int16 {
	sg, ok := g.groups[group].(*shareGroup)
	if !ok {
		return errorcode.GroupIDNotFound
	}
	m := sg.members[member]
	switch {
	case m == nil:
		return errorcode.UnknownMemberID
	case m.checkEpoch(epoch) != nil:
		return errorcode.StaleMemberEpoch
	}
	return errorcode.None
}
