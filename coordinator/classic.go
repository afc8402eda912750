package coordinator

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// classicState is the state of a classic group, as answers name it. A group is never Dead here: one that is
// removed is simply no longer known.
type classicState string

const (
	classicEmpty      classicState = "Empty"
	classicPreparing  classicState = "PreparingRebalance"
	classicCompleting classicState = "CompletingRebalance"
	classicStable     classicState = "Stable"
)

const (
	// consumerProtocol is the protocol type of consumers, the only one whose metadata the coordinator reads.
	consumerProtocol = "consumer"
	// newMemberJoinTimeout ends the JoinGroup of a member that was made by it and so cannot send heartbeats.
	// Source: GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS.
	newMemberJoinTimeout = 5 * time.Minute

	classicJoinTimer = "join"
	classicSyncTimer = "sync"
)

func classicSessionTimer(memberID string) string { return "heartbeat " + memberID }

// classicGroup is a group of the classic protocol, or a "simple" one that only holds offsets.
//
// Invariants: awaitingJoin is the number of members with join != nil; leader is "" exactly while there is no
// member; every id in pendingSync is a member's, none in pendingJoin is; instances maps the instance id of each
// static member to its member id.
//
// Source: ClassicGroup and the classicGroup* methods of GroupMetadataManager.
type classicGroup struct {
	g         *Groups
	name      string
	current   classicState
	previous  classicState
	changedMs int64 // when the state last changed; -1 unknown

	generation int32
	protocols  string // the protocol type, "" until the first member joins
	protocol   string // the chosen protocol, "" while there is none
	leader     string

	members      map[string]*classicMember
	order        []string // member ids in the order of joining
	instances    map[string]string
	awaitingJoin int
	pendingJoin  map[string]bool // ids handed out with MEMBER_ID_REQUIRED
	pendingSync  map[string]bool // members of this generation that did not send SyncGroup yet
	newMember    bool            // a member joined since the initial delay last began

	// subscribed are the topics that the members of a consumer group subscribe to; known is false where the
	// group is of another type or a member's metadata cannot be read.
	subscribed      map[string]bool
	subscribedKnown bool
}

// classicMember is a member of a classic group.
type classicMember struct {
	id, clientID, clientHost string
	instance                 *string
	rebalanceTimeout         time.Duration
	sessionTimeout           time.Duration
	protocols                []kmsg.JoinGroupRequestProtocol
	assignment               []byte
	join                     *parked // its waiting JoinGroup
	sync                     *parked // its waiting SyncGroup
	isNew                    bool    // made by the JoinGroup that still waits
}

// parked is a request that waits for its answer.
type parked struct {
	token   any
	version int16
}

// newClassicGroup makes an empty group and makes it known.
func (g *Groups) newClassicGroup(id string) *classicGroup {
	cg := &classicGroup{
		g: g, name: id, current: classicEmpty, previous: classicEmpty, changedMs: -1,
		members: map[string]*classicMember{}, instances: map[string]string{},
		pendingJoin: map[string]bool{}, pendingSync: map[string]bool{},
	}
	g.put(cg)
	return cg
}

func (cg *classicGroup) id() string           { return cg.name }
func (cg *classicGroup) kind() groupType      { return classicType }
func (cg *classicGroup) state() string        { return string(cg.current) }
func (cg *classicGroup) protocolType() string { return cg.protocols }
func (cg *classicGroup) expires() bool        { return true }

func (cg *classicGroup) transition(now time.Time, to classicState) {
	cg.previous, cg.current = cg.current, to
	cg.changedMs = now.UnixMilli()
}

func (cg *classicGroup) topicsChanged(time.Time, []string, *Effects) {}

func (cg *classicGroup) tombstones(e *Effects) {
	e.record(cg.name, appendGroupMetadataKey(cg.name), nil)
}

func (cg *classicGroup) unload(code int16, e *Effects) {
	for _, m := range cg.ordered() {
		if m.join != nil {
			cg.completeJoin(m, joinError(m.join.version, code, m.id), e)
		}
		cg.completeSync(m, syncError(code), e)
	}
}

// ordered returns the members in the order of joining. The slice is the caller's.
func (cg *classicGroup) ordered() []*classicMember {
	members := make([]*classicMember, len(cg.order))
	for i, id := range cg.order {
		members[i] = cg.members[id]
	}
	return members
}

