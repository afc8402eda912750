package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/coordinator/assignor"
	"kshare/protocol/errorcode"
)

// States of consumer groups. Source: ConsumerGroupState.
const (
	consumerEmpty       = "Empty"
	consumerAssigning   = "Assigning"   // the target is older than the group
	consumerReconciling = "Reconciling" // a member has not reached the target
	consumerStable      = "Stable"
)

// consumerGroup is a consumer group (KIP-848). Invariants: assignmentEpoch <= epoch; a partition has at most one
// owner, from its assignment until its revocation is confirmed.
type consumerGroup struct {
	g    *Groups
	name string

	epoch int32
	hash  int64 // of the topics subscribed to, as of epoch
	stale bool  // those topics changed since

	assignmentEpoch int32
	assignedMs      int64 // when the target was computed; 0 where the next may be at any time

	members map[string]*consumerMember
	order   memberOrder
	static  map[string]string // member ids by instance id
	targets map[string]assignor.Assignment
	owners  map[topicPartition]string // member ids

	regexes   map[string]*resolvedRegex
	newTopics bool // topics changed since the regexes were resolved

	converts *classicGroup // the group whose place this one takes with the request at hand
}

// consumerMember is a member. It is replaced, never changed, once it is in its group.
type consumerMember struct {
	id, clientID, clientHost string
	instance, rack           *string
	rebalanceTimeoutMs       int32
	topics                   []string
	regex                    *string // "" is none, like nil
	serverAssignor           *string
	classic                  *classicProtocol // nil for members that heartbeat in the consumer protocol

	state                int8
	epoch, previousEpoch int32
	assigned, revoking   owned
}

// owned are partitions and the epochs at which they were assigned. No inner map is empty.
type owned map[assignor.TopicID]map[int32]int32

func (o owned) clone() owned {
	c := make(owned, len(o))
	for t, ps := range o {
		c[t] = maps.Clone(ps)
	}
	return c
}

func (o owned) set(t assignor.TopicID, p, epoch int32) {
	if o[t] == nil {
		o[t] = map[int32]int32{}
	}
	o[t][p] = epoch
}

// partitions are the partitions without epochs.
func (o owned) partitions() assignor.Assignment {
	a := make(assignor.Assignment, len(o))
	for t, ps := range o {
		a[t] = slices.Sorted(maps.Keys(ps))
	}
	return a
}

func (o owned) equal(p owned) bool { return o.partitions().Equal(p.partitions()) }

func (m *consumerMember) clone() *consumerMember {
	c := *m
	return &c
}

// sameMetadata compares what the member's metadata record holds.
func (m *consumerMember) sameMetadata(o *consumerMember) bool {
	return m.clientID == o.clientID && m.clientHost == o.clientHost && m.rebalanceTimeoutMs == o.rebalanceTimeoutMs &&
		equalPtr(m.instance, o.instance) && equalPtr(m.rack, o.rack) && equalPtr(m.regex, o.regex) &&
		equalPtr(m.serverAssignor, o.serverAssignor) && sameNames(m.topics, o.topics) && m.classic.equal(o.classic)
}

// pattern is the member's regular expression, "" if it has none.
func (m *consumerMember) pattern() string {
	if m.regex == nil {
		return ""
	}
	return *m.regex
}

// owns are all partitions that nobody else may be given.
func (m *consumerMember) owns(f func(topicPartition)) {
	for _, o := range []owned{m.assigned, m.revoking} {
		for t, ps := range o {
			for p := range ps {
				f(topicPartition{t, p})
			}
		}
	}
}

func (g *Groups) newConsumerGroup(id string) *consumerGroup {
	return &consumerGroup{
		g: g, name: id, epoch: g.config.Release.FirstEpoch, assignmentEpoch: g.config.Release.FirstEpoch,
		members: map[string]*consumerMember{}, static: map[string]string{},
		targets: map[string]assignor.Assignment{}, owners: map[topicPartition]string{},
		regexes: map[string]*resolvedRegex{},
	}
}

// set puts a member in, in place of one of the same id.
func (cg *consumerGroup) set(m *consumerMember) {
	cg.unset(m.id)
	cg.members[m.id] = m
	if m.instance != nil {
		cg.static[*m.instance] = m.id
	}
	m.owns(func(p topicPartition) { cg.owners[p] = m.id })
}

