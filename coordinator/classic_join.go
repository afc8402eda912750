package coordinator

import (
	"bytes"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// Versions from which requests and answers change their meaning.
const (
	joinNeedsMemberID          = 4 // MEMBER_ID_REQUIRED
	joinNullableProtocol       = 7
	joinSkipsAssignment        = 9
	syncChecksProtocol         = 5
	leaveHasMembers            = 3
	noGeneration         int32 = -1
)

// joinError is the answer to a JoinGroup that failed.
func joinError(version int16, code int16, memberID string) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version, resp.ErrorCode, resp.MemberID, resp.Generation = version, code, memberID, noGeneration
	if version < joinNullableProtocol {
		resp.Protocol = new(string)
	}
	return resp
}

// joined is the answer that makes m a member of the present generation; withMembers lists all members in it.
func (cg *classicGroup) joined(version int16, m *classicMember, leader string, withMembers bool) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version, resp.Generation = version, cg.generation
	protocolType, protocol := cg.protocols, cg.protocol
	resp.ProtocolType, resp.Protocol = &protocolType, &protocol
	resp.LeaderID, resp.MemberID = leader, m.id
	if !withMembers {
		return resp
	}
	for _, other := range cg.ordered() {
		x := kmsg.NewJoinGroupResponseMember()
		x.MemberID, x.InstanceID = other.id, other.instance
		x.ProtocolMetadata, _ = other.metadata(cg.protocol)
		resp.Members = append(resp.Members, x)
	}
	return resp
}

// completeJoin answers a member's parked JoinGroup, if there is one.
func (cg *classicGroup) completeJoin(m *classicMember, resp *kmsg.JoinGroupResponse, e *Effects) {
	if m.join == nil {
		return
	}
	e.complete(m.join.token, resp)
	m.join = nil
	cg.awaitingJoin--
}

// park lets a member's JoinGroup wait. One that waited before is answered with REBALANCE_IN_PROGRESS, which
// makes its client join again; Kafka never answers it.
func (cg *classicGroup) park(m *classicMember, c Caller, e *Effects) {
	if m.join != nil {
		cg.completeJoin(m, joinError(m.join.version, errorcode.RebalanceInProgress, m.id), e)
	}
	m.join = &parked{token: c.Token, version: c.Version}
	cg.awaitingJoin++
}

// joinGroup is a JoinGroup whose group exists.
func (cg *classicGroup) joinGroup(now time.Time, c Caller, req *kmsg.JoinGroupRequest, e *Effects) *kmsg.JoinGroupResponse {
	switch {
	case !cg.accepts(req.MemberID):
		cg.remove(req.MemberID, e)
		return joinError(c.Version, errorcode.GroupMaxSizeReached, "")
	case !cg.supports(req.ProtocolType, req.Protocols):
		return joinError(c.Version, errorcode.InconsistentGroupProtocol, req.MemberID)
	case req.MemberID != "":
		return cg.rejoin(now, c, req, e)
	case req.InstanceID != nil:
		return cg.joinStatic(now, c, req, e)
	case c.Version >= joinNeedsMemberID:
		id := c.ClientID + "-" + cg.g.newUUID()
		cg.pendingJoin[id] = true
		cg.beatFor(now, id, millis(req.SessionTimeoutMillis))
		return joinError(c.Version, errorcode.MemberIDRequired, id)
	default:
		cg.joinNew(now, c, req, c.ClientID+"-"+cg.g.newUUID(), e)
		return nil
	}
}

// accepts reports whether the group has room for a member. While it prepares a rebalance only those count that
// have joined, so that the last to rejoin are the ones that find it full.
func (cg *classicGroup) accepts(memberID string) bool {
	m := cg.members[memberID]
	switch cg.current {
	case classicEmpty:
		return true
	case classicPreparing:
		return m != nil && m.join != nil || cg.awaitingJoin < cg.g.config.GroupMaxSize
	default:
		return m != nil || len(cg.members) < cg.g.config.GroupMaxSize
	}
}

