package coordinator

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// mayRead is the code for a request of the classic protocol to a group: 0, 30 or 24.
func (c Caller) mayRead(group string) int16 {
	if !c.allowed(kmsg.ACLOperationRead, kmsg.ACLResourceTypeGroup, group) {
		return errorcode.GroupAuthorizationFailed
	}
	if group == "" {
		return errorcode.InvalidGroupID
	}
	return errorcode.None
}

// take removes the answer to a token from those completed since there were n, nil if it is still parked.
func (e *Effects) take(n int, token any) kmsg.Response {
	for i := n; i < len(e.Completed); i++ {
		if e.Completed[i].Token == token {
			resp := e.Completed[i].Response
			e.Completed = slices.Delete(e.Completed, i, i+1)
			return resp
		}
	}
	return nil
}

// JoinGroup (key 11, versions 0 to 9) returns nil if the request is parked under c.Token.
func (g *Groups) JoinGroup(now time.Time, c Caller, req *kmsg.JoinGroupRequest, e *Effects) *kmsg.JoinGroupResponse {
	if code := c.mayRead(req.Group); code != errorcode.None {
		memberID := req.MemberID
		if code == errorcode.GroupAuthorizationFailed {
			memberID = ""
		}
		return joinError(c.Version, code, memberID)
	}
	if session := millis(req.SessionTimeoutMillis); session < g.config.GroupMinSession || session > g.config.GroupMaxSession {
		return joinError(c.Version, errorcode.InvalidSessionTimeout, req.MemberID)
	}
	if c.Version == 0 {
		req.RebalanceTimeoutMillis = req.SessionTimeoutMillis
	}
	gr := g.groups[req.Group]
	isNew := gr == nil
	if gr != nil && gr.kind() == consumerType && gr.state() == string(classicEmpty) && req.MemberID == "" {
		gr.tombstones(e)
		g.forget(req.Group)
		gr = nil
	}
	if gr == nil {
		if req.MemberID != "" {
			return joinError(c.Version, errorcode.UnknownMemberID, req.MemberID)
		}
		gr = g.newClassicGroup(req.Group)
	}
	server, ok := gr.(classicServer)
	if !ok {
		return joinError(c.Version, errorcode.InconsistentGroupProtocol, req.MemberID)
	}
	records, completed := len(e.Records), len(e.Completed)
	resp := server.joinGroup(now, c, req, e)
	if isNew && len(e.Records) == records {
		// A group that the log does not know would be lost by a restart.
		gr.(*classicGroup).storeNew(e)
	}
	if resp == nil {
		resp, _ = e.take(completed, c.Token).(*kmsg.JoinGroupResponse)
	}
	return resp
}

// SyncGroup (key 14, versions 0 to 5) returns nil if the request is parked under c.Token.
func (g *Groups) SyncGroup(now time.Time, c Caller, req *kmsg.SyncGroupRequest, e *Effects) *kmsg.SyncGroupResponse {
	fail := func(code int16) *kmsg.SyncGroupResponse {
		resp := syncError(code)
		resp.Version = c.Version
		return resp
	}
	if c.Version >= syncChecksProtocol && (req.ProtocolType == nil || req.Protocol == nil) {
		return fail(errorcode.InconsistentGroupProtocol)
	}
	if code := c.mayRead(req.Group); code != errorcode.None {
		return fail(code)
	}
	server, ok := g.groups[req.Group].(classicServer)
	if !ok {
		return fail(errorcode.UnknownMemberID)
	}
	completed := len(e.Completed)
	resp := server.syncGroup(now, c, req, e)
	if resp == nil {
		resp, _ = e.take(completed, c.Token).(*kmsg.SyncGroupResponse)
	}
	if resp != nil {
		resp.Version = c.Version
	}
	return resp
}

// Heartbeat (key 12, versions 0 to 4).
func (g *Groups) Heartbeat(now time.Time, c Caller, req *kmsg.HeartbeatRequest, e *Effects) *kmsg.HeartbeatResponse {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version = c.Version
	if resp.ErrorCode = c.mayRead(req.Group); resp.ErrorCode != errorcode.None {
		return resp
	}
	resp.ErrorCode = errorcode.UnknownMemberID
	if server, ok := g.groups[req.Group].(classicServer); ok {
		resp.ErrorCode = server.heartbeat(now, req, e)
	}
	return resp
}

// LeaveGroup (key 13, versions 0 to 5). Before version 3 it names one member, whose code is that of the answer.
func (g *Groups) LeaveGroup(now time.Time, c Caller, req *kmsg.LeaveGroupRequest, e *Effects) *kmsg.LeaveGroupResponse {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.Version = c.Version
	if resp.ErrorCode = c.mayRead(req.Group); resp.ErrorCode != errorcode.None {
		return resp
	}
	members := req.Members
	if c.Version < leaveHasMembers {
		members = []kmsg.LeaveGroupRequestMember{{MemberID: req.MemberID}}
	}
	codes := make([]int16, len(members))
	if server, ok := g.groups[req.Group].(classicServer); ok {
		codes = server.leaveGroup(now, members, e)
	} else {
		for i := range codes {
			codes[i] = errorcode.UnknownMemberID
		}
	}
	if c.Version < leaveHasMembers {
		resp.ErrorCode = codes[0]
		return resp
	}
	for i, m := range members {
		x := kmsg.NewLeaveGroupResponseMember()
		x.MemberID, x.InstanceID, x.ErrorCode = m.MemberID, m.InstanceID, codes[i]
		resp.Members = append(resp.Members, x)
	}
	return resp
}