// add makes a member known, as the leader if it is the first one.
func (cg *classicGroup) add(m *classicMember, protocolType string) {
	if len(cg.members) == 0 {
		cg.protocols = protocolType
	}
	if cg.leader == "" {
		cg.leader = m.id
	}
	cg.members[m.id] = m
	cg.order = append(cg.order, m.id)
	if m.instance != nil {
		cg.instances[*m.instance] = m.id
	}
	if m.join != nil {
		cg.awaitingJoin++
	}
	delete(cg.pendingJoin, m.id)
}

// remove forgets a member or a pending id, its timer included, and answers what the member had parked.
func (cg *classicGroup) remove(id string, e *Effects) {
	cg.g.timers.cancel(cg.name, classicSessionTimer(id))
	delete(cg.pendingJoin, id)
	m := cg.members[id]
	if m == nil {
		return
	}
	if m.join != nil {
		cg.completeJoin(m, joinError(m.join.version, errorcode.UnknownMemberID, ""), e)
	}
	cg.completeSync(m, syncError(errorcode.UnknownMemberID), e)
	delete(cg.members, id)
	delete(cg.pendingSync, id)
	cg.order = slices.DeleteFunc(cg.order, func(o string) bool { return o == id })
	if m.instance != nil {
		delete(cg.instances, *m.instance)
	}
	if cg.leader == id {
		cg.leader = ""
		if len(cg.order) > 0 {
			cg.leader = cg.order[0]
		}
	}
}

// checkMember is the code for a member id and instance id that a request names.
func (cg *classicGroup) checkMember(id string, instance *string) int16 {
	if instance != nil {
		known, ok := cg.instances[*instance]
		if !ok {
			return errorcode.UnknownMemberID
		}
		if known != id {
			return errorcode.FencedInstanceID
		}
	}
	if cg.members[id] == nil {
		return errorcode.UnknownMemberID
	}
	return errorcode.None
}

// supports reports whether a member with these protocols may join beside the present ones: the type is the
// group's, and one protocol at least is known to every member.
func (cg *classicGroup) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if protocolType == "" || len(protocols) == 0 {
		return false
	}
	if cg.current == classicEmpty {
		return true
	}
	common := cg.commonProtocols()
	return cg.protocols == protocolType && slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return common[p.Name] || len(cg.members) == 0
	})
}

// commonProtocols are the protocols that every member supports.
func (cg *classicGroup) commonProtocols() map[string]bool {
	supporters := map[string]int{}
	for _, m := range cg.members {
		for i, p := range m.protocols {
			if !slices.ContainsFunc(m.protocols[:i], func(q kmsg.JoinGroupRequestProtocol) bool { return q.Name == p.Name }) {
				supporters[p.Name]++
			}
		}
	}
	common := map[string]bool{}
	for name, n := range supporters {
		if n == len(cg.members) {
			common[name] = true
		}
	}
	return common
}

