package coordinator

import (
	"fmt"
)

// replayConsumer takes in a record of a consumer group: key versions 3 to 8 and 16.
func (g *Groups) replayConsumer(version int16, key, value []byte) error {
	parts := 1
	switch version {
	case keyConsumerMember, keyConsumerTarget, keyConsumerCurrent, keyConsumerRegularExpr:
		parts = 2
	}
	names, err := readKey(key, parts)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	cg := g.replayedConsumer(names[0], value != nil)
	if cg == nil {
		return nil
	}
	switch version {
	case keyConsumerEpoch:
		err = cg.replayEpoch(value)
	case keyConsumerTargetMetadata:
		err = cg.replayTargetMetadata(value)
	case keyConsumerMember:
		err = cg.replayMember(names[1], value)
	case keyConsumerTarget:
		err = cg.replayTarget(names[1], value)
	case keyConsumerCurrent:
		err = cg.replayCurrent(names[1], value)
	case keyConsumerRegularExpr:
		err = cg.replayRegex(names[1], value)
	}
	if err != nil {
		return fmt.Errorf("group %q: %w", names[0], err)
	}
	return nil
}

// replayedConsumer is the group that a record belongs to, made if the record is no tombstone. A group of another
// type under the id was replaced when the record was written.
func (g *Groups) replayedConsumer(id string, create bool) *consumerGroup {
	if cg, ok := g.groups[id].(*consumerGroup); ok {
		return cg
	}
	if !create {
		return nil
	}
	g.forget(id)
	cg := g.newConsumerGroup(id)
	cg.newTopics = true
	g.put(cg)
	return cg
}

func (cg *consumerGroup) replayEpoch(value []byte) error {
	if value == nil {
		cg.g.forget(cg.name)
		return nil
	}
	r := openValue(value)
	cg.epoch, cg.hash = r.int32(), 0
	r.tags(map[uint64]func(*recordReader){tagMetadataHash: func(r *recordReader) { cg.hash = r.int64() }})
	cg.stale = true // topics may have changed while nobody looked
	return r.err
}

func (cg *consumerGroup) replayTargetMetadata(value []byte) (err error) {
	if value == nil {
		cg.assignmentEpoch, cg.assignedMs = cg.g.config.Release.FirstEpoch, 0
		return nil
	}
	cg.assignmentEpoch, cg.assignedMs, err = readTargetMetadata(value)
	return err
}

func (cg *consumerGroup) replayMember(id string, value []byte) error {
	if value == nil {
		cg.unset(id)
		return nil
	}
	r := openValue(value)
	m := &consumerMember{id: id}
	if old := cg.members[id]; old != nil {
		m = old.clone()
	}
	m.instance, m.rack = r.nullable(), r.nullable()
	m.clientID, m.clientHost = r.string(), r.string()
	m.topics, m.regex = r.strings(), r.nullable()
	m.rebalanceTimeoutMs, m.serverAssignor = r.int32(), r.nullable()
	m.classic = nil
	r.tags(map[uint64]func(*recordReader){tagClassicMember: func(r *recordReader) { m.classic = readClassicProtocol(r) }})
	if r.err == nil {
		cg.set(m)
	}
	return r.err
}

func (cg *consumerGroup) replayTarget(id string, value []byte) error {
	if value == nil {
		delete(cg.targets, id)
		return nil
	}
	target, err := readTarget(value)
	if err == nil {
		cg.targets[id] = target
	}
	return err
}

func (cg *consumerGroup) replayCurrent(id string, value []byte) error {
	m := &consumerMember{id: id}
	if old := cg.members[id]; old != nil {
		m = old.clone()
	} else if value == nil {
		return nil
	}
	if value == nil {
		m.epoch, m.previousEpoch, m.state, m.assigned, m.revoking = epochLeave, epochLeave, memberStable, nil, nil
		cg.set(m)
		return nil
	}
	r := openValue(value)
	m.epoch, m.previousEpoch, m.state = r.int32(), r.int32(), r.int8()
	m.assigned, m.revoking = r.owned(m.epoch), r.owned(m.epoch)
	r.tags(nil)
	if r.err == nil {
		cg.set(m)
	}
	return r.err
}

func (cg *consumerGroup) replayRegex(pattern string, value []byte) error {
	if value == nil {
		delete(cg.regexes, pattern)
		return nil
	}
	r := openValue(value)
	x := &resolvedRegex{topics: distinct(r.strings()), version: r.int64(), ms: r.int64()}
	r.tags(nil)
	if r.err == nil {
		cg.regexes[pattern] = x
	}
	return r.err
}
