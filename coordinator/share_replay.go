package coordinator

import (
	"fmt"

	"kshare/coordinator/assignor"
)

// replayShare takes in a record of a share group: key versions 10 to 15.
func (g *Groups) replayShare(version int16, key, value []byte) error {
	parts := 1
	switch version {
	case keyShareMember, keyShareTarget, keyShareCurrent:
		parts = 2
	}
	names, err := readKey(key, parts)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	sg := g.replayedShare(names[0], value != nil)
	if sg == nil {
		return nil
	}
	switch version {
	case keyShareEpoch:
		err = sg.replayEpoch(value)
	case keyShareTargetMetadata:
		err = sg.replayTargetMetadata(value)
	case keyShareMember:
		err = sg.replayMember(names[1], value)
	case keyShareTarget:
		err = sg.replayTarget(names[1], value)
	case keyShareCurrent:
		err = sg.replayCurrent(names[1], value)
	case keyShareState:
		err = sg.replayState(value)
	}
	if err != nil {
		return fmt.Errorf("group %q: %w", names[0], err)
	}
	return nil
}

// replayedShare is the group that a record belongs to, made if the record is no tombstone.
func (g *Groups) replayedShare(id string, create bool) *shareGroup {
	if sg, ok := g.groups[id].(*shareGroup); ok {
		return sg
	}
	if !create {
		return nil
	}
	g.forget(id)
	sg := g.newShareGroup(id)
	g.put(sg)
	return sg
}

func (sg *shareGroup) replayEpoch(value []byte) error {
	if value == nil {
		sg.g.forget(sg.name)
		return nil
	}
	r := openValue(value)
	sg.epoch, sg.hash = r.int32(), r.int64()
	sg.stale = true // topics may have changed while nobody looked
	r.tags(nil)
	return r.err
}

func (sg *shareGroup) replayTargetMetadata(value []byte) (err error) {
	if value == nil {
		sg.assignmentEpoch, sg.assignedMs = sg.g.config.Release.FirstEpoch, 0
		return nil
	}
	sg.assignmentEpoch, sg.assignedMs, err = readTargetMetadata(value)
	return err
}

// replayed is a copy of a member to be changed, a blank one if it is new.
func (sg *shareGroup) replayed(id string) *shareMember {
	if old := sg.members[id]; old != nil {
		m := *old
		return &m
	}
	return &shareMember{id: id}
}

func (sg *shareGroup) replayMember(id string, value []byte) error {
	if value == nil {
		delete(sg.members, id)
		return nil
	}
	r, m := openValue(value), sg.replayed(id)
	m.rack, m.clientID, m.clientHost, m.topics = r.nullable(), r.string(), r.string(), r.strings()
	r.tags(nil)
	if r.err == nil {
		sg.members[id] = m
	}
	return r.err
}

func (sg *shareGroup) replayTarget(id string, value []byte) error {
	if value == nil {
		delete(sg.targets, id)
		return nil
	}
	target, err := readTarget(value)
	if err == nil {
		sg.targets[id] = target
	}
	return err
}

func (sg *shareGroup) replayCurrent(id string, value []byte) error {
	m := sg.replayed(id)
	if value == nil {
		if sg.members[id] != nil {
			m.epoch, m.previousEpoch, m.assigned = epochLeave, epochLeave, nil
			sg.members[id] = m
		}
		return nil
	}
	r := openValue(value)
	m.epoch, m.previousEpoch = r.int32(), r.int32()
	r.int8() // the state, which is always stable
	m.assigned = assignor.Assignment{}
	r.each(func() {
		topic := r.topicID()
		if list := sortedInts(r.int32s()); len(list) > 0 {
			m.assigned[topic] = list
		}
		r.tags(nil)
	})
	r.tags(nil)
	if r.err == nil {
		sg.members[id] = m
	}
	return r.err
}

func (sg *shareGroup) replayState(value []byte) error {
	initializing, initialized, deleting := shareTopics{}, shareTopics{}, map[assignor.TopicID]string{}
	if value != nil {
		r := openValue(value)
		for _, s := range []shareTopics{initializing, initialized} {
			r.each(func() {
				id, name, partitions := r.topicID(), r.string(), r.int32s()
				if len(partitions) > 0 {
					s.add(id, name, 0, partitions...)
				}
				r.tags(nil)
			})
		}
		r.each(func() {
			id := r.topicID()
			deleting[id] = r.string()
			r.tags(nil)
		})
		r.tags(nil)
		if r.err != nil {
			return r.err
		}
	}
	sg.initializing, sg.initialized, sg.deleting = initializing, initialized, deleting
	return nil
}
