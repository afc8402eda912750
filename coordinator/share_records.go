package coordinator

import (
	"maps"
	"slices"

	"kshare/coordinator/assignor"
)

// Keys of share groups' records.
const (
	keyShareMember         int16 = 10
	keyShareEpoch          int16 = 11
	keyShareTargetMetadata int16 = 12
	keyShareTarget         int16 = 13
	keyShareCurrent        int16 = 14
	keyShareState          int16 = 15
)

func (sg *shareGroup) recordEpoch(e *Effects) {
	w := newValue()
	w.int32(sg.epoch)
	w.int64(sg.hash)
	w.tags()
	e.record(sg.name, recordKey(keyShareEpoch, sg.name), w.b)
}

func (sg *shareGroup) recordMember(m *shareMember, e *Effects) {
	w := newValue()
	w.nullable(m.rack)
	w.string(m.clientID)
	w.string(m.clientHost)
	w.strings(m.topics)
	w.tags()
	e.record(sg.name, recordKey(keyShareMember, sg.name, m.id), w.b)
}

func (sg *shareGroup) recordTargetMetadata(e *Effects) {
	e.record(sg.name, recordKey(keyShareTargetMetadata, sg.name), appendTargetMetadata(sg.assignmentEpoch, sg.assignedMs))
}

func (sg *shareGroup) recordTarget(member string, target assignor.Assignment, e *Effects) {
	e.record(sg.name, recordKey(keyShareTarget, sg.name, member), appendTarget(target))
}

func (sg *shareGroup) recordCurrent(m *shareMember, e *Effects) {
	w := newValue()
	w.int32(m.epoch)
	w.int32(m.previousEpoch)
	w.int8(memberStable)
	w.length(len(m.assigned))
	for _, id := range listed(m.assigned) {
		w.topicID(id)
		w.int32s(m.assigned[id])
		w.tags()
	}
	w.tags()
	e.record(sg.name, recordKey(keyShareCurrent, sg.name, m.id), w.b)
}

func (sg *shareGroup) recordState(e *Effects) {
	w := newValue()
	for _, s := range []shareTopics{sg.initializing, sg.initialized} {
		w.length(len(s))
		for _, id := range s.ids() {
			w.topicID(id)
			w.string(s[id].name)
			w.int32s(s[id].sorted())
			w.tags()
		}
	}
	w.length(len(sg.deleting))
	for _, id := range slices.SortedFunc(maps.Keys(sg.deleting), assignor.CompareTopics) {
		w.topicID(id)
		w.string(sg.deleting[id])
		w.tags()
	}
	w.tags()
	e.record(sg.name, recordKey(keyShareState, sg.name), w.b)
}

// recordRemoval removes all that is stored for a member.
func (sg *shareGroup) recordRemoval(member string, e *Effects) {
	for _, key := range []int16{keyShareCurrent, keyShareTarget, keyShareMember} {
		e.record(sg.name, recordKey(key, sg.name, member), nil)
	}
}

// tombstones also asks for the deletion of the group's state.
func (sg *shareGroup) tombstones(e *Effects) {
	sg.deleteState(e)
	members := sortedKeys(sg.members)
	for _, key := range []int16{keyShareCurrent, keyShareTarget} {
		for _, id := range members {
			e.record(sg.name, recordKey(key, sg.name, id), nil)
		}
	}
	e.record(sg.name, recordKey(keyShareTargetMetadata, sg.name), nil)
	for _, id := range members {
		e.record(sg.name, recordKey(keyShareMember, sg.name, id), nil)
	}
	e.record(sg.name, recordKey(keyShareState, sg.name), nil)
	e.record(sg.name, recordKey(keyShareEpoch, sg.name), nil)
}
