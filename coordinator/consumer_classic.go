package coordinator

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/coordinator/assignor"
	"kshare/protocol/errorcode"
)

// A consumer group serves members of the classic protocol too: each joins at once and alone, acts as a follower,
// and gets the coordinator's assignment from SyncGroup. Its generation is its member epoch.

// classicProtocol is what a member of the classic protocol said in JoinGroup.
type classicProtocol struct {
	sessionTimeoutMs int32
	protocols        []kmsg.JoinGroupRequestProtocol // at least one
}

func (p *classicProtocol) equal(o *classicProtocol) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.sessionTimeoutMs == o.sessionTimeoutMs &&
		slices.EqualFunc(p.protocols, o.protocols, func(a, b kmsg.JoinGroupRequestProtocol) bool {
			return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
		})
}

// append encodes the tagged field of a member's metadata record: a byte that is 0 for a member of the consumer
// protocol, which Kafka never leaves out, else 1 and the struct.
func (p *classicProtocol) append() []byte {
	if p == nil {
		return []byte{0}
	}
	w := &recordWriter{b: []byte{1}}
	w.int32(p.sessionTimeoutMs)
	w.length(len(p.protocols))
	for _, x := range p.protocols {
		w.string(x.Name)
		w.bytes(x.Metadata)
		w.tags()
	}
	w.tags()
	return w.b
}

func readClassicProtocol(r *recordReader) *classicProtocol {
	if r.int8() <= 0 {
		return nil
	}
	p := &classicProtocol{sessionTimeoutMs: r.int32()}
	r.each(func() {
		p.protocols = append(p.protocols, kmsg.JoinGroupRequestProtocol{Name: r.string(), Metadata: r.bytes()})
		r.tags(nil)
	})
	r.tags(nil)
	if len(p.protocols) == 0 && r.err == nil {
		r.err = errRecord
	}
	return p
}

func cloneProtocols(protocols []kmsg.JoinGroupRequestProtocol) []kmsg.JoinGroupRequestProtocol {
	out := make([]kmsg.JoinGroupRequestProtocol, len(protocols))
	for i, p := range protocols {
		out[i] = kmsg.JoinGroupRequestProtocol{Name: p.Name, Metadata: bytes.Clone(p.Metadata)}
	}
	return out
}

// subscriptionIn reads the subscription in classic metadata.
func subscriptionIn(metadata []byte) (kmsg.ConsumerMemberMetadata, bool) {
	var s kmsg.ConsumerMemberMetadata
	return s, s.ReadFrom(metadata) == nil
}

// idsOf are partitions by name as partitions by id; topics that do not exist are left out.
func idsOf[T any](topics Topics, list []T, split func(T) (string, []int32)) assignor.Assignment {
	a := assignor.Assignment{}
	for _, x := range list {
		name, partitions := split(x)
		if t, ok := topics.TopicByName(name); ok && len(partitions) > 0 {
			a[t.ID] = sortedInts(slices.Clone(partitions))
		}
	}
	return a
}

// mixedJoinTimer ends the wait for a member of the classic protocol to rejoin, mixedSyncTimer that for its SyncGroup.
func mixedJoinTimer(member string) string { return "join " + member }
func mixedSyncTimer(member string) string { return "sync " + member }

// awaitClassic fences a member of the classic protocol that does not do in time what the timer waits for.
func (cg *consumerGroup) awaitClassic(now time.Time, m *consumerMember, timer string) {
	id := m.id
	cg.g.timers.schedule(cg.name, timer, now.Add(millis(m.rebalanceTimeoutMs)), func(now time.Time, e *Effects) {
		cg.fence(now, []string{id}, e)
	})
}