// unset takes a member out, but neither its target nor its timers.
func (cg *consumerGroup) unset(id string) {
	m := cg.members[id]
	if m == nil {
		return
	}
	m.owns(func(p topicPartition) {
		if cg.owners[p] == id {
			delete(cg.owners, p)
		}
	})
	if m.instance != nil && cg.static[*m.instance] == id {
		delete(cg.static, *m.instance)
	}
	delete(cg.members, id)
}

// staticMember is the member of an instance, nil if there is none.
func (cg *consumerGroup) staticMember(instance string) *consumerMember {
	return cg.members[cg.static[instance]]
}

func (cg *consumerGroup) id() string           { return cg.name }
func (cg *consumerGroup) kind() groupType      { return consumerType }
func (cg *consumerGroup) protocolType() string { return string(consumerType) }

func (cg *consumerGroup) state() string {
	if len(cg.members) == 0 {
		return consumerEmpty
	}
	if cg.epoch > cg.assignmentEpoch {
		return consumerAssigning
	}
	for _, m := range cg.members {
		if !m.reconciledTo(cg.assignmentEpoch) {
			return consumerReconciling
		}
	}
	return consumerStable
}

// names are the topics that members subscribe to, by name or regular expression.
func (cg *consumerGroup) names() map[string]bool {
	all := map[string]bool{}
	for _, m := range cg.members {
		for _, n := range cg.subscription(m) {
			all[n] = true
		}
	}
	return all
}

// subscription is all that a member subscribes to.
func (cg *consumerGroup) subscription(m *consumerMember) []string {
	r := cg.regexes[m.pattern()]
	if r == nil || len(r.topics) == 0 {
		return m.topics
	}
	return distinct(append(slices.Clone(m.topics), r.topics...))
}

// subscribed are the ids of the topics in a member's subscription that exist.
func (cg *consumerGroup) subscribed(m *consumerMember) map[assignor.TopicID]bool {
	ids := map[assignor.TopicID]bool{}
	for _, name := range cg.subscription(m) {
		if t, ok := cg.g.topics.TopicByName(name); ok {
			ids[t.ID] = true
		}
	}
	return ids
}

func (cg *consumerGroup) checkOffsetCommit(_ time.Time, by offsetMember, version int16, txn bool) (partitionCheck, int16) {
	if by.generation < 0 && len(cg.members) == 0 {
		return nil, errorcode.None
	}
	if txn && by.generation == -1 && by.id == "" && by.instance == nil {
		return nil, errorcode.None
	}
	m := cg.members[by.id]
	if m == nil {
		return nil, errorcode.UnknownMemberID
	}
	stale := errorcode.StaleMemberEpoch
	if m.classic != nil || txn && version < txnCommitHasGroupErrors {
		stale = errorcode.IllegalGeneration
	} else if !txn && version < commitByConsumerMember {
		return nil, errorcode.UnsupportedVersion
	}
	if by.generation == m.epoch {
		return nil, errorcode.None
	}
	if by.generation > m.epoch {
		return nil, stale
	}
	return func(topic string, id [16]byte, partition int32) int16 {
		if id == ([16]byte{}) {
			t, _ := cg.g.topics.TopicByName(topic)
			id = t.ID
		}
		epoch, ok := m.assigned[id][partition]
		if !ok {
			epoch, ok = m.revoking[id][partition]
		}
		if !ok || by.generation < epoch {
			return stale
		}
		return errorcode.None
	}, errorcode.None
}

// commitByConsumerMember is the first version of OffsetCommit that a member of the consumer protocol may use.
const commitByConsumerMember = 9

func (cg *consumerGroup) checkOffsetFetch(memberID *string, epoch int32) int16 {
	if memberID == nil && epoch < 0 {
		return errorcode.None
	}
	if memberID == nil {
		return errorcode.UnknownServerError
	}
	m := cg.members[*memberID]
	switch {
	case m == nil:
		return errorcode.UnknownMemberID
	case m.epoch == epoch:
		return errorcode.None
	case m.classic != nil:
		return errorcode.IllegalGeneration
	}
	return errorcode.StaleMemberEpoch
}

func (cg *consumerGroup) checkOffsetDelete() int16 { return errorcode.None }

func (cg *consumerGroup) checkDelete() int16 {
	if len(cg.members) > 0 {
		return errorcode.NonEmptyGroup
	}
	return errorcode.None
}

func (cg *consumerGroup) subscribedTo(topic string) bool { return cg.names()[topic] }

func (cg *consumerGroup) offsetsExpireFrom(committedMs int64) (int64, bool) { return committedMs, true }

func (cg *consumerGroup) expires() bool { return len(cg.members) == 0 }

