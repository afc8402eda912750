package coordinator

import (
	"encoding/binary"
	"maps"
	"slices"

	"kshare/coordinator/assignor"
)

// Keys of consumer groups' records.
const (
	keyConsumerEpoch          int16 = 3
	keyConsumerTopics         int16 = 4 // written by Kafka before 4.1, only removed since
	keyConsumerMember         int16 = 5
	keyConsumerTargetMetadata int16 = 6
	keyConsumerTarget         int16 = 7
	keyConsumerCurrent        int16 = 8
)

// Tags in the values of consumer groups.
const (
	tagMetadataHash     = 0 // of keyConsumerEpoch
	tagClassicMember    = 0 // of keyConsumerMember
	tagAssignmentEpochs = 0 // of the partitions in keyConsumerCurrent
)

func (cg *consumerGroup) recordEpoch(e *Effects) {
	w := newValue()
	w.int32(cg.epoch)
	w.tags(int64Tag(tagMetadataHash, cg.hash)...)
	e.record(cg.name, recordKey(keyConsumerEpoch, cg.name), w.b)
}

func (cg *consumerGroup) recordMember(m *consumerMember, e *Effects) {
	w := newValue()
	w.nullable(m.instance)
	w.nullable(m.rack)
	w.string(m.clientID)
	w.string(m.clientHost)
	w.strings(distinct(m.topics))
	w.string(m.pattern())
	w.int32(m.rebalanceTimeoutMs)
	w.nullable(m.serverAssignor)
	w.tags(tag{tagClassicMember, m.classic.append()})
	e.record(cg.name, recordKey(keyConsumerMember, cg.name, m.id), w.b)
}

func (cg *consumerGroup) recordTargetMetadata(e *Effects) {
	e.record(cg.name, recordKey(keyConsumerTargetMetadata, cg.name), appendTargetMetadata(cg.assignmentEpoch, cg.assignedMs))
}

func (cg *consumerGroup) recordTarget(member string, target assignor.Assignment, e *Effects) {
	e.record(cg.name, recordKey(keyConsumerTarget, cg.name, member), appendTarget(target))
}

func (cg *consumerGroup) recordCurrent(m *consumerMember, e *Effects) {
	w := newValue()
	w.int32(m.epoch)
	w.int32(m.previousEpoch)
	w.int8(m.state)
	w.owned(m.assigned)
	w.owned(m.revoking)
	w.tags()
	e.record(cg.name, recordKey(keyConsumerCurrent, cg.name, m.id), w.b)
}

func (cg *consumerGroup) recordRegex(pattern string, r *resolvedRegex, e *Effects) {
	w := newValue()
	w.strings(r.topics)
	w.int64(r.version)
	w.int64(r.ms)
	w.tags()
	e.record(cg.name, recordKey(keyConsumerRegularExpr, cg.name, pattern), w.b)
}

func (cg *consumerGroup) recordRegexRemoval(pattern string, e *Effects) {
	e.record(cg.name, recordKey(keyConsumerRegularExpr, cg.name, pattern), nil)
}

// recordRemoval removes all that is stored for a member.
func (cg *consumerGroup) recordRemoval(member string, e *Effects) {
	for _, key := range []int16{keyConsumerCurrent, keyConsumerTarget, keyConsumerMember} {
		e.record(cg.name, recordKey(key, cg.name, member), nil)
	}
}

func (cg *consumerGroup) tombstones(e *Effects) {
	members := sortedKeys(cg.members)
	for _, key := range []int16{keyConsumerCurrent, keyConsumerTarget} {
		for _, id := range members {
			e.record(cg.name, recordKey(key, cg.name, id), nil)
		}
	}
	e.record(cg.name, recordKey(keyConsumerTargetMetadata, cg.name), nil)
	for _, id := range members {
		e.record(cg.name, recordKey(keyConsumerMember, cg.name, id), nil)
	}
	for _, pattern := range sortedKeys(cg.regexes) {
		cg.recordRegexRemoval(pattern, e)
	}
	e.record(cg.name, recordKey(keyConsumerEpoch, cg.name), nil)
}

// owned encodes partitions with their epochs.
func (w *recordWriter) owned(o owned) {
	w.length(len(o))
	for _, id := range listed(o.partitions()) {
		partitions := slices.Sorted(maps.Keys(o[id]))
		epochs := binary.AppendUvarint(nil, uint64(len(partitions))+1)
		for _, p := range partitions {
			epochs = binary.BigEndian.AppendUint32(epochs, uint32(o[id][p]))
		}
		w.topicID(id)
		w.int32s(partitions)
		w.tags(tag{tagAssignmentEpochs, epochs})
	}
}

func (r *recordReader) owned(memberEpoch int32) owned {
	o := owned{}
	r.each(func() {
		id, partitions := r.topicID(), r.int32s()
		var epochs []int32
		r.tags(map[uint64]func(*recordReader){tagAssignmentEpochs: func(r *recordReader) { epochs = r.int32s() }})
		for i, p := range partitions {
			epoch := memberEpoch // what Kafka assumes of records before 4.3
			if i < len(epochs) {
				epoch = epochs[i]
			}
			o.set(id, p, epoch)
		}
	})
	return o
}

func sortedInts(list []int32) []int32 {
	slices.Sort(list)
	return slices.Compact(list)
}