func (cg *consumerGroup) joinGroup(now time.Time, c Caller, req *kmsg.JoinGroupRequest, e *Effects) *kmsg.JoinGroupResponse {
	fail := func(code int16) *kmsg.JoinGroupResponse { return joinError(c.Version, code, req.MemberID) }
	id := req.MemberID
	if id == "" {
		id = cg.g.newKafkaUUID()
	}
	switch {
	case len(cg.members) == 0:
		return fail(errorcode.UnknownMemberID) // a joiner without an id would have made it a classic group
	case cg.g.config.ConsumerMigrationPolicy == migrateNever:
		return fail(errorcode.InconsistentGroupProtocol)
	case cg.full(id, req.InstanceID) != nil:
		return fail(errorcode.GroupMaxSizeReached)
	case !cg.supports(req.ProtocolType, req.Protocols):
		return fail(errorcode.InconsistentGroupProtocol)
	case req.MemberID == "" && req.InstanceID == nil && c.Version >= joinRequiresMemberID:
		return joinError(c.Version, errorcode.MemberIDRequired, id)
	}
	subscription, ok := subscriptionIn(req.Protocols[0].Metadata)
	if !ok {
		return fail(errorcode.InconsistentGroupProtocol)
	}
	before, replaces, code := cg.joining(id, req)
	if code != errorcode.None {
		return fail(code)
	}
	downgrades := replaces != nil && cg.downgrades([]string{replaces.id}, 1)
	m := before.clone()
	m.updateClassic(c, req, subscription)
	owns := ownedTopics{}
	owned := idsOf(cg.g.topics, subscription.OwnedPartitions, func(p kmsg.ConsumerMemberMetadataOwnedPartition) (string, []int32) {
		return p.Topic, p.Partitions
	})
	for _, t := range listed(owned) {
		owns = append(owns, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t, Partitions: owned[t]})
	}
	m = cg.update(now, c, before, m, replaces, owns, e)
	cg.g.timers.cancel(cg.name, mixedJoinTimer(m.id))
	if downgrades {
		cg.downgrade(now, nil, e)
	} else {
		cg.awaitClassic(now, m, mixedSyncTimer(m.id))
	}
	return m.classicJoined(c.Version)
}

// joinRequiresMemberID is the first version of JoinGroup whose dynamic members come back with the id they are given.
const joinRequiresMemberID = 4

// supports reports whether a joiner has a protocol that all members of the classic protocol have.
func (cg *consumerGroup) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if protocolType != consumerProtocol || len(protocols) == 0 {
		return false
	}
	return slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		for _, m := range cg.members {
			if m.classic != nil && !slices.ContainsFunc(m.classic.protocols, func(q kmsg.JoinGroupRequestProtocol) bool { return q.Name == p.Name }) {
				return false
			}
		}
		return true
	})
}

// joining is the member that a JoinGroup makes, renews or, by its instance, replaces.
func (cg *consumerGroup) joining(id string, req *kmsg.JoinGroupRequest) (m, replaces *consumerMember, code int16) {
	if req.InstanceID == nil {
		return cg.memberOrNew(id), nil, errorcode.None
	}
	old := cg.staticMember(*req.InstanceID)
	switch {
	case old == nil && req.MemberID == "":
		return cg.memberOrNew(id), nil, errorcode.None
	case old == nil:
		return nil, nil, errorcode.UnknownMemberID
	case req.MemberID == "":
		taken := old.clone()
		taken.id, taken.epoch, taken.previousEpoch = id, 0, 0
		return taken, old, errorcode.None
	case old.id != req.MemberID:
		return nil, nil, errorcode.FencedInstanceID
	}
	return old, nil, errorcode.None
}

func (m *consumerMember) updateClassic(c Caller, req *kmsg.JoinGroupRequest, s kmsg.ConsumerMemberMetadata) {
	if req.InstanceID != nil {
		m.instance = clonePtr(req.InstanceID)
	}
	if s.Rack != nil && *s.Rack != "" {
		m.rack = clonePtr(s.Rack)
	}
	if req.RebalanceTimeoutMillis != -1 {
		m.rebalanceTimeoutMs = req.RebalanceTimeoutMillis
	}
	m.topics, m.regex = distinct(s.Topics), new(string)
	m.clientID, m.clientHost = c.ClientID, c.ClientHost
	m.classic = &classicProtocol{sessionTimeoutMs: req.SessionTimeoutMillis, protocols: cloneProtocols(req.Protocols)}
}

