package coordinator

import (
	"bytes"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// syncError is the answer to a SyncGroup that failed.
func syncError(code int16) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = code
	return resp
}

// synced is the answer that hands a member its assignment.
func (cg *classicGroup) synced(m *classicMember) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	protocolType, protocol := cg.protocols, cg.protocol
	resp.ProtocolType, resp.Protocol, resp.MemberAssignment = &protocolType, &protocol, m.assignment
	return resp
}

// completeSync answers a member's parked SyncGroup and reports whether there was one.
func (cg *classicGroup) completeSync(m *classicMember, resp *kmsg.SyncGroupResponse, e *Effects) bool {
	if m.sync == nil {
		return false
	}
	resp.Version = m.sync.version
	e.complete(m.sync.token, resp)
	m.sync = nil
	return true
}

// propagate sets the assignments (none for a nil map) and answers the SyncGroups that wait.
func (cg *classicGroup) propagate(now time.Time, assignments map[string][]byte, code int16, e *Effects) {
	for _, m := range cg.ordered() {
		m.assignment = assignments[m.id]
		resp := syncError(code)
		if code == errorcode.None {
			resp = cg.synced(m)
		}
		if cg.completeSync(m, resp, e) {
			cg.beat(now, m)
		}
	}
}

func (cg *classicGroup) syncGroup(now time.Time, c Caller, req *kmsg.SyncGroupRequest, e *Effects) *kmsg.SyncGroupResponse {
	code := cg.checkMember(req.MemberID, req.InstanceID)
	switch {
	case code != errorcode.None:
	case req.Generation != cg.generation:
		code = errorcode.IllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != cg.protocols, req.Protocol != nil && *req.Protocol != cg.protocol:
		code = errorcode.InconsistentGroupProtocol
	case cg.current == classicPreparing:
		code = errorcode.RebalanceInProgress
	}
	if code != errorcode.None {
		return syncError(code)
	}
	m := cg.members[req.MemberID]
	delete(cg.pendingSync, m.id)
	if len(cg.pendingSync) == 0 {
		cg.g.timers.cancel(cg.name, classicSyncTimer)
	}
	if cg.current == classicStable {
		return cg.synced(m)
	}
	// A SyncGroup that waited before is answered so that its client joins again; Kafka never answers it.
	cg.completeSync(m, syncError(errorcode.RebalanceInProgress), e)
	m.sync = &parked{token: c.Token, version: c.Version}
	if cg.leader != m.id {
		return nil
	}
	assignments := make(map[string][]byte, len(req.GroupAssignment))
	for _, a := range req.GroupAssignment {
		assignments[a.MemberID] = bytes.Clone(a.MemberAssignment)
	}
	cg.propagate(now, assignments, errorcode.None, e)
	cg.store(e)
	cg.transition(now, classicStable)
	return nil
}

func (cg *classicGroup) heartbeat(now time.Time, req *kmsg.HeartbeatRequest, _ *Effects) int16 {
	if code := cg.checkMember(req.MemberID, req.InstanceID); code != errorcode.None {
		return code
	}
	if req.Generation != cg.generation {
		return errorcode.IllegalGeneration
	}
	cg.beat(now, cg.members[req.MemberID])
	if cg.current == classicPreparing {
		return errorcode.RebalanceInProgress
	}
	return errorcode.None
}

func (cg *classicGroup) leaveGroup(now time.Time, members []kmsg.LeaveGroupRequestMember, e *Effects) []int16 {
	codes := make([]int16, len(members))
	left := false
	for i, m := range members {
		id := m.MemberID
		if id == "" && m.InstanceID != nil {
			// An administrator removes a static member by its instance id alone.
			id = cg.instances[*m.InstanceID]
		}
		switch {
		case id == "":
			codes[i] = errorcode.UnknownMemberID
		case cg.pendingJoin[id]:
			cg.remove(id, e)
			left = true
		default:
			if codes[i] = cg.checkMember(id, m.InstanceID); codes[i] == errorcode.None {
				cg.remove(id, e)
				left = true
			}
		}
	}
	if left {
		cg.rebalanceOrComplete(now, e)
	}
	return codes
}