// joinNew makes a member and lets its JoinGroup wait.
func (cg *classicGroup) joinNew(now time.Time, c Caller, req *kmsg.JoinGroupRequest, id string, e *Effects) {
	m := &classicMember{id: id, clientID: c.ClientID, clientHost: c.ClientHost, instance: req.InstanceID, isNew: true}
	m.update(req)
	if cg.current == classicPreparing && cg.previous == classicEmpty {
		cg.newMember = true
	}
	m.join = &parked{token: c.Token, version: c.Version}
	cg.add(m, req.ProtocolType)
	cg.beatFor(now, id, newMemberJoinTimeout)
	cg.rebalanceOrComplete(now, e)
}

// update takes the timeouts and protocols of a JoinGroup.
func (m *classicMember) update(req *kmsg.JoinGroupRequest) {
	m.sessionTimeout, m.rebalanceTimeout = millis(req.SessionTimeoutMillis), millis(req.RebalanceTimeoutMillis)
	m.protocols = make([]kmsg.JoinGroupRequestProtocol, len(req.Protocols))
	for i, p := range req.Protocols {
		m.protocols[i] = kmsg.JoinGroupRequestProtocol{Name: p.Name, Metadata: bytes.Clone(p.Metadata)}
	}
}

// rejoin is the JoinGroup of a caller that names its member id.
func (cg *classicGroup) rejoin(now time.Time, c Caller, req *kmsg.JoinGroupRequest, e *Effects) *kmsg.JoinGroupResponse {
	if cg.pendingJoin[req.MemberID] {
		if req.InstanceID != nil {
			return joinError(c.Version, errorcode.UnknownServerError, req.MemberID)
		}
		cg.joinNew(now, c, req, req.MemberID, e)
		return nil
	}
	if code := cg.checkMember(req.MemberID, req.InstanceID); code != errorcode.None {
		return joinError(c.Version, code, req.MemberID)
	}
	m := cg.members[req.MemberID]
	leads := cg.leader == m.id
	unchanged := m.matches(req.Protocols)
	if unchanged && (cg.current == classicCompleting || cg.current == classicStable && !leads) {
		// It may have missed the answer of this generation. Only the leader of a stable group forces a new one.
		return cg.joined(c.Version, m, cg.leader, leads)
	}
	m.update(req)
	cg.park(m, c, e)
	cg.rebalanceOrComplete(now, e)
	return nil
}

// joinStatic is the JoinGroup of a static member that names no member id: a new one, or one that was restarted
// and takes the place of its former self under a new id.
func (cg *classicGroup) joinStatic(now time.Time, c Caller, req *kmsg.JoinGroupRequest, e *Effects) *kmsg.JoinGroupResponse {
	id := *req.InstanceID + "-" + cg.g.newUUID()
	oldID, ok := cg.instances[*req.InstanceID]
	if !ok {
		cg.joinNew(now, c, req, id, e)
		return nil
	}
	oldLeader := cg.leader
	m := cg.replace(oldID, id, e)
	m.update(req)
	cg.beat(now, m)
	if cg.current == classicStable && cg.choose() == cg.protocol {
		cg.store(e)
		if c.Version < joinSkipsAssignment {
			// Before SkipAssignment only a leader named by its former id keeps from assigning anew.
			return cg.joined(c.Version, m, oldLeader, false)
		}
		leads := cg.leader == id
		resp := cg.joined(c.Version, m, cg.leader, leads)
		resp.SkipAssignment = leads
		return resp
	}
	cg.park(m, c, e)
	cg.rebalanceOrComplete(now, e)
	return nil
}

// replace gives a static member a new id. What the old one had parked is fenced.
func (cg *classicGroup) replace(oldID, id string, e *Effects) *classicMember {
	m := cg.members[oldID]
	if m.join != nil {
		cg.completeJoin(m, joinError(m.join.version, errorcode.FencedInstanceID, oldID), e)
	}
	cg.completeSync(m, syncError(errorcode.FencedInstanceID), e)
	cg.g.timers.cancel(cg.name, classicSessionTimer(oldID))
	delete(cg.members, oldID)
	cg.members[id] = m
	for i, o := range cg.order {
		if o == oldID {
			cg.order[i] = id
		}
	}
	if cg.pendingSync[oldID] {
		delete(cg.pendingSync, oldID)
		cg.pendingSync[id] = true
	}
	if cg.leader == oldID {
		cg.leader = id
	}
	cg.instances[*m.instance] = id
	m.id, m.isNew = id, false
	return m
}