func (cg *consumerGroup) topicsChanged(_ time.Time, names []string, _ *Effects) {
	cg.newTopics = true
	subscribed := cg.names()
	if slices.ContainsFunc(names, func(n string) bool { return subscribed[n] }) {
		cg.stale = true
	}
}

func (cg *consumerGroup) loaded(now time.Time, _ *Effects) {
	for _, id := range sortedKeys(cg.members) {
		m := cg.members[id]
		cg.beat(now, m)
		if m.state == memberUnrevoked {
			cg.startRevocation(now, m)
		}
	}
}

func (cg *consumerGroup) unload(int16, *Effects) {}

// preferredAssignor is the assignor that most members ask for, the default if none does.
func (cg *consumerGroup) preferredAssignor() string {
	votes := map[string]int{}
	for _, m := range cg.members {
		if m.serverAssignor != nil {
			votes[*m.serverAssignor]++
		}
	}
	if len(votes) == 0 {
		return ""
	}
	most := ""
	for _, name := range assignor.StringOrder(sortedKeys(votes)) {
		if most == "" || votes[name] > votes[most] {
			most = name
		}
	}
	return most
}

// assignorName is the assignor in use.
func (cg *consumerGroup) assignorName() string {
	if name := cg.preferredAssignor(); name != "" {
		return name
	}
	return cg.g.config.ConsumerAssignors[0]
}

// ConsumerGroupDescribe (key 69, versions 0 and 1) describes consumer groups.
func (g *Groups) ConsumerGroupDescribe(c Caller, req *kmsg.ConsumerGroupDescribeRequest) *kmsg.ConsumerGroupDescribeResponse {
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	resp.Version = c.Version
	for _, id := range g.answerOrder(req.Groups) {
		x := g.describeConsumer(c, id)
		if req.IncludeAuthorizedOperations && x.ErrorCode == errorcode.None {
			x.AuthorizedOperations = c.authorizedOperations(id)
		}
		resp.Groups = append(resp.Groups, x)
	}
	return resp
}

func (g *Groups) describeConsumer(c Caller, id string) kmsg.ConsumerGroupDescribeResponseGroup {
	x := kmsg.NewConsumerGroupDescribeResponseGroup()
	x.Group, x.AuthorizedOperations = id, noOperations
	cg, _ := g.groups[id].(*consumerGroup)
	fail := g.mayDescribe(c, g.config.ConsumerProtocolEnabled, id, consumerType)
	if fail == nil {
		fail = c.mayDescribeTopics(cg.names())
	}
	if fail != nil {
		x.ErrorCode, x.ErrorMessage = fail.code, fail.text()
		return x
	}
	x.State, x.Epoch, x.AssignmentEpoch, x.AssignorName = cg.state(), cg.epoch, cg.assignmentEpoch, cg.assignorName()
	for _, memberID := range sortedKeys(cg.members) {
		x.Members = append(x.Members, cg.describeMember(c.Version, cg.members[memberID]))
	}
	return x
}

// Values of MemberType.
const (
	describedClassic  int8 = 0
	describedConsumer int8 = 1
)

func (cg *consumerGroup) describeMember(version int16, m *consumerMember) kmsg.ConsumerGroupDescribeResponseGroupMember {
	x := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	x.MemberID, x.InstanceID, x.RackID, x.MemberEpoch = m.id, m.instance, m.rack, m.epoch
	x.ClientID, x.ClientHost = m.clientID, m.clientHost
	x.SubscribedTopics = assignor.StringOrder(m.topics)
	pattern := m.pattern()
	x.SubscribedTopicRegex = &pattern
	all := m.assigned.clone()
	for t, ps := range m.revoking {
		for p, epoch := range ps {
			all.set(t, p, epoch)
		}
	}
	x.Assignment.TopicPartitions = cg.describeAssignment(all.partitions())
	x.TargetAssignment.TopicPartitions = cg.describeAssignment(cg.targets[m.id])
	if version >= 1 {
		x.MemberType = describedConsumer
		if m.classic != nil {
			x.MemberType = describedClassic
		}
	}
	return x
}

// describeAssignment names the topics of an assignment; those that are gone are left out.
func (cg *consumerGroup) describeAssignment(a assignor.Assignment) []kmsg.AssignmentTopicPartition {
	var out []kmsg.AssignmentTopicPartition
	for _, id := range listed(a) {
		if t, ok := cg.g.topics.TopicByID(id); ok {
			x := kmsg.NewAssignmentTopicPartition()
			x.TopicID, x.Topic, x.Partitions = id, t.Name, a[id]
			out = append(out, x)
		}
	}
	return out
}