// choose is the protocol that most members vote for. Each votes for the first of its protocols that all
// support; of equals the one that got its first vote first wins.
func (cg *classicGroup) choose() string {
	common, votes := cg.commonProtocols(), map[string]int{}
	var names []string
	for _, m := range cg.ordered() {
		for _, p := range m.protocols {
			if common[p.Name] {
				if votes[p.Name]++; votes[p.Name] == 1 {
					names = append(names, p.Name)
				}
				break
			}
		}
	}
	best := ""
	for _, name := range names {
		if best == "" || votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// rebalanceTimeout is the longest of the members'.
func (cg *classicGroup) rebalanceTimeout() time.Duration {
	var longest time.Duration
	for _, m := range cg.members {
		longest = max(longest, m.rebalanceTimeout)
	}
	return longest
}

// nextGeneration begins a generation of the members that are left.
func (cg *classicGroup) nextGeneration(now time.Time) {
	cg.generation++
	if len(cg.members) == 0 {
		cg.protocol = ""
		cg.transition(now, classicEmpty)
	} else {
		cg.protocol = cg.choose()
		cg.transition(now, classicCompleting)
	}
	cg.computeSubscribed()
}

// computeSubscribed reads the members' subscriptions, which consumers write as their protocols' metadata.
func (cg *classicGroup) computeSubscribed() {
	cg.subscribed, cg.subscribedKnown = map[string]bool{}, false
	if cg.protocols != consumerProtocol || len(cg.members) > 0 && cg.protocol == "" {
		return
	}
	for _, m := range cg.members {
		metadata, _ := m.metadata(cg.protocol)
		topics, ok := subscribedTopics(metadata)
		if !ok {
			return
		}
		for _, topic := range topics {
			cg.subscribed[topic] = true
		}
	}
	cg.subscribedKnown = true
}

// subscribedTopics reads the topics of a consumer's subscription. All versions begin with what version 0 has,
// and nothing behind that is looked at.
func subscribedTopics(metadata []byte) (topics []string, ok bool) {
	b := kbin.Reader{Src: metadata}
	version := b.Int16()
	for n := b.ArrayLen(); n > 0 && b.Ok(); n-- {
		topics = append(topics, b.String())
	}
	b.NullableBytes() // user data
	return topics, version >= 0 && b.Ok()
}

func (cg *classicGroup) subscribedTo(topic string) bool {
	return cg.subscribedKnown && cg.subscribed[topic]
}

func (cg *classicGroup) offsetsExpireFrom(committedMs int64) (int64, bool) {
	switch {
	case cg.protocols == "":
		return committedMs, true
	case cg.current == classicEmpty:
		if cg.changedMs < 0 {
			return committedMs, true
		}
		return cg.changedMs, true
	case cg.current == classicStable && cg.subscribedKnown:
		return committedMs, true
	default:
		return 0, false
	}
}

func (cg *classicGroup) checkOffsetCommit(now time.Time, by offsetMember, _ int16, txn bool) (partitionCheck, int16) {
	if by.generation < 0 && cg.current == classicEmpty {
		return nil, errorcode.None
	}
	switch {
	case by.generation >= 0 || by.id != "" || by.instance != nil:
		if code := cg.checkMember(by.id, by.instance); code != errorcode.None {
			return nil, code
		}
		if by.generation != cg.generation {
			return nil, errorcode.IllegalGeneration
		}
	case !txn && cg.current != classicEmpty:
		return nil, errorcode.UnknownMemberID
	}
	if txn {
		return nil, errorcode.None
	}
	switch cg.current {
	case classicCompleting:
		return nil, errorcode.RebalanceInProgress
	case classicStable, classicPreparing:
		cg.beat(now, cg.members[by.id])
	}
	return nil, errorcode.None
}

// checkOffsetFetch lets everyone read: a classic group looks neither at the member nor at its generation.
func (cg *classicGroup) checkOffsetFetch(*string, int32) int16 { return errorcode.None }

func (cg *classicGroup) checkOffsetDelete() int16 {
	if cg.current != classicEmpty && cg.protocols != consumerProtocol {
		return errorcode.NonEmptyGroup
	}
	return errorcode.None
}

func (cg *classicGroup) checkDelete() int16 {
	if cg.current != classicEmpty {
		return errorcode.NonEmptyGroup
	}
	return errorcode.None
}

// metadata is what the member sent for a protocol; ok is false if it does not support it.
func (m *classicMember) metadata(protocol string) (metadata []byte, ok bool) {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata, true
		}
	}
	return nil, false
}

// matches reports whether the member joined with the same protocols in the same order and the same metadata.
func (m *classicMember) matches(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b kmsg.JoinGroupRequestProtocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// beatSatisfied reports whether the member's session goes on though it sends no heartbeat: it waits for an answer.
func (m *classicMember) beatSatisfied() bool { return !m.isNew && (m.join != nil || m.sync != nil) }

// beat begins a member's session anew.
func (cg *classicGroup) beat(now time.Time, m *classicMember) {
	cg.beatFor(now, m.id, m.sessionTimeout)
}

// beatFor gives a member or a pending id a time after which it is removed.
func (cg *classicGroup) beatFor(now time.Time, id string, timeout time.Duration) {
	cg.g.timers.schedule(cg.name, classicSessionTimer(id), now.Add(timeout), func(now time.Time, e *Effects) {
		m := cg.members[id]
		if m != nil && m.beatSatisfied() {
			return
		}
		cg.remove(id, e)
		if m != nil || cg.current == classicPreparing {
			cg.rebalanceOrComplete(now, e)
		}
	})
}