// rebalanceOrComplete begins a rebalance after a change of the members, or ends the one that is prepared if it
// waits for nobody any more. The initial delay is waited for in any case.
func (cg *classicGroup) rebalanceOrComplete(now time.Time, e *Effects) {
	switch {
	case cg.current == classicEmpty && len(cg.members) == 0:
	case cg.current != classicPreparing:
		cg.prepare(now, e)
	case cg.previous != classicEmpty && cg.allJoined():
		cg.completeGeneration(now, e)
	}
}

func (cg *classicGroup) allJoined() bool {
	return cg.awaitingJoin == len(cg.members) && len(cg.pendingJoin) == 0
}

// prepare begins a rebalance: all members have to join again.
func (cg *classicGroup) prepare(now time.Time, e *Effects) {
	if cg.current == classicCompleting {
		cg.propagate(now, nil, errorcode.RebalanceInProgress, e)
	}
	cg.g.timers.cancel(cg.name, classicSyncTimer)
	initial := cg.current == classicEmpty
	cg.transition(now, classicPreparing)
	switch {
	case initial:
		cg.newMember = false
		delay := cg.g.config.InitialRebalanceDelay
		cg.delayInitial(now, delay, max(cg.rebalanceTimeout()-delay, 0), e)
	case cg.allJoined():
		cg.completeGeneration(now, e)
	default:
		cg.g.timers.schedule(cg.name, classicJoinTimer, now.Add(cg.rebalanceTimeout()), cg.completeGeneration)
	}
}

// delayInitial lets the first members of a group wait for more, anew while new ones come and until left is used up.
func (cg *classicGroup) delayInitial(now time.Time, delay, left time.Duration, e *Effects) {
	if delay == 0 {
		cg.completeGeneration(now, e)
		return
	}
	cg.g.timers.schedule(cg.name, classicJoinTimer, now.Add(delay), func(now time.Time, e *Effects) {
		if !cg.newMember || left == 0 {
			cg.completeGeneration(now, e)
			return
		}
		cg.newMember = false
		cg.delayInitial(now, min(cg.g.config.InitialRebalanceDelay, left), max(left-delay, 0), e)
	})
}

// completeGeneration ends the joining: dynamic members that did not rejoin are dropped, static ones are kept,
// and all who wait get the new generation.
func (cg *classicGroup) completeGeneration(now time.Time, e *Effects) {
	cg.g.timers.cancel(cg.name, classicJoinTimer)
	for _, m := range cg.ordered() {
		if m.join == nil && m.instance == nil {
			cg.remove(m.id, e)
		}
	}
	if len(cg.members) > 0 && !cg.electJoined() {
		// At least 1 ms on, so that a timeout of 0 does not keep Expire from ending.
		at := now.Add(max(cg.rebalanceTimeout(), time.Millisecond))
		cg.g.timers.schedule(cg.name, classicJoinTimer, at, cg.completeGeneration)
		return
	}
	cg.nextGeneration(now)
	if cg.current == classicEmpty {
		cg.store(e)
		return
	}
	clear(cg.pendingSync)
	for _, m := range cg.ordered() {
		if m.join != nil {
			cg.completeJoin(m, cg.joined(m.join.version, m, cg.leader, cg.leader == m.id), e)
		}
		cg.beat(now, m)
		m.isNew = false
		cg.pendingSync[m.id] = true
	}
	cg.g.timers.schedule(cg.name, classicSyncTimer, now.Add(cg.rebalanceTimeout()), cg.expireSync)
}

// electJoined keeps the leader if it joined, else takes the first member that did. It reports whether there is one.
func (cg *classicGroup) electJoined() bool {
	if cg.members[cg.leader].join != nil {
		return true
	}
	for _, m := range cg.ordered() {
		if m.join != nil {
			cg.leader = m.id
			return true
		}
	}
	return false
}

// expireSync removes the members that never sent SyncGroup.
func (cg *classicGroup) expireSync(now time.Time, e *Effects) {
	if len(cg.pendingSync) == 0 {
		return
	}
	for _, m := range cg.ordered() {
		if cg.pendingSync[m.id] {
			cg.remove(m.id, e)
		}
	}
	cg.prepare(now, e)
}

func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }
