package coordinator

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/coordinator/assignor"
)

// ownedTopics are the partitions that a client says it owns; nil says nothing.
type ownedTopics []kmsg.ConsumerGroupHeartbeatRequestTopic

// ownsAny reports whether the client may still own any of the partitions: it does unless it said otherwise.
func (o ownedTopics) ownsAny(of owned) bool {
	if o == nil {
		return true
	}
	for _, t := range o {
		for _, p := range t.Partitions {
			if _, ok := of[t.TopicID][p]; ok {
				return true
			}
		}
	}
	return false
}

// within reports whether the client said that it owns nothing but some of these partitions.
func (o ownedTopics) within(all owned) bool {
	if o == nil {
		return false
	}
	for _, t := range o {
		for _, p := range t.Partitions {
			if _, ok := all[t.TopicID][p]; !ok {
				return false
			}
		}
	}
	return true
}

func (m *consumerMember) reconciledTo(epoch int32) bool {
	return m.state == memberStable && m.epoch == epoch
}

// moveTo sets a member's epoch and keeps the one before, from which a client that lost the answer may come.
func (m *consumerMember) moveTo(epoch int32) {
	m.previousEpoch, m.epoch = m.epoch, epoch
}

// assign computes a new target if the group is ahead of the present one and the interval allows it.
func (cg *consumerGroup) assign(now time.Time, e *Effects) {
	if cg.assignmentEpoch >= cg.epoch {
		return
	}
	interval := cg.g.groupMillis(cg.name, "consumer.assignment.interval.ms", cg.g.config.ConsumerAssignmentInterval)
	if cg.g.config.Release.AssignmentInterval && !mayAssign(now, cg.assignedMs, interval) {
		return
	}
	spec := assignor.Spec{Topics: describeTopics(cg.g.topics, cg.names())}
	for _, id := range cg.order.walk(sortedKeys(cg.members)) {
		m := cg.members[id]
		spec.Members = append(spec.Members, assignor.Member{
			ID: id, Instance: m.instance, Topics: cg.subscription(m), Target: cg.targets[id],
		})
	}
	place, ok := assignor.ByName(cg.assignorName())
	if !ok {
		place = assignor.Uniform // the configuration allows no other
	}
	targets := place(spec)
	for _, m := range spec.Members {
		if target := targets[m.ID]; !target.Equal(m.Target) {
			cg.recordTarget(m.ID, target, e)
		}
		cg.targets[m.ID] = targets[m.ID]
	}
	cg.assignmentEpoch, cg.assignedMs = cg.epoch, now.UnixMilli()
	cg.recordTargetMetadata(e)
}

// reconcile brings a member one step nearer to its target: first it gives up what it is not to have, then it
// gets what nobody owns. Source: CurrentAssignmentBuilder.
func (cg *consumerGroup) reconcile(now time.Time, m *consumerMember, resubscribed bool, owns ownedTopics, e *Effects) *consumerMember {
	if !resubscribed && m.reconciledTo(cg.assignmentEpoch) {
		return m
	}
	next := m
	switch {
	case m.state == memberStable && m.epoch == cg.assignmentEpoch,
		m.state == memberUnrevoked && owns.ownsAny(m.revoking):
		if resubscribed {
			next = cg.dropUnsubscribed(m, owns)
		}
	default:
		next = cg.step(m, owns)
	}
	if next == m {
		return m
	}
	cg.set(next)
	cg.recordCurrent(next, e)
	if next.classic == nil {
		if next.state == memberUnrevoked {
			cg.startRevocation(now, next)
		} else {
			cg.g.timers.cancel(cg.name, rebalanceTimer(next.id))
		}
	}
	return next
}

// dropUnsubscribed takes topics from a member that it no longer subscribes to, without waiting for a target.
func (cg *consumerGroup) dropUnsubscribed(m *consumerMember, owns ownedTopics) *consumerMember {
	subscribed := cg.subscribed(m)
	next := m.clone()
	next.assigned, next.revoking = m.assigned.clone(), m.revoking.clone()
	dropped := false
	for t, ps := range m.assigned {
		if subscribed[t] {
			continue
		}
		dropped = true
		delete(next.assigned, t)
		for p, epoch := range ps {
			next.revoking.set(t, p, epoch)
		}
	}
	if !dropped {
		return m
	}
	next.moveTo(m.epoch)
	if owns.ownsAny(next.revoking) {
		next.state = memberUnrevoked
	} else {
		next.revoking = m.revoking
	}
	return next
}

