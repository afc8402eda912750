package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/coordinator/assignor"
	"kshare/protocol/errorcode"
)

// Values of group.consumer.migration.policy.
const (
	migrateBoth  = "bidirectional"
	migrateUp    = "upgrade"
	migrateDown  = "downgrade"
	migrateNever = "disabled"
)

// upgraded is the consumer group that a classic group becomes when a member of the consumer protocol joins. The
// classic group stays untouched until [consumerGroup.convert].
func (g *Groups) upgraded(classic *classicGroup) (*consumerGroup, *failure) {
	cg := g.newConsumerGroup(classic.name)
	cg.converts = classic
	if classic.current == classicEmpty {
		return cg, nil
	}
	refuse := func(because string) *failure {
		return &failure{errorcode.GroupIDNotFound, fmt.Sprintf(
			"Cannot upgrade classic group %s to consumer group because %s.", classic.name, because)}
	}
	policy := g.config.ConsumerMigrationPolicy
	switch {
	case policy != migrateBoth && policy != migrateUp:
		return nil, refuse("online upgrade is disabled")
	case classic.protocols != consumerProtocol:
		return nil, refuse("the group does not use the consumer embedded protocol")
	case len(classic.members) > g.config.ConsumerMaxSize:
		return nil, refuse("the group size exceeds the consumer group maximum size")
	}
	cg.epoch, cg.assignmentEpoch = classic.generation, classic.generation
	for _, old := range classic.ordered() {
		m, target, because := g.upgradedMember(classic, old)
		if because != "" {
			return nil, refuse(because)
		}
		cg.set(m)
		cg.targets[m.id] = target
	}
	cg.hash = topicHash(g.topics, cg.names())
	return cg, nil
}

// upgradedMember is a classic group's member in a consumer group; because says why it cannot be one.
func (g *Groups) upgradedMember(classic *classicGroup, old *classicMember) (m *consumerMember, target assignor.Assignment, because string) {
	metadata, ok := old.metadata(classic.protocol)
	if !ok {
		metadata = old.protocols[0].Metadata
	}
	subscription, ok := subscriptionIn(metadata)
	if !ok {
		return nil, nil, "the embedded consumer protocol is malformed"
	}
	target = assignor.Assignment{}
	if len(old.assignment) > 0 {
		var a kmsg.ConsumerMemberAssignment
		if a.ReadFrom(old.assignment) != nil {
			return nil, nil, "the embedded consumer protocol is malformed"
		}
		if len(a.UserData) > 0 {
			return nil, nil, "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before re-attempting the upgrade"
		}
		target = idsOf(g.topics, a.Topics, func(t kmsg.ConsumerMemberAssignmentTopic) (string, []int32) { return t.Topic, t.Partitions })
	}
	m = &consumerMember{
		id: old.id, clientID: old.clientID, clientHost: old.clientHost, instance: clonePtr(old.instance),
		rebalanceTimeoutMs: int32(old.rebalanceTimeout.Milliseconds()), topics: distinct(subscription.Topics),
		classic: &classicProtocol{int32(old.sessionTimeout.Milliseconds()), cloneProtocols(old.protocols)},
		epoch:   classic.generation, previousEpoch: classic.generation, assigned: owned{}, revoking: owned{},
	}
	if subscription.Rack != nil && *subscription.Rack != "" {
		m.rack = clonePtr(subscription.Rack)
	}
	for t, ps := range target {
		for _, p := range ps {
			m.assigned.set(t, p, classic.generation)
		}
	}
	return m, target, ""
}

// convert puts the group in the place of the classic group that it was made of.
func (cg *consumerGroup) convert(now time.Time, e *Effects) {
	classic := cg.converts
	cg.converts = nil
	classic.unload(errorcode.RebalanceInProgress, e)
	classic.tombstones(e)
	cg.g.forget(cg.name)
	if len(cg.members) == 0 {
		return
	}
	ids := sortedKeys(cg.members)
	for _, id := range ids {
		cg.recordMember(cg.members[id], e)
	}
	cg.recordEpoch(e)
	for _, id := range ids {
		cg.recordTarget(id, cg.targets[id], e)
	}
	cg.recordTargetMetadata(e)
	for _, id := range ids {
		cg.recordCurrent(cg.members[id], e)
		cg.beat(now, cg.members[id])
	}
}

// downgrades reports whether the group becomes a classic one when these members are gone and so many joined that
// use the classic protocol.
func (cg *consumerGroup) downgrades(without []string, joined int) bool {
	left := joined
	for id, m := range cg.members {
		if slices.Contains(without, id) {
			continue
		}
		if m.classic == nil {
			return false
		}
		left++
	}
	policy := cg.g.config.ConsumerMigrationPolicy
	return left > 0 && left <= cg.g.config.GroupMaxSize && (policy == migrateBoth || policy == migrateDown)
}

// downgrade makes a classic group of the members that are left, with a rebalance to begin with.
func (cg *consumerGroup) downgrade(now time.Time, without []string, e *Effects) {
	cg.tombstones(e)
	for _, id := range without {
		cg.unset(id)
	}
	cg.g.forget(cg.name)
	classic := cg.g.newClassicGroup(cg.name)
	classic.generation = cg.epoch
	for _, id := range sortedKeys(cg.members) {
		m := cg.members[id]
		old := &classicMember{
			id: m.id, clientID: m.clientID, clientHost: m.clientHost, instance: m.instance,
			rebalanceTimeout: millis(m.rebalanceTimeoutMs), sessionTimeout: millis(m.classic.sessionTimeoutMs),
			protocols: m.classic.protocols, assignment: cg.classicAssignment(m),
		}
		classic.add(old, consumerProtocol)
		classic.beat(now, old)
	}
	classic.protocol = classic.choose()
	classic.transition(now, classicStable)
	classic.computeSubscribed()
	classic.store(e)
	classic.prepare(now, e)
}
