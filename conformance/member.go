package conformance

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// memberRules are about heartbeats and membership of share groups.
var memberRules = []Rule{
	{ID: "share.member.join.1", Level: Must, Source: "KIP-932", Says: "The first heartbeat of a member, and the first after UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH, has the epoch 0.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			if q.MemberEpoch == -1 || m.beat.is() && !m.left.is() && !m.fenced.is() {
				return
			}
			why, frames := "it is the first of the member", []int{}
			switch {
			case m.fenced.is():
				why, frames = "the last was answered "+codeName(m.code), []int{m.fenced.no}
			case m.left.is():
				why, frames = "the member has left", []int{m.left.no}
			}
			x.expect(q.MemberEpoch == 0, frames, "the heartbeat has the epoch %d, and %s", q.MemberEpoch, why)
		})},
	{ID: "share.member.join.2", Level: Must, Source: "KIP-932: INVALID_REQUEST", Says: "A heartbeat with the epoch 0 names at least one topic.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			if q.MemberEpoch == 0 {
				x.expect(len(q.SubscribedTopicNames) > 0, nil, "SubscribedTopicNames is %s", nullOrEmpty(q.SubscribedTopicNames == nil))
			}
		})},
	{ID: "share.member.join.3", Level: Must, Source: "KIP-932: INVALID_REQUEST", Says: "RackId is null or not empty.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			x.expect(q.RackID == nil || *q.RackID != "", nil, "RackId is empty")
		})},
	{ID: "share.member.epoch.1", Level: Must, Source: "KIP-932: FENCED_MEMBER_EPOCH", Says: "A heartbeat carries the member epoch of the last answer.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			if q.MemberEpoch <= 0 || !m.joined {
				return
			}
			unread := m.over != nil && m.over.gone || !x.old(m.told)
			x.expect(q.MemberEpoch == m.epoch || unread && q.MemberEpoch == m.before, []int{m.told.no}, "the heartbeat has the epoch %d, the last answer had %d", q.MemberEpoch, m.epoch)
		})},
	{ID: "share.member.epoch.2", Level: Must, Source: "KIP-932", Says: "The member epoch is -1 or more.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			x.expect(q.MemberEpoch >= -1, nil, "the heartbeat has the epoch %d", q.MemberEpoch)
		})},
	{ID: "share.member.id.1", Level: Should, Source: "KIP-932; ShareHeartbeatRequestManager", Says: "A consumer keeps its member id when it is fenced and joins again.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			if q.MemberEpoch != 0 {
				return
			}
			if m.fenced.is() {
				x.right()
				return
			}
			last := r.conn.beats
			if !m.beat.is() && last != nil && last != m && last.group == m.group && last.fenced.is() {
				x.wrong([]int{last.fenced.no}, "the member %q was answered %s on this connection and comes back as %q", last.id, codeName(last.code), m.id)
			}
		})},
	{ID: "share.member.beat.1", Level: Must, Source: "KIP-932", Says: "While it is a member, a consumer's heartbeats follow the answers within the interval that it was told, and 3 s.", checks: checks{answered: func(x *exam, a *answer) {
		m := a.member
		if _, ok := a.p.(*kmsg.ShareGroupHeartbeatResponse); !ok || m == nil || !m.joined || m.interval == 0 {
			return
		}
		beats, allowed := m.beats, m.interval+beatGrace
		x.later(allowed, func(x *exam) {
			if m.beats > beats {
				x.right()
				return
			}
			if m.joined && m.client.connected() && m.over != nil && !m.over.gone {
				x.wrong([]int{a.no}, "the member %q of the group %q has sent no heartbeat for %s, its interval is %s", m.id, m.group, allowed, m.interval)
			}
		})
	}}},
	{ID: "share.member.beat.2", Level: Should, Source: "KIP-932", Says: "Heartbeats without a cause come no more often than twice the interval asks for.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			if q.MemberEpoch <= 0 || m.interval == 0 || q.SubscribedTopicNames != nil || m.failed || m.nulls == 0 {
				return
			}
			n := m.uncaused.add(r.mark, 10*m.interval, maxUncaused+1)
			x.expect(n <= maxUncaused, []int{m.uncaused.first()}, "more than %d heartbeats without a cause within %s, the interval is %s", maxUncaused, 10*m.interval, m.interval)
			if n > maxUncaused {
				m.uncaused.clear()
			}
		})},
	{ID: "share.member.beat.3", Level: Must, Source: "HeartbeatRequestState", Says: "One heartbeat is in flight at a time, but for the one that leaves.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			if q.MemberEpoch < 0 {
				return
			}
			if len(m.flight) > 0 {
				x.wrong([]int{m.flight[0].no}, "the heartbeat comes while one is not answered yet")
			} else {
				x.right()
			}
		})},
	{ID: "share.member.names.1", Level: Should, Source: "KIP-932", Says: "SubscribedTopicNames is null while the subscription is what the last answered heartbeat said.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			if q.MemberEpoch > 0 && m.joined && !m.failed && m.names != nil {
				x.expect(q.SubscribedTopicNames == nil || !sameNames(q.SubscribedTopicNames, m.names), []int{m.namesAt.no}, "SubscribedTopicNames repeats %d names", len(q.SubscribedTopicNames))
			}
		})},
	{ID: "share.member.names.2", Level: Must, Source: "KIP-932", Needs: NeedsDriver, Says: "A changed subscription is sent whole in one of the next two heartbeats."},
	{ID: "share.member.rack.1", Level: Should, Source: "KIP-932", Says: "RackId is sent when a member joins, and not again.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			if q.MemberEpoch > 0 && !m.failed {
				x.expect(q.RackID == nil, nil, "RackId is repeated by a heartbeat with the epoch %d", q.MemberEpoch)
			}
		})},
	{ID: "share.member.coord.1", Level: Must, Needs: NeedsNodes, Source: "KIP-932: NOT_COORDINATOR", Says: "Heartbeats go to the coordinator that FindCoordinator named last.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			may, of := x.coordinates(r.conn.client, groupCoordinator, q.GroupID, r.conn.node)
			if of != nil {
				x.expect(may, []int{of.told.no}, "the heartbeat goes to node %d, the coordinator of %q is node %d", r.conn.node, q.GroupID, of.node)
			}
		})},
	{ID: "share.member.coord.2", Level: Must, Source: "KIP-932: share coordinators are for brokers", Says: "The coordinator of a group is asked for with key type 0, never with type 2.", checks: on(func(x *exam, r *request, q *kmsg.FindCoordinatorRequest) {
		if q.CoordinatorType != transactionCoordinator {
			x.expect(q.CoordinatorType == groupCoordinator, nil, "the key type is %d", q.CoordinatorType)
		}
	})},
	{ID: "share.member.rate.1", Level: Should, Source: "KIP-580", Says: "A member that is fenced again and again joins with growing pauses: 20 times in 2 s at most.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			if q.MemberEpoch != 0 {
				return
			}
			n := m.joins.add(r.mark, joinWindow, maxJoins+1)
			x.expect(n <= maxJoins, []int{m.joins.first()}, "more than %d heartbeats with the epoch 0 within %s", maxJoins, joinWindow)
			if n > maxJoins {
				m.joins.clear()
			}
		})},
	{ID: "share.member.fence.1", Level: Must, Source: "KIP-932", Says: "A fenced member joins with its whole subscription, and adds no partition of its old assignment before it has a new one.", checks: checks{request: func(x *exam, r *request) {
		m := r.member
		if m == nil || m.left.is() {
			return
		}
		if q, ok := r.q.(*kmsg.ShareGroupHeartbeatRequest); ok {
			if m.fenced.is() && q.MemberEpoch >= 0 {
				x.expect(q.MemberEpoch == 0 && len(q.SubscribedTopicNames) > 0, []int{m.fenced.no}, "after %s the heartbeat has the epoch %d and %d names", codeName(m.code), q.MemberEpoch, len(q.SubscribedTopicNames))
			}
			return
		}
		at := m.fencedAt
		if r.share.fetch == nil || r.share.epoch < 0 || !at.is() || m.assigned.no > at.no || !x.old(at) {
			return
		}
		for i := range r.share.partitions {
			if p := &r.share.partitions[i]; len(p.batches) == 0 {
				x.wrong([]int{at.no}, "%s is added to a session after %s and before a new assignment", x.part(p.topicPartition), codeName(m.code))
				return
			}
		}
		x.right()
	}}},
	{ID: "share.member.leave.1", Level: Should, Source: "ShareConsumerImpl", Says: "A consumer that leaves closes its sessions before, or at the same time.", checks: onBeat(
		func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest, m *member) {
			if q.MemberEpoch != -1 || m.left.is() {
				return
			}
			left := r.no
			x.later(x.grace, func(x *exam) {
				for _, node := range m.nodes() {
					if s := m.sessions[node]; s.live() && m.left.no == left {
						x.wrong([]int{left, s.opened.no}, "the member %q has left, and its session with node %d is open %s later", m.id, node, x.grace)
						return
					}
				}
				x.right()
			})
		})},
	{ID: "share.member.leave.2", Level: Must, Source: "KIP-932", Says: "A member that has left sends nothing until it joins again, unless it ends a session.", checks: checks{request: func(x *exam, r *request) {
		m := r.member
		if m == nil || !m.left.is() || r.share != nil && r.share.epoch == -1 { // the end of a session is late by share.member.leave.1
			return
		}
		switch q, ok := r.q.(*kmsg.ShareGroupHeartbeatRequest); {
		case ok && q.MemberEpoch <= 0:
		case !x.old(m.left):
			x.right()
		default:
			x.wrong([]int{m.left.no}, "%s comes from a member that left %s ago", r.api.Name, x.now.Sub(m.left.at).Round(time.Millisecond))
		}
	}, answered: func(x *exam, a *answer) {
		if q, ok := a.q.(*kmsg.ShareGroupHeartbeatRequest); ok && q.MemberEpoch == -1 {
			x.right()
		}
	}}},
	{ID: "share.member.assign.1", Level: Must, Source: "KIP-932", Says: "A ShareFetch adds partitions of the last assignment only.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		m := r.member
		if s.fetch == nil || s.epoch < 0 || m == nil || !m.beat.is() {
			return
		}
		for i := range s.partitions {
			p := &s.partitions[i]
			if len(p.batches) > 0 || r.session.live() && s.epoch > 0 && r.session.parts[p.topicPartition] != nil {
				continue
			}
			gone, was := m.gone[p.topicPartition]
			if _, has := m.assignment[p.topicPartition]; has || was && !x.old(gone) {
				x.right()
				continue
			}
			frames := []int{m.assigned.no}
			if was {
				frames = []int{gone.no}
			}
			x.wrong(frames, "%s is added to a session and is not in the member's assignment", x.part(p.topicPartition))
			return
		}
	})},
	{ID: "share.member.assign.2", Level: Should, Source: "KIP-932", Needs: NeedsDriver, Says: "Each assigned partition with a known leader is in a session within 5 s while the application polls."},
	{ID: "share.member.assign.3", Level: Must, Source: "ShareSessionHandler", Says: "A partition that was taken away is forgotten, or its session ends, within 5 s.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		m := r.member
		if m == nil || s.epoch < 0 || len(m.gone) == 0 {
			return
		}
		for _, node := range m.nodes() {
			of := m.sessions[node]
			if !of.live() {
				continue
			}
			for _, tp := range ordered(of.parts) {
				gone, was := m.gone[tp]
				if !was || x.now.Sub(gone.at) <= forgetWithin || of.parts[tp].carrier || node == r.conn.node && slices.Contains(s.forgotten, tp) {
					continue
				}
				m.gone[tp] = r.mark // told once in 5 s
				x.wrong([]int{gone.no}, "%s was taken away %s ago and is still in the session with node %d", x.part(tp), x.now.Sub(gone.at).Round(time.Millisecond), node)
				return
			}
		}
		x.right()
	})},
	{ID: "share.member.assign.4", Level: Must, Source: "KIP-932", Says: "A null assignment changes nothing, an empty one takes everything away.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		m := r.member
		if m == nil || s.epoch < 0 || s.fetch == nil || !r.session.live() || !m.assigned.is() {
			return
		}
		if len(m.assignment) == 0 {
			for _, tp := range ordered(r.session.parts) {
				if _, was := m.gone[tp]; was && x.now.Sub(m.assigned.at) > forgetWithin && !r.session.parts[tp].carrier && !slices.Contains(s.forgotten, tp) {
					x.wrong([]int{m.assigned.no}, "the assignment has been empty for %s and %s is still in the session", x.now.Sub(m.assigned.at).Round(time.Millisecond), x.part(tp))
					return
				}
			}
			x.right()
			return
		}
		if m.nulls == 0 || m.failed || !m.joined {
			return
		}
		for _, tp := range s.forgotten {
			l := r.conn.client.leaders[tp]
			_, has := m.assignment[tp]
			if has && r.session.parts[tp] != nil && !r.session.parts[tp].failed && l != nil && l.node == r.conn.node && m.namesAt.no < m.assigned.no {
				x.wrong([]int{m.told.no, m.assigned.no}, "%s is forgotten while it is assigned: the last answer's assignment was null, which changes nothing", x.part(tp))
				return
			}
		}
		x.right()
	})},
}

const (
	groupCoordinator       = 0
	transactionCoordinator = 1
)

const (
	beatGrace    = 3 * time.Second
	maxUncaused  = 20
	joinWindow   = 2 * time.Second
	maxJoins     = 20
	forgetWithin = 5 * time.Second
)

// onBeat makes a check of heartbeats of share groups.
func onBeat(f func(*exam, *request, *kmsg.ShareGroupHeartbeatRequest, *member)) checks {
	return on(func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest) { f(x, r, q, r.member) })
}

// nodes are the nodes that a member has or had sessions with, in their order.
func (m *member) nodes() []int32 {
	var all []int32
	for n := range m.sessions {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

func nullOrEmpty(null bool) string {
	if null {
		return "null"
	}
	return "empty"
}

func sameNames(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