// step is the next assignment of a member on its way to its target.
func (cg *consumerGroup) step(m *consumerMember, owns ownedTopics) *consumerMember {
	subscribed := cg.subscribed(m)
	target := cg.targets[m.id]
	kept, revoked := owned{}, owned{}
	for t, ps := range m.assigned {
		for p, epoch := range ps {
			if subscribed[t] && slices.Contains(target[t], p) {
				kept.set(t, p, epoch)
			} else {
				revoked.set(t, p, epoch)
			}
		}
	}
	next := m.clone()
	if len(revoked) > 0 && owns.ownsAny(revoked) {
		next.state, next.assigned, next.revoking = memberUnrevoked, kept, revoked
		next.moveTo(m.epoch)
		return next
	}
	next.state = memberStable
	for t, ps := range target {
		if !subscribed[t] {
			continue
		}
		for _, p := range ps {
			if _, has := kept[t][p]; has {
				continue
			}
			// What the member itself is giving up is its own, and free for it.
			if owner, ok := cg.owners[topicPartition{t, p}]; ok && owner != m.id {
				next.state = memberUnreleased
				continue
			}
			kept.set(t, p, cg.assignmentEpoch)
		}
	}
	next.assigned, next.revoking = kept, owned{}
	next.moveTo(cg.assignmentEpoch)
	return next
}

func sessionTimer(member string) string   { return "session " + member }
func rebalanceTimer(member string) string { return "rebalance " + member }

// beat begins a member's session anew.
func (cg *consumerGroup) beat(now time.Time, m *consumerMember) {
	timeout := cg.g.groupMillis(cg.name, "consumer.session.timeout.ms", cg.g.config.ConsumerSession)
	if m.classic != nil {
		timeout = millis(m.classic.sessionTimeoutMs)
	}
	id := m.id
	cg.g.timers.schedule(cg.name, sessionTimer(id), now.Add(timeout), func(now time.Time, e *Effects) {
		cg.fence(now, []string{id}, e)
	})
}

// startRevocation gives a member its rebalance timeout to give partitions up.
func (cg *consumerGroup) startRevocation(now time.Time, m *consumerMember) {
	id, epoch := m.id, m.epoch
	cg.g.timers.schedule(cg.name, rebalanceTimer(id), now.Add(millis(m.rebalanceTimeoutMs)), func(now time.Time, e *Effects) {
		if m := cg.members[id]; m != nil && m.epoch == epoch && m.state == memberUnrevoked {
			cg.fence(now, []string{id}, e)
		}
	})
}

// fence removes members, which makes a new epoch. Where only members of the classic protocol are left, the group
// becomes a classic one.
func (cg *consumerGroup) fence(now time.Time, ids []string, e *Effects) {
	if len(ids) == 0 {
		return
	}
	if cg.downgrades(ids, 0) {
		cg.downgrade(now, ids, e)
		return
	}
	before := cg.regexCounts()
	for _, id := range ids {
		cg.remove(id, e)
	}
	for pattern := range before {
		if cg.regexCounts()[pattern] == 0 {
			cg.forgetRegex(pattern, e)
		}
	}
	cg.bump(e)
	if len(cg.members) == 0 {
		cg.assignmentEpoch, cg.assignedMs = cg.epoch, 0
		cg.recordTargetMetadata(e)
	}
}

// remove takes a member out with all that is stored for it.
func (cg *consumerGroup) remove(id string, e *Effects) {
	cg.unset(id)
	delete(cg.targets, id)
	cg.recordRemoval(id, e)
	cg.cancelTimers(id)
}

func (cg *consumerGroup) cancelTimers(id string) {
	for _, name := range []string{sessionTimer(id), rebalanceTimer(id), mixedJoinTimer(id), mixedSyncTimer(id)} {
		cg.g.timers.cancel(cg.name, name)
	}
}

// bump makes a new epoch for what members subscribe to and what of it exists.
func (cg *consumerGroup) bump(e *Effects) {
	cg.epoch++
	cg.hash, cg.stale = topicHash(cg.g.topics, cg.names()), false
	cg.recordEpoch(e)
}