// classicJoined tells a member that it is a follower in a generation.
func (m *consumerMember) classicJoined(version int16) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	protocolType, protocol := consumerProtocol, m.classic.protocols[0].Name
	resp.Version, resp.Generation, resp.MemberID = version, m.epoch, m.id
	resp.ProtocolType, resp.Protocol = &protocolType, &protocol
	return resp
}

// classicMember is the member of a classic request, by its instance if it has one.
func (cg *consumerGroup) classicMember(id string, instance *string) (*consumerMember, int16) {
	m, fail := cg.member(id, instance)
	if fail != nil {
		return nil, fail.code
	}
	if m.classic == nil {
		return nil, errorcode.UnknownMemberID
	}
	return m, errorcode.None
}

func (cg *consumerGroup) syncGroup(now time.Time, _ Caller, req *kmsg.SyncGroupRequest, _ *Effects) *kmsg.SyncGroupResponse {
	m, code := cg.classicMember(req.MemberID, req.InstanceID)
	switch {
	case code != errorcode.None:
		return syncError(code)
	case req.Generation != m.epoch:
		return syncError(errorcode.IllegalGeneration)
	case req.ProtocolType != nil && *req.ProtocolType != consumerProtocol,
		req.Protocol != nil && *req.Protocol != m.classic.protocols[0].Name:
		return syncError(errorcode.InconsistentGroupProtocol)
	case cg.assignmentEpoch > m.epoch && m.state != memberUnrevoked:
		cg.expectRejoin(now, m)
		return syncError(errorcode.RebalanceInProgress)
	}
	cg.g.timers.cancel(cg.name, mixedSyncTimer(m.id))
	cg.beat(now, m)
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ProtocolType, resp.Protocol = req.ProtocolType, req.Protocol
	resp.MemberAssignment = cg.classicAssignment(m)
	return resp
}

// classicAssignment is a member's assignment in the version of the metadata that it sent.
func (cg *consumerGroup) classicAssignment(m *consumerMember) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	if s, ok := subscriptionIn(m.classic.protocols[0].Metadata); ok {
		a.Version = s.Version
	}
	partitions := m.assigned.partitions()
	for _, id := range listed(partitions) {
		if t, ok := cg.g.topics.TopicByID(id); ok {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: t.Name, Partitions: partitions[id]})
		}
	}
	return a.AppendTo(nil)
}

// expectRejoin gives a member its rebalance timeout to rejoin, from the first time that it is told to.
func (cg *consumerGroup) expectRejoin(now time.Time, m *consumerMember) {
	if !cg.g.timers.scheduled(cg.name, mixedJoinTimer(m.id)) {
		cg.awaitClassic(now, m, mixedJoinTimer(m.id))
	}
}

func (cg *consumerGroup) heartbeat(now time.Time, req *kmsg.HeartbeatRequest, _ *Effects) int16 {
	m, code := cg.classicMember(req.MemberID, req.InstanceID)
	if code != errorcode.None {
		return code
	}
	if req.Generation != m.epoch {
		return errorcode.IllegalGeneration
	}
	cg.beat(now, m)
	if m.epoch < cg.assignmentEpoch || m.state == memberUnrevoked || m.state == memberUnreleased && !cg.waits(m) {
		cg.expectRejoin(now, m)
		return errorcode.RebalanceInProgress
	}
	return errorcode.None
}

// waits reports whether another member still owns a partition of a member's target.
func (cg *consumerGroup) waits(m *consumerMember) bool {
	for t, ps := range cg.targets[m.id] {
		for _, p := range ps {
			if owner, ok := cg.owners[topicPartition{t, p}]; ok && owner != m.id {
				return true
			}
		}
	}
	return false
}

func (cg *consumerGroup) leaveGroup(now time.Time, members []kmsg.LeaveGroupRequestMember, e *Effects) []int16 {
	codes := make([]int16, len(members))
	var leaving []string
	for i, x := range members {
		id := x.MemberID
		if x.InstanceID != nil && id == "" {
			id = cg.static[*x.InstanceID]
		}
		m, fail := cg.member(id, x.InstanceID)
		if fail != nil {
			codes[i] = fail.code
		} else if !slices.Contains(leaving, m.id) {
			leaving = append(leaving, m.id)
		}
	}
	cg.fence(now, leaving, e)
	return codes
}
